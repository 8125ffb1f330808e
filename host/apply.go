package host

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/oneline"
	"github.com/candor-project/candor/view"
)

// A target is what a group is to have.
type target struct {
	name     string
	settings cgroup.Settings
}

// targets returns what the groups of the grants are to have. A group that does
// not exist is made only for the newcomer.
func (op *operation) targets(grants []*Grant) []target {
	var targets []target
	for _, g := range grants {
		k := op.groups[g.ID]
		isNew := op.newcomer != nil && op.newcomer.name == g.ID
		// A container all of whose CPUs are lost stays where the kernel put it.
		if !isNew && k == nil || g.CPUs.IsEmpty() {
			continue
		}
		want := op.settings(g)
		if k != nil && k.unread && k.has(want) {
			continue
		}
		if k != nil {
			k.unread = false
		}
		targets = append(targets, target{g.ID, want})
	}
	return targets
}

// settings translates a grant for the kernel.
func (op *operation) settings(g *Grant) cgroup.Settings {
	s := op.Host.settings(g)
	if k := op.groups[g.ID]; k != nil && op.lent(g, k.settings) {
		s.Quota = k.settings.Quota
	}
	if g.Mems {
		s.Mems = memsOf(op.node.Machine(), &g.CPUs)
	}
	return s
}

// settings are those of a grant but for memory nodes.
func (h *Host) settings(g *Grant) cgroup.Settings {
	return cgroup.Settings{
		CPUs:   g.CPUs,
		Period: g.Period,
		Quota:  quota(g),
		Burst:  g.kernelBurst(),
		Weight: int(g.Weight),
	}
}

// quota returns the CPU time per period.
func quota(g *Grant) time.Duration { return time.Duration(g.Quota) * g.Period / 1000 }

// present returns what the groups have now, to come back to. Groups that nobody has read are not written either.
func (op *operation) present() []target {
	var targets []target
	for name, g := range op.groups {
		if !g.unread && !g.settings.CPUs.IsEmpty() && !slices.Contains(op.over, name) {
			targets = append(targets, target{name, g.settings})
		}
	}
	slices.SortFunc(targets, func(a, b target) int { return strings.Compare(a.name, b.name) })
	return targets
}

// settle brings the groups to their targets, in an order in which no exclusive
// CPU runs two of them.
func (op *operation) settle(targets []target, exclusive cpuset.Set) error {
	moves := make([]move, len(targets), len(targets)+1)
	for i := range targets {
		t := &targets[i]
		moves[i] = move{group: t.name, new: t.settings.CPUs}
		if g := op.groups[t.name]; g != nil {
			moves[i].old = g.settings.CPUs
		}
	}
	stay := op.unreadCPUs()
	writes, clean := order(append(moves, move{old: stay, new: stay}), exclusive)
	if !clean {
		op.log.Warn("two containers had each other's CPUs, and share one for a moment on the way back")
	}
	fresh := exclusive.Minus(op.exclusive(nil))
	for _, w := range writes {
		err := op.unlessOver(w.group, op.give(w, targets[w.of].settings))
		if err != nil && !op.leaveBehind(w, fresh, err) {
			return fmt.Errorf("group of %s: %w", w.group, err)
		}
	}
	return op.settleRest(targets)
}

// settleRest gives the groups what differs in more than CPUs.
func (op *operation) settleRest(targets []target) error {
	for _, t := range targets {
		g := op.groups[t.name]
		if op.behind[t.name] {
			t.settings.CPUs = g.settings.CPUs
		}
		if g == nil || op.same(g, g.settings, t.settings) {
			continue
		}
		err := op.unlessOver(t.name, g.Apply(t.settings))
		if err != nil && g.isEngines() && op.resized != t.name {
			// The group above may allow less since an engine resized it. The CPUs are right, and nobody
			// else has to wait for that.
			op.log.Warn("settings refused by the kernel", "container", t.name, "error", err)
			continue
		}
		if err != nil {
			return fmt.Errorf("group of %s: %w", t.name, err)
		}
		g.settings = t.settings
	}
	return nil
}

// unlessOver returns what writing to a group has led to, but nil if the group is
// no more: a container that ends during another one's operation (systemd removes its
// group at once) is the next operation's business.
func (op *operation) unlessOver(name string, err error) error {
	isNew := op.newcomer != nil && op.newcomer.name == name
	isGone := errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, fs.ErrNotExist) // v1: from one hierarchy after the other
	if isNew || !isGone {
		return err
	}
	op.log.Info("ended meanwhile", "container", name)
	delete(op.groups, name)
	return nil
}

// same reports whether a group has what it is to have, as far as the kernel can
// hold it. An engine's group may have other memory nodes by its engine's will.
func (op *operation) same(g *group, has, want cgroup.Settings) bool {
	if want.Mems.IsEmpty() {
		want.Mems = op.basis.mems
		if g.isEngines() {
			want.Mems = has.Mems
		}
	}
	if op.tree.SameWeight(has.Weight, want.Weight) {
		has.Weight = want.Weight
	}
	return has == want
}

// give does one write. The newcomer's group is made by its first.
func (op *operation) give(w write, final cgroup.Settings) error {
	g := op.groups[w.group]
	isNew := op.newcomer != nil && op.newcomer.name == w.group
	switch {
	case g == nil && !isNew: // it ended meanwhile
		return nil
	case g == nil:
		g = &group{Group: op.tree.Group(w.group), populated: true}
		if err := g.Create(final, op.newcomer.pid); err != nil {
			return err
		}
		g.settings = final
		op.groups[w.group] = g
		return nil
	case w.cpus == final.CPUs && !g.isEngines():
		err := g.Apply(final)
		if err == nil {
			g.settings = final
		}
		return err
	default:
		mems := g.settings.Mems
		if g.isEngines() {
			mems = cpuset.Set{}
		}
		err := g.SetCPUs(w.cpus, mems)
		if err == nil {
			g.settings.CPUs = w.cpus
		}
		return err
	}
}

// undo brings kernel and views back to what they were. The state file still says
// so: what cannot be brought back the next operation finds and puts right.
func (op *operation) undo(before []target, grants []*Grant) error {
	var errs []error
	if n := op.newcomer; n != nil {
		if g := op.groups[n.name]; g != nil {
			delete(op.groups, n.name)
			errs = append(errs, g.End())
		}
		errs = append(errs, op.store.forget(n.name))
	}
	if err := op.settle(before, op.exclusive(grants)); err != nil {
		errs = append(errs, fmt.Errorf("back to what was before: %w", err))
	}
	errs = append(errs, op.showViews(op.loaded.Grants))
	if err := oneline.Join(errs...); err != nil {
		return fmt.Errorf("to undo it failed too: %w; %s stands as it was, and the next operation, of pods the next repair, brings the groups to it", err, op.store.stateFile())
	}
	return nil
}

// prepareNewcomer writes the newcomer's files before anything changes in the kernel.
func (op *operation) prepareNewcomer(grants []*Grant) error {
	if op.newcomer == nil {
		return nil
	}
	i := slices.IndexFunc(grants, func(g *Grant) bool { return g.ID == op.newcomer.name })
	return op.store.saveRequest(grants[i])
}

// showViews rewrites the views that do not show their container's CPUs.
func (op *operation) showViews(grants []*Grant) error {
	for _, g := range grants {
		if g.View != ViewFull || g.CPUs.IsEmpty() || op.store.shown(g.ID) == g.CPUs {
			continue
		}
		if err := view.Write(op.store.view(g.ID), g.CPUs); err != nil {
			return fmt.Errorf("view of %s: %w", g.ID, err)
		}
	}
	return nil
}
