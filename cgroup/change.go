package cgroup

import (
	"fmt"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/errline"
)

// Apply gives the group new settings. It writes only what differs, nested
// groups included where the kernel wants them to follow. On an error the
// settings from before are in force again, as far as the kernel permits; the error says so
// where it does not.
func (g *Group) Apply(s Settings) error {
	if g.err != nil {
		return g.err
	}
	if err := s.check(); err != nil {
		return fmt.Errorf("cgroup %s: %w", g.name, err)
	}
	before, err := g.state()
	if err != nil {
		return g.wrap(err)
	}
	next := s.kernel(g.tree.cpu)
	if s.Weight == g.tree.cpu.weightOf(before.weight) { // as it was read: it is not rounded a second time
		next.weight = before.weight
	}
	if g.viaSystemd() {
		next = next.rounded(before)
		if err := g.tellSystemd(before, next); err != nil {
			return g.wrap(err)
		}
	}
	if err := g.set(next); err != nil {
		return g.wrap(errline.Join(err, g.undo(before, next)))
	}
	return nil
}

// rounded is a state as systemd can keep it. A quota that the group has already stays as it is: it may be
// raised (SetQuota), which is not for the unit.
func (s state) rounded(before state) state {
	if s.quota != before.quota || s.period != before.period {
		s.bandwidth = roundForSystemd(s.bandwidth)
	}
	return s
}

// SetCPUs gives the group, and the groups nested in it, other CPUs and memory
// nodes (none: those of the parent). It is the part of Apply that moving a
// container takes: two writes at most where nothing is nested. ErrUnavailable: the
// parent has not all of them.
func (g *Group) SetCPUs(cpus, mems cpuset.Set) error {
	if g.err != nil {
		return g.err
	}
	if cpus.IsEmpty() {
		return fmt.Errorf("cgroup %s: no CPUs: a group needs at least one", g.name)
	}
	if g.viaSystemd() {
		if err := g.tellSystemdCPUs(cpus, mems); err != nil {
			return g.wrap(err)
		}
	}
	return g.wrap(g.setCpuset(cpus, mems))
}

// set writes a whole state.
func (g *Group) set(next state) error {
	if err := g.setCpuset(next.cpus, next.mems); err != nil {
		return err
	}
	return g.quotaCause(g.tree.cpu.setCPU(g.dir(g.tree.cpu), next.cpuState), next.bandwidth)
}

// undo goes back to the state before a change that failed.
func (g *Group) undo(before, failed state) error {
	if g.viaSystemd() {
		if err := g.tellSystemd(failed, before); err != nil {
			return notUndone(err)
		}
	}
	if before.cpus.IsEmpty() {
		before.cpus = failed.cpus // was never set: keep
	}
	if err := g.set(before); err != nil {
		return notUndone(err)
	}
	return nil
}
