package nri

import (
	"fmt"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/kube/nodecpu"
)

// hint is what the scheduler has counted with for a container; nil: nothing that can be followed. One that cannot be read is no
// reason to refuse anybody.
func (e *Engine) hint(p *Pod, ctr *Container) *hybrid.Hint {
	text, isHinted := p.Annotations[kube.HintKey]
	if !isHinted {
		return nil
	}
	h, err := hintFor(text, ctr.Name)
	if err != nil {
		e.metrics.MalformedHint()
		e.log.Warn("planned anew: its hint cannot be read", "container", fullName(p, ctr), "reason", err)
	}
	return h
}

// hintFor reads what a hint says of one container; nil: nothing.
func hintFor(text, container string) (*hybrid.Hint, error) {
	said, err := kube.ParseHint(text)
	if err != nil {
		return nil, err
	}
	list, isNamed := said.Containers[container]
	if !isNamed {
		return nil, nil
	}
	var h hybrid.Hint
	if h.Exclusive, h.Fractions, err = nodecpu.ParseCPUs(list); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", kube.HintKey, err)
	}
	return &h, nil
}
