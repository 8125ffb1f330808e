package nri

import (
	"fmt"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/metrics"
)

// hint is what the scheduler has counted with for a container; nil: nothing that can be followed. One that cannot be read is no
// reason to refuse anybody.
func (e *Engine) hint(p *Pod, ctr *Container) *hybrid.Hint {
	text, isHinted := p.Annotations[kube.HintKey]
	if !isHinted {
		return nil
	}
	node, h, err := hintFor(text, ctr.Name)
	switch {
	case err != nil:
		e.metrics.HintPassedOver(metrics.HintMalformed)
		e.log.Warn("planned anew: its hint cannot be read", "container", fullName(p, ctr), "reason", err)
		return nil
	case h != nil && e.node != "" && node != e.node:
		e.metrics.HintPassedOver(metrics.HintForeign)
		e.log.Warn("planned anew: its hint is for another node", "container", fullName(p, ctr), "hinted", node, "node", e.node)
		return nil
	}
	return h
}

// hintFor reads the node that a hint is for, and what it says of one container; nil: nothing.
func hintFor(text, container string) (node string, h *hybrid.Hint, err error) {
	said, err := kube.ParseHint(text)
	if err != nil {
		return "", nil, err
	}
	list, isNamed := said.Containers[container]
	if !isNamed {
		return said.Node, nil, nil
	}
	h = &hybrid.Hint{}
	if h.Exclusive, h.Fractions, err = nodecpu.ParseCPUs(list); err != nil {
		return "", nil, fmt.Errorf("annotation %s: %w", kube.HintKey, err)
	}
	return said.Node, h, nil
}
