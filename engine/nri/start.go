package nri

import (
	"context"

	"github.com/candor-project/candor/host"
)

// Start is told when the container's group and first process are there, and nothing of it
// has run. Its group gets what its grant says now.
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

// asks is what a container that is made already asks for. One that is planned stays so, also where its
// namespace is preserved since: the CPUs that the runtime has recorded for it are Candor's own.
func (e *Engine) asks(p *Pod, ctr *Container) (a host.Allocation, why string, preserved bool, err error) {
	a, why, preserved, err = allocation(e.config.Load(), p, ctr)
	if !preserved {
		return a, why, preserved, err
	}
	planned := *ctr
	planned.Planned = true
	b, why, _, err := allocation(e.config.Load(), p, &planned)
	if err != nil {
		return a, "", true, nil
	}
	if g, err := e.grant(b.ID); err == nil && g != nil && g.Engine.Cgroup == b.Engine.Cgroup {
		return b, why, false, nil
	}
	return a, "", true, nil
}
