package host

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// freshOf returns the exclusive CPUs that containers have only from this operation on: the others have to leave them.
// CPUs that the operation's own container had before it stopped count, and CPUs that another container ends with this
// operation. An adopted container runs on its CPUs already: nothing gets worse if another container stays there.
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

// leaveBehind lets an operation go on after a container's CPUs were refused: the container stays on the CPUs that it
// has. It is an error for the operation's own container, and a *stuckError if the container stays on fresh CPUs,
// which become exclusive by this operation.
func (op *operation) leaveBehind(w write, granted cpuset.Set, refused error) error {
	g := op.groups[w.group]
	if g == nil || op.isSubject(w.group) && !op.staysWithParent(w, g, refused) {
		return fmt.Errorf("group of %s: %w", w.group, refused)
	}
	op.takePart(w, g, refused)
	if cpus, err := g.CPUs(); err == nil && !cpus.IsEmpty() { // settings of a group that was not read are those of its grant
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

// staysWithParent reports whether an engine's flexible container lacks CPUs only because the group above it
// does not have them.
func (op *operation) staysWithParent(w write, g *group, refused error) bool {
	grant := op.info[w.group]
	return grant != nil && g.isEngines() && grant.Class == hybrid.Flexible && errors.Is(refused, cgroup.ErrUnavailable)
}

// takePart gives an engine's container those of its CPUs that the group above it has.
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
