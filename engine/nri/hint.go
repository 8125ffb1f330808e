package nri

import (
	"fmt"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/metrics"
)

// hint returns the scheduler's hint for a container, or nil if there is no usable hint. With an invalid hint, the engine
// plans the container as without a hint.
func (e *Engine) hint(p *Pod, ctr *Container) *hybrid.Hint {
	text, isHinted := p.Annotations[kube.HintKey]
	if !isHinted {
		return nil
	}
	node, h, err := hintFor(text, ctr.Name)
	switch {
	case err != nil:
		e.metrics.HintPassedOver(metrics.HintMalformed)
		e.log.Warn("planned again: cannot read the hint", "container", fullName(p, ctr), "id", grantName(p, ctr.Name), "reason", err)
		return nil
	case h != nil && e.node != "" && node != e.node:
		e.metrics.HintPassedOver(metrics.HintForeign)
		e.log.Warn("planned again: the hint is for another node", "container", fullName(p, ctr), "id", grantName(p, ctr.Name), "hinted", node, "node", e.node)
		return nil
	}
	return h
}

// hintFor parses a hint. It returns the node of the hint, and the hint's CPUs for a container. The CPUs are nil if the hint does not name
// the container.
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
