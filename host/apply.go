package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/internal/errline"
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
		s.Mems = op.mems(g)
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
		if !g.unread && g.unreadable == nil && !g.settings.CPUs.IsEmpty() && !slices.Contains(op.over, name) {
			targets = append(targets, target{name, g.settings})
		}
	}
	slices.SortFunc(targets, func(a, b target) int { return strings.Compare(a.name, b.name) })
	return targets
}

// undo restores the kernel's settings and the views from before the operation. The state file still has
// them: the next operation repairs the settings that undo cannot restore.
func (op *operation) undo(before []target, grants []*Grant) error {
	op.isUndoing = true
	var errs []error
	if n := op.newcomer; n != nil {
		if g := op.groups[n.name]; g != nil {
			delete(op.groups, n.name)
			errs = append(errs, g.End())
		}
		op.views.close(n.name)
		errs = append(errs, op.store.forget(n.name))
	}
	if err := op.settle(before, op.exclusive(grants)); err != nil {
		errs = append(errs, fmt.Errorf("back to the state before: %w", err))
	}
	errs = append(errs, op.showViews(op.loaded.Grants))
	if err := errline.Join(errs...); err != nil {
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

// showViews rewrites the views that do not show their container's CPUs. Only the view of the operation's own
// container can fail it.
func (op *operation) showViews(grants []*Grant) error {
	for _, g := range grants {
		if g.View != ViewFull || g.CPUs.IsEmpty() {
			continue
		}
		if shown, err := op.store.shown(g.ID); err == nil && shown == g.CPUs {
			op.restored(g.ID, SettingView)
			op.views.keepOpen(op.store, g.ID)
			continue
		}
		if op.isSubject(g.ID) {
			if err := op.writeView(g); err != nil {
				return fmt.Errorf("view of %s: %w", g.ID, err)
			}
			continue
		}
		if !op.Host.degraded.isDue(g.ID, SettingView, g.CPUs) {
			continue
		}
		if err := op.views.write(op.store, g, false); err != nil {
			op.degrade(g.ID, SettingView, g.CPUs, err)
			op.views.keepOpen(op.store, g.ID)
			continue
		}
		op.restored(g.ID, SettingView)
	}
	return nil
}

// writeView writes the view of the operation's own container.
func (op *operation) writeView(g *Grant) error {
	isProgram := op.newcomer != nil && op.newcomer.name == g.ID && op.newcomer.pid != 0
	err := op.views.write(op.store, g, isProgram)
	runs := op.groups[g.ID] != nil && op.groups[g.ID].populated && !isProgram
	if errors.Is(err, view.ErrLeased) && !runs {
		return op.views.renew(op.store, g, isProgram)
	}
	return err
}
