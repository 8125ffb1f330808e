package host

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// A stuckError is a container that cannot leave CPUs that are to become exclusive.
type stuckError struct {
	name string
	cpus cpuset.Set // the CPUs that it stays on
	err  error      // the kernel's refusal
}

func (e *stuckError) Error() string {
	return fmt.Sprintf("%s cannot leave CPUs %v: %v", e.name, e.cpus, e.err)
}

func (e *stuckError) Unwrap() error { return e.err }

// freshOf returns the CPUs that become exclusive to a container by this operation: every other container has to leave
// them. They include the CPUs of a container that this operation ends, and the CPUs that were held for a restart. An adopted
// container runs on its CPUs already, so that another container may stay there.
func (op *operation) freshOf(grants []*Grant) (fresh cpuset.Set) {
	for _, g := range grants {
		if g.Class != hybrid.Sensitive {
			continue
		}
		had, k, before := cpuset.Set{}, op.groups[g.ID], op.before[g.ID]
		runs := k != nil && k.populated
		switch {
		case op.isSubject(g.ID) && !runs && g.State != Held: // it starts
		case before != nil:
			had = before.Exclusive
		case runs:
			had = k.settings.CPUs
		}
		fresh = fresh.Union(g.Exclusive.Minus(had))
	}
	return fresh
}

// leaveBehind continues an operation after the kernel has refused the CPUs of a container, which stays on its present
// CPUs. The error is the kernel's for the operation's own container, and a *stuckError if the container stays on fresh
// CPUs.
func (op *operation) leaveBehind(w write, granted cpuset.Set, refused error) error {
	g := op.groups[w.group]
	if g == nil || op.isSubject(w.group) && !op.staysWithParent(w, g, refused) {
		return fmt.Errorf("group of %s: %w", w.group, refused)
	}
	op.takePart(w, g, refused)
	if cpus, err := g.CPUs(); err == nil && !cpus.IsEmpty() { // if the group was not read, its settings are assumptions
		g.settings.CPUs = cpus
	}
	if g.settings.CPUs.Overlaps(&op.fresh) && !op.isUndoing {
		return &stuckError{w.group, g.settings.CPUs, refused}
	}
	op.behind[w.group] = true
	setting := SettingCPUs
	if g.unreadable != nil {
		setting = SettingGroup
	}
	op.degrade(w.group, setting, granted, refused)
	return nil
}

// staysWithParent reports whether an engine's flexible container lacks CPUs because the group above it
// does not have them.
func (op *operation) staysWithParent(w write, g *group, refused error) bool {
	grant := op.info[w.group]
	return grant != nil && g.isEngines() && grant.Class == hybrid.Flexible && errors.Is(refused, cgroup.ErrUnavailable)
}

// takePart gives an engine's container the part of its CPUs that the group above it has.
func (op *operation) takePart(w write, g *group, refused error) {
	if !op.staysWithParent(w, g, refused) {
		return
	}
	above, _, err := op.tree.Foreign(w.group, filepath.Dir(g.engine.Cgroup)).Effective()
	part := w.cpus.Intersect(above)
	if err == nil && !part.IsEmpty() && g.SetCPUs(part, cpuset.Set{}) == nil {
		g.settings.CPUs = part
	}
}

// exclusiveAfter returns the CPUs that are exclusive in the state that settle leads to.
func (op *operation) exclusiveAfter() (cpus cpuset.Set) {
	grants := op.loaded.Grants
	if !op.isUndoing {
		grants = op.grants()
	}
	for _, g := range grants {
		if g.Class == hybrid.Sensitive {
			cpus = cpus.Union(g.Exclusive)
		}
	}
	return cpus
}

// taken returns the exclusive CPUs that a group must not enter yet: another group could not leave them.
func (op *operation) taken(group string) (cpus cpuset.Set) {
	if len(op.behind) == 0 {
		return cpus
	}
	for name, g := range op.groups {
		if name != group && op.behind[name] {
			cpus = cpus.Union(g.settings.CPUs)
		}
	}
	if g := op.groups[group]; g != nil {
		cpus = cpus.Minus(g.settings.CPUs)
	}
	return cpus.Intersect(op.exclusiveAfter())
}

// isPaused reports whether a group stays on its present CPUs until the next retry: the kernel has refused its new CPUs, and no
// container needs the present ones for itself.
func (op *operation) isPaused(t *target, g *group, exclusive cpuset.Set) bool {
	if left := g.settings.CPUs.Minus(t.settings.CPUs); left.Overlaps(&exclusive) {
		return false // it is on another container's CPUs
	}
	if g.settings.CPUs == t.settings.CPUs || op.isSubject(t.name) || op.Host.degraded.isDue(t.name, SettingCPUs, t.settings.CPUs) {
		return false
	}
	op.behind[t.name] = true
	return true
}
