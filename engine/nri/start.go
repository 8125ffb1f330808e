package nri

import (
	"context"

	"github.com/candor-project/candor/host"
)

// Start handles the event that the container's cgroup and first process exist, before the program runs. It applies the present
// grant to the cgroup.
func (e *Engine) Start(ctx context.Context, p *Pod, ctr *Container) error {
	ctr.PID = e.firstOf(p, ctr)
	a, _, preserved, err := e.asks(p, ctr)
	switch {
	case err != nil:
		return err
	case preserved:
		return e.preserve(ctx, p, ctr)
	case e.host.MatchesGrant(&a, ctr.PID):
		e.noteLater(a, ctr.PID)
		return nil
	default:
		return e.host.ConfirmStart(ctx, a, ctr.PID)
	}
}

// asks returns the request of an existing container. A planned container stays planned, even if its namespace has become
// preserved: the runtime has recorded Candor's CPUs for it.
func (e *Engine) asks(p *Pod, ctr *Container) (a host.Allocation, why string, preserved bool, err error) {
	a, why, preserved, err = allocation(e.config.Load(), p, ctr)
	if !preserved {
		return a, why, preserved, err
	}
	planned := *ctr
	planned.Planned = true
	b, why, _, err := allocation(e.config.Load(), p, &planned)
	if err != nil {
		return a, "", true, nil //nolint:nilerr // the container stays preserved
	}
	if g, err := e.grant(b.ID); err == nil && g != nil && g.Engine.Cgroup == b.Engine.Cgroup {
		return b, why, false, nil
	}
	return a, "", true, nil
}
