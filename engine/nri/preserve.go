package nri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
)

// preserve reserves the CPUs that another program has assigned to a preserved container, while the container runs. Without
// assigned CPUs, the container runs on all CPUs. Candor must not change its cpuset, so the engine only logs this.
func (e *Engine) preserve(ctx context.Context, p *Pod, ctr *Container) error {
	name := fullName(p, ctr)
	if ctr.CPUs == "" {
		e.unbound.begin(ctr.Cgroup, name)
		e.warnUnboundPreserved(p, ctr)
		return nil
	}
	cpus, err := cpuset.Parse(ctr.CPUs)
	if err != nil {
		return refused(p, ctr, fmt.Errorf("cpuset: %w", err))
	}
	if pid := e.firstProcess(p, ctr); pid == 0 {
		err = fmt.Errorf("%w: first process unknown", host.ErrBadSpec)
	} else {
		err = e.host.Preserve(ctx, grantName(p, ctr.Name), cpus, pid)
	}
	if errors.Is(err, host.ErrBadSpec) { // a preserved container starts even if its CPUs cannot be reserved
		e.log.Warn("cannot reserve the CPUs of a preserved container", "container", name, "id", grantName(p, ctr.Name), "reason", err)
		return nil
	}
	return err
}

func fullName(p *Pod, ctr *Container) string { return p.Namespace + "/" + p.Name + "/" + ctr.Name }

// warnUnboundPreserved warns that a preserved container without a cpuset also runs on the exclusive CPUs of other containers, and names
// these containers.
func (e *Engine) warnUnboundPreserved(p *Pod, ctr *Container) {
	s, err := e.host.Snapshot()
	if err != nil {
		return // the next operation reports the error
	}
	var of []string
	for i := range s.Grants {
		if g := &s.Grants[i]; !g.Exclusive.IsEmpty() && g.State != host.Held {
			of = append(of, fmt.Sprintf("%v of %s", g.Exclusive, g.Engine.Name))
		}
	}
	if len(of) > 0 {
		e.log.Warn("a preserved container without a cpuset runs on all CPUs, including exclusive CPUs of other containers",
			"container", fullName(p, ctr), "id", grantName(p, ctr.Name), "exclusive", shortList(of))
	}
}

// warnSharedCPUs logs which preserved containers without a cpuset run on the exclusive CPUs of a container.
func (e *Engine) warnSharedCPUs(g *host.Grant) {
	if with := e.unbound.names(); len(with) > 0 && !g.Exclusive.IsEmpty() {
		e.log.Warn("preserved containers without a cpuset also run on the exclusive CPUs of a container", "container", g.Engine.Name, "id", g.ID, "cpus", g.Exclusive, "preserved", shortList(with))
	}
}

// shortList joins the first elements of a list, with the number of the others.
func shortList(list []string) string {
	const most = 5
	if more := len(list) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), more)
	}
	return strings.Join(list, ", ")
}

// unbound has the running containers that are preserved without a cpuset.
type unbound struct {
	mu      sync.Mutex
	running map[string]string // container names by cgroup
}

func (u *unbound) begin(group, name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.running == nil {
		u.running = map[string]string{}
	}
	u.running[group] = name
}

func (u *unbound) end(group string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.running, group)
}

func (u *unbound) endAll() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.running)
}

func (u *unbound) names() (names []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, name := range u.running {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
