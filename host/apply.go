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

// A target holds the settings that a cgroup must get.
type target struct {
	name     string
	settings cgroup.Settings
}

// targets returns the settings that the cgroups of the grants must get. A missing cgroup is a target only if this operation creates it
// (newcomer).
func (op *operation) targets(grants []*Grant) []target {
	var targets []target
	for _, g := range grants {
		k := op.groups[g.ID]
		isNew := op.newcomer != nil && op.newcomer.name == g.ID
		// If a container has lost all of its CPUs, it stays on the CPUs to which the kernel has moved it.
		if !isNew && k == nil || g.CPUs.IsEmpty() {
			continue
		}
		wanted := op.settings(g)
		if k != nil && k.isAssumed && k.matches(wanted) {
			continue
		}
		if k != nil {
			k.isAssumed = false
		}
		targets = append(targets, target{g.ID, wanted})
	}
	return targets
}

// settings translates a grant into cgroup settings. If the grant's lease allows the present quota, the quota remains, unless the operation
// resizes the container.
func (op *operation) settings(g *Grant) cgroup.Settings {
	s := op.Host.settings(g)
	if k := op.groups[g.ID]; k != nil && g.ID != op.resized && isLeased(g, k.settings) {
		s.Quota, s.Burst = k.settings.Quota, min(s.Burst, k.settings.Quota)
	}
	if g.Mems {
		s.Mems = op.mems(g)
	}
	return s
}

// settings returns the cgroup settings of a grant, without memory nodes.
func (h *Host) settings(g *Grant) cgroup.Settings {
	return cgroup.Settings{
		CPUs:   g.CPUs,
		Period: g.Period,
		Quota:  quotaOf(g),
		Burst:  kernelBurst(g),
		Weight: int(g.Weight),
	}
}

// quotaOf returns the CPU time per period of a grant. 0 means no quota.
func quotaOf(g *Grant) time.Duration { return g.QuotaTime() }

// currentTargets returns the present settings of the cgroups, for undo. It omits cgroups with assumed settings, because
// the operation does not write these cgroups.
func (op *operation) currentTargets() []target {
	var targets []target
	for name, g := range op.groups {
		if !g.isAssumed && g.unreadable == nil && !g.settings.CPUs.IsEmpty() && !slices.Contains(op.ended, name) {
			targets = append(targets, target{name, g.settings})
		}
	}
	slices.SortFunc(targets, func(a, b target) int { return strings.Compare(a.name, b.name) })
	return targets
}

// undo restores the kernel's settings and the views from before the operation. The state file still has the former
// grants, so the next operation repairs the settings that undo cannot restore.
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
		errs = append(errs, fmt.Errorf("restore the former settings: %w", err))
	}
	errs = append(errs, op.showViews(op.loaded.Grants))
	if err := errline.Join(errs...); err != nil {
		return fmt.Errorf("cannot undo the operation: %w; %s is unchanged, and the next operation (for pods the next repair) restores the cgroups from it", err, op.store.File())
	}
	return nil
}

// prepareNewcomer writes the newcomer's request file before the operation creates its cgroup.
func (op *operation) prepareNewcomer(grants []*Grant) error {
	if op.newcomer == nil {
		return nil
	}
	i := slices.IndexFunc(grants, func(g *Grant) bool { return g.ID == op.newcomer.name })
	return op.store.SaveRequest(grants[i])
}

// showViews rewrites the views that do not show their container's CPUs. A failure is an error only for the container of
// op.subject. For other containers it is recorded as degraded.
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
				return fmt.Errorf("view of %s: %w", g.DisplayName(), err)
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

// writeView writes the view of the container of op.subject.
func (op *operation) writeView(g *Grant) error {
	isProgram := op.newcomer != nil && op.newcomer.name == g.ID && op.newcomer.pid != 0
	err := op.views.write(op.store, g, isProgram)
	runs := op.groups[g.ID] != nil && op.groups[g.ID].populated && !isProgram
	if errors.Is(err, view.ErrLeased) && !runs {
		return op.views.renew(op.store, g, isProgram)
	}
	return err
}

