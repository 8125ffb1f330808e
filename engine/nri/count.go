package nri

import (
	"errors"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/metrics"
)

// CountBy has the engine count in metrics that are served. It is for the time before Run.
func (e *Engine) CountBy(m *metrics.Metrics) { e.metrics = m }

// refusalReason is why a container, or its resize, was refused.
func refusalReason(p *Pod, ctr *Container, err error) metrics.Reason {
	_, annotations := kube.Parse(p.Annotations)
	switch {
	case errors.Is(err, hybrid.ErrNoCapacity):
		return metrics.NoCapacity
	case errors.Is(err, hybrid.ErrViewImpossible):
		return metrics.ViewImpossible
	case errors.Is(err, hybrid.ErrIDTaken):
		return metrics.NameTaken
	case errors.Is(err, hybrid.ErrBadRequest), errors.Is(err, host.ErrBadSpec):
		return metrics.BadRequest
	case annotations != nil:
		return metrics.BadAnnotation
	case ctr.CPUs != "":
		return metrics.OthersCPUs
	default:
		return metrics.Other
	}
}

// downgradeReason is why a container that is called sensitive is not.
func downgradeReason(ctr *CPU) metrics.Reason {
	if ctr.limit() == 0 {
		return metrics.NoLimit
	}
	return metrics.RequestNotLimit
}
