package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/spec"
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
		Burst:  kernelBurst(g),
		Weight: int(g.Weight),
	}
}

// quota returns the CPU time per period.
func quota(g *Grant) time.Duration { return g.Quota.Quota(g.Period) }

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
		errs = append(errs, op.store.RemoveFiles(n.name))
	}
	if err := op.settle(before, op.exclusive(grants)); err != nil {
		errs = append(errs, fmt.Errorf("back to the state before: %w", err))
	}
	errs = append(errs, op.showViews(op.loaded.Grants))
	if err := errline.Join(errs...); err != nil {
		return fmt.Errorf("to undo it failed too: %w; %s stands as it was, and the next operation, of pods the next repair, brings the groups to it", err, op.store.File())
	}
	return nil
}

// prepareNewcomer writes the newcomer's files before anything changes in the kernel.
func (op *operation) prepareNewcomer(grants []*Grant) error {
	if op.newcomer == nil {
		return nil
	}
	i := slices.IndexFunc(grants, func(g *Grant) bool { return g.ID == op.newcomer.name })
	return op.store.SaveRequest(grants[i])
}

// showViews rewrites the views that do not show their container's CPUs. Only the view of the operation's own
// container can fail it.
func (op *operation) showViews(grants []*Grant) error {
	for _, g := range grants {
		if g.View != spec.ViewFull || g.CPUs.IsEmpty() {
			continue
		}
		if shown, err := op.store.ShownCPUs(g.ID); err == nil && shown == g.CPUs {
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

// finish makes the node's grants true: groups, views, file. On an error all
// is as it was.
func (op *operation) finish() error {
	grants := op.grants()
	if op.planOnly {
		return op.note(grants)
	}
	op.fresh = op.freshOf(grants)
	op.lookAtOthers(grants)
	targets := op.targets(grants)
	before := op.present()
	if err := op.buryGroups(); err != nil {
		return err
	}
	err := op.prepareNewcomer(grants)
	if err == nil {
		err = op.settle(targets, op.exclusive(grants))
	}
	if err == nil {
		err = op.showViews(grants)
	}
	if err == nil {
		err = op.saveGrants(grants)
	}
	if err != nil {
		return errline.Join(err, op.undo(before, grants))
	}
	op.tellUnits(before)
	op.mendPods(grants)
	op.tidy()
	isThere := func(name string) bool { return op.info[name] != nil }
	op.Host.degraded.retain(func(name string) bool { return isThere(name) && op.groups[name] != nil })
	op.views.retain(isThere)
	op.report.Moves = op.moves(grants)
	op.sayDrift(before)
	return nil
}

// saveGrants writes the state file if it has to change.
func (op *operation) saveGrants(grants []*Grant) error {
	grants = slices.Clone(grants)
	for i, g := range grants {
		if !g.Lost.IsEmpty() {
			saved := *g
			saved.Grant = state.WithLost(g.Grant, op.info[g.ID].Grant)
			grants[i] = &saved
		}
	}
	next, isOther, err := op.saved.Next(op.boot, grants)
	if err != nil || !isOther || len(grants) == 0 && len(op.saved.Grants) == 0 {
		return err
	}
	if err := op.store.Save(next); err != nil {
		return err
	}
	op.saved = next
	return nil
}

// buryGroups removes the groups of what has ended.
func (op *operation) buryGroups() error {
	for _, name := range op.over {
		if op.groups[name] == nil {
			continue
		}
		if op.groups[name].isEngines() {
			delete(op.groups, name)
			continue
		}
		op.tellUsed(name)
		_, err := op.remove(name, op.groups[name].Remove)
		if err != nil && op.isSubject(name) {
			return fmt.Errorf("remove group of %s: %w", name, err)
		} else if err != nil {
			op.log.Warn("cannot remove the group of a container that has ended; the next operation tries again", "container", name, "error", err)
		}
		delete(op.groups, name)
	}
	return nil
}

// tellUsed tells who wants to know it what a container has used, while its group is there.
func (op *operation) tellUsed(name string) {
	if op.ended == nil {
		return
	}
	if used, err := op.tree.ReadUsage(name); err == nil {
		op.ended(name, used)
	}
}

// tidy removes files of containers that are no more. What cannot be removed
// now is removed by another operation.
func (op *operation) tidy() {
	if (op.about != about{}) && len(op.over) == 0 {
		return
	}
	for _, dir := range []string{"views", "requests", "commands"} {
		entries, _ := os.ReadDir(filepath.Join(op.store.Dir, dir))
		for _, entry := range entries {
			if op.info[entry.Name()] != nil {
				continue
			}
			if err := op.store.RemoveFiles(entry.Name()); err != nil {
				op.log.Warn("left over", "file", filepath.Join(op.store.Dir, dir, entry.Name()), "error", err)
			}
		}
	}
}

// sayDrift says which running containers had other settings than the state says, and
// have what they are granted again. Such a write is most often a stranger's; a candor that
// was killed between the kernel and the file leaves the same.
func (op *operation) sayDrift(before []target) {
	for _, had := range before {
		granted, k := op.before[had.name], op.groups[had.name]
		if granted == nil || k == nil || !k.populated || k.unread || had.name == op.rewritten || op.behind[had.name] {
			continue
		}
		op.sayDriftOf(granted, k, had.settings)
	}
}

func (op *operation) sayDriftOf(granted *Grant, k *group, found cgroup.Settings) {
	// v1 takes a CPU that goes offline out of cpusets, v2 does not.
	left := granted.CPUs.Intersect(op.node.Machine().Online)
	if found.CPUs != granted.CPUs && found.CPUs != left {
		op.log.Warn("CPUs other than those granted are set back", "container", granted.ID,
			"found", found.CPUs, "granted", granted.CPUs, "now", k.settings.CPUs)
		op.report.Drift++
		return
	}
	want := op.settings(granted)
	want.CPUs = found.CPUs
	// What a runtime writes before the start is rounded, and set right there. What the kernel has
	// refused to take back has been said.
	if granted.State == Running && !op.same(k, found, want) && k.settings != found {
		op.log.Warn("settings other than those granted are set back", "container", granted.ID,
			"found quota", found.Quota, "found period", found.Period, "found weight", found.Weight,
			"now quota", k.settings.Quota, "now period", k.settings.Period, "now weight", k.settings.Weight)
		op.report.Drift++
	}
}