// finish applies the node's grants: cgroups, views, state file. On an error it undoes its changes.
func (op *operation) finish() error {
	grants := op.grants()
	if op.planOnly {
		return op.savePlan(grants)
	}
	op.freshCPUs = op.newExclusive(grants)
	op.verifyOthers(grants)
	targets := op.targets(grants)
	before := op.currentTargets()
	if err := op.removeGroups(); err != nil {
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
	op.updateUnits(before)
	op.repairPods(grants)
	op.removeStaleFiles()
	isThere := func(name string) bool { return op.info[name] != nil }
	op.Host.degraded.retain(func(name string) bool { return isThere(name) && op.groups[name] != nil })
	op.views.retain(isThere)
	op.report.Moves = op.countMoves(grants)
	op.reportDrift(before)
	return nil
}

// saveGrants writes the state file if it must change.
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

// removeGroups removes Candor's cgroups of containers that have ended. Engines remove their cgroups themselves.
func (op *operation) removeGroups() error {
	for _, name := range op.ended {
		if op.groups[name] == nil {
			continue
		}
		if op.groups[name].isEngineOwned() {
			delete(op.groups, name)
			continue
		}
		op.reportUsage(name)
		_, err := op.remove(name, op.groups[name].Remove)
		if err != nil && op.isSubject(name) {
			return fmt.Errorf("cannot remove the cgroup of %s: %w", op.displayName(name), err)
		} else if err != nil {
			op.log.Warn("cannot remove the cgroup of a container that has ended; the next operation tries again", op.logName(name), "error", err)
		}
		delete(op.groups, name)
	}
	return nil
}

// reportUsage passes the CPU usage of a container to OnEnd, before its cgroup is removed.
func (op *operation) reportUsage(name string) {
	if op.onEnd == nil {
		return
	}
	if used, err := op.tree.ReadUsage(name); err == nil {
		op.onEnd(name, used)
	}
}

// removeStaleFiles removes the files of containers that no longer exist. A later operation retries failed removals.
func (op *operation) removeStaleFiles() {
	if (op.scope != scope{}) && len(op.ended) == 0 {
		return
	}
	for _, dir := range []string{"views", "requests", "commands", "engine-requests"} {
		entries, _ := os.ReadDir(filepath.Join(op.store.Dir, dir))
		for _, entry := range entries {
			if op.info[entry.Name()] != nil {
				continue
			}
			if err := op.store.RemoveFiles(entry.Name()); err != nil {
				op.log.Warn("cannot remove a stale file", "file", filepath.Join(op.store.Dir, dir, entry.Name()), "error", err)
			}
		}
	}
}

// reportDrift logs and counts the running containers whose settings differed from the state and were set back. A
// foreign process usually causes such a difference. If candor is killed after writing the cgroup and before saving the
// state, the same difference appears.
func (op *operation) reportDrift(before []target) {
	for _, former := range before {
		granted, k := op.before[former.name], op.groups[former.name]
		if granted == nil || k == nil || !k.populated || k.isAssumed || former.name == op.rewritten || op.misplaced[former.name] {
			continue
		}
		op.reportDriftOf(granted, k, former.settings)
	}
}

func (op *operation) reportDriftOf(granted *Grant, k *group, found cgroup.Settings) {
	// Cgroup v1 removes a CPU that goes offline from cpusets; v2 does not.
	left := granted.CPUs.Intersect(op.node.Machine().Online)
	if found.CPUs != granted.CPUs && found.CPUs != left {
		op.log.Warn("reset CPUs that differ from the grant", logName(granted.ID, &granted.Engine),
			"found", found.CPUs, "granted", granted.CPUs, "now", k.settings.CPUs)
		op.addRepair(granted, "had CPUs %v, and has CPUs %v again", found.CPUs, k.settings.CPUs)
		return
	}
	wanted := op.settings(granted)
	wanted.CPUs = found.CPUs
	// A runtime rounds the settings that it writes before the start, and ConfirmStart corrects them. A setting that
	// the kernel refuses is reported as degraded instead.
	if granted.State == Running && !op.hasSettings(k, found, wanted) && k.settings != found {
		op.log.Warn("reset settings that differ from the grant", logName(granted.ID, &granted.Engine),
			"found quota", found.Quota, "found period", found.Period, "found weight", found.Weight,
			"now quota", k.settings.Quota, "now period", k.settings.Period, "now weight", k.settings.Weight)
		op.addRepair(granted, "had quota %v, period %v and weight %d, and has quota %v, period %v and weight %d again", found.Quota, found.Period, found.Weight,
			k.settings.Quota, k.settings.Period, k.settings.Weight)
	}
}

// addRepair counts and reports a container whose settings were restored.
func (op *operation) addRepair(g *Grant, change string, args ...any) {
	op.report.Drift++
	op.report.Repairs = append(op.report.Repairs, Repair{g.ID, g.Engine, fmt.Sprintf(change, args...)})
}

// kernelBurst returns the burst that Candor writes for a container.
func kernelBurst(g *Grant) time.Duration {
	limit := quotaOf(g).Truncate(time.Microsecond)
	switch by := g.Burst.By; {
	case by == spec.BurstTime:
		return min(g.Burst.Time, limit)
	case by == spec.BurstKernel, by == spec.BurstAuto && kernelHasBurst():
		return limit
	default:
		return 0
	}
}
