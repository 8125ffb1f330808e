package nri

import (
	"fmt"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/spec"
	"github.com/candor-project/candor/view"
)

// A Reply holds the settings that the runtime applies to a container. The zero Reply changes nothing.
type Reply struct {
	CPUs   string // not empty, except in the zero Reply
	Mems   string // "": unchanged
	Quota  int64  // microseconds per period, -1: none
	Period int64  // microseconds
	Shares int64
	Binds  []view.Bind
	Env    []string // NAME=VALUE, added to the container's variables
}

// reply converts a grant to the runtime's units.
func (e *Engine) reply(g *host.Grant) (Reply, error) {
	if g.CPUs.IsEmpty() { // to the runtime, an empty list means all CPUs
		return Reply{}, fmt.Errorf("candor: container %s: no CPU remains for it", g.DisplayName())
	}
	r := Reply{CPUs: g.CPUs.String(), Quota: -1, Period: g.Period.Microseconds()}
	if g.Quota != 0 {
		r.Quota = int64(g.Quota) * r.Period / 1000
	}
	r.Shares = min(max((int64(g.Weight)*sharesPerCPU+500)/1000, leastShares), mostShares)
	if g.Mems {
		mems, err := e.host.Mems(g)
		if err != nil {
			return Reply{}, err
		}
		r.Mems = mems.String()
	}
	if g.View.HasFiles() {
		dir := e.host.ViewDir(g.ID)
		r.Binds = append(view.Binds(dir), view.LiveBinds(dir, host.LiveParts(g))...)
	}
	return r, nil
}

// environment returns the variables of package view with the CPU count and the memory limit, if the pod or the configuration
// enables them. It omits variables that the container itself sets.
func environment(c *Config, p *Pod, ctr *Container, g *host.Grant) []string {
	said, err := kube.Parse(p.Annotations)
	if err != nil || !spec.ValueOr(kube.Resolve(said, ctr.Name, c.Namespaces[p.Namespace], c.Node).Env, false) {
		return nil
	}
	environ := view.Env(ctr.Env, g.VisibleCPUs())
	if ctr.Memory != nil {
		environ = view.MemoryEnv(environ, ctr.Memory.Memory)
	}
	return environ[len(ctr.Env):]
}
