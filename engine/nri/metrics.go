package nri

import (
	"errors"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/metrics"
)

// CountBy makes the engine count its events in metrics. It must be called before Run.
func (e *Engine) CountBy(m *metrics.Metrics) { e.metrics = m }

// refusalReason returns the reason, as a label, of the refusal of a container or of its resize.
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

// downgradeReason returns the reason, as a label, why a container with the class sensitive is treated as flexible.
func downgradeReason(ctr *CPU) metrics.Reason {
	if ctr.limit() == 0 {
		return metrics.NoLimit
	}
	return metrics.RequestNotLimit
}
