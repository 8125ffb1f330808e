package host

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
)

// Only two failures refuse a container: another container cannot leave the new exclusive CPUs (stuck.go), or the
// kernel refuses the container's own settings. A refused setting of another container is degraded (degraded.go): that
// container keeps its present setting.

// isSubject reports whether an operation serves the named container.
func (op *operation) isSubject(name string) bool {
	return name != "" && (name == op.subject || name == op.resized || op.newcomer != nil && op.newcomer.name == name)
}

// settle writes the targets to the cgroups. The writes have an order in which two cgroups never have the same exclusive CPU at
// the same time (orderWrites).
func (op *operation) settle(targets []target, exclusive cpuset.Set) error {
	moves := make([]move, len(targets), len(targets)+1)
	for i := range targets {
		t := &targets[i]
		moves[i] = move{group: t.name, new: t.settings.CPUs}
		if g := op.groups[t.name]; g != nil {
			moves[i].old = g.settings.CPUs
			if op.isPaused(t, g, exclusive) {
				moves[i].new = g.settings.CPUs
			}
		}
	}
	stay := op.assumedCPUs()
	writes, clean := orderWrites(append(moves, move{old: stay, new: stay}), exclusive)
	if !clean {
		op.log.Warn("two containers had each other's CPUs, and share a CPU for a moment during the exchange")
	}
	for _, w := range writes {
		final := targets[w.of].settings
		if taken := op.occupiedCPUs(w.group); w.cpus.Overlaps(&taken) {
			op.misplaced[w.group] = true // the cgroup gets these CPUs after the other container has left them
			if w.cpus = w.cpus.Minus(taken); w.cpus.IsEmpty() {
				continue
			}
		}
		err := op.ignoreRemoved(w.group, op.applyWrite(w, final))
		if err == nil {
			if w.cpus == final.CPUs {
				delete(op.misplaced, w.group)
				op.restored(w.group, SettingCPUs)
			}
			continue
		}
		if err := op.tolerateRefusal(w, final.CPUs, err); err != nil {
			return err
		}
	}
	return op.settleRest(targets)
}

// settleRest writes all settings of the targets except the CPUs.
func (op *operation) settleRest(targets []target) error {
	for _, t := range targets {
		g := op.groups[t.name]
		if g == nil {
			continue
		}
		if op.misplaced[t.name] {
			t.settings.CPUs = g.settings.CPUs
		}
		if err := op.settleGroup(&t, g); err != nil {
			return fmt.Errorf("cgroup of %s: %w", op.displayName(t.name), err)
		}
	}
	return nil
}

// settleGroup writes the settings of a cgroup, except its CPUs.
func (op *operation) settleGroup(t *target, g *group) error {
	defer op.restoreParts(t, g)
	// A refusal for an engine's container is no error, except at a resize: the engine can have lowered the limit of the cgroup's
	// parent. The CPUs are already written then, and the container keeps running.
	mustHave := op.isSubject(t.name) && (!g.isEngineOwned() || op.resized == t.name)
	wanted := t.settings
	if !mustHave {
		wanted = op.withoutRefused(t.name, g.settings, wanted)
	}
	if op.hasSettings(g, g.settings, wanted) {
		return nil
	}
	err := op.ignoreRemoved(t.name, g.Apply(wanted))
	switch {
	case err == nil:
		g.settings = wanted
	case mustHave:
		return err
	default:
		op.settleParts(t.name, g, wanted)
	}
	return nil
}

// A settingPart is a part of a cgroup's settings that is written separately.
type settingPart struct {
	name Setting
	copy func(to *cgroup.Settings, from cgroup.Settings)
}

// settingParts lists the parts in an order of writes that the kernel accepts: a burst never exceeds its quota.
var settingParts = []settingPart{
	{SettingMems, func(to *cgroup.Settings, from cgroup.Settings) { to.Mems = from.Mems }},
	{SettingQuota, func(to *cgroup.Settings, from cgroup.Settings) {
		to.Quota, to.Period, to.Burst = from.Quota, from.Period, min(to.Burst, from.Quota)
	}},
	{SettingBurst, func(to *cgroup.Settings, from cgroup.Settings) { to.Burst = min(from.Burst, to.Quota) }},
	{SettingWeight, func(to *cgroup.Settings, from cgroup.Settings) { to.Weight = from.Weight }},
}

// value returns settings in which only the part is set. Such values are comparable with ==. The burst depends on the quota, so
// its value includes the quota.
func (p *settingPart) value(settings cgroup.Settings) cgroup.Settings {
	alone := cgroup.Settings{}
	if p.name == SettingBurst {
		alone.Quota = settings.Quota
	}
	p.copy(&alone, settings)
	return alone
}

// settleParts writes the parts of a cgroup's settings separately, and records the refused parts.
func (op *operation) settleParts(name string, g *group, wanted cgroup.Settings) {
	for _, part := range settingParts {
		next := g.settings
		part.copy(&next, wanted)
		if op.hasSettings(g, g.settings, next) {
			continue
		}
		err := op.ignoreRemoved(name, g.Apply(next))
		if op.groups[name] == nil {
			return
		}
		if err != nil {
			op.degrade(name, part.name, part.value(wanted), err)
			continue
		}
		g.settings = next
	}
}

// withoutRefused returns the wanted settings. If the kernel has refused a part of the settings, this part has its present value until its
// retry time has come.
func (op *operation) withoutRefused(name string, current, wanted cgroup.Settings) cgroup.Settings {
	if !op.Host.degraded.contains(name) {
		return wanted
	}
	next := wanted
	for _, part := range settingParts {
		if !op.Host.degraded.isDue(name, part.name, part.value(wanted)) {
			part.copy(&next, current)
		}
	}
	next.Burst = min(next.Burst, next.Quota)
	return next
}

// restoreParts removes the records of those degraded settings of a cgroup that the kernel has now.
func (op *operation) restoreParts(t *target, g *group) {
	// During undo the target is the former state, not the grant.
	if op.isUndoing || !op.Host.degraded.contains(t.name) || g.unreadable != nil {
		return
	}
	op.restored(t.name, SettingGroup)
	if !op.misplaced[t.name] {
		op.restored(t.name, SettingCPUs)
	}
	for _, part := range settingParts {
		with := g.settings
		part.copy(&with, t.settings)
		if op.hasSettings(g, g.settings, with) {
			op.restored(t.name, part.name)
		}
	}
}

// ignoreRemoved returns the error of a write to a cgroup, or nil if the cgroup has been removed. A container can end during the operation
// of another container, and systemd then removes the cgroup at once. The next operation reaps the ended container.
func (op *operation) ignoreRemoved(name string, err error) error {
	isNew := op.newcomer != nil && op.newcomer.name == name
	if isNew || !isGoneError(err) {
		return err
	}
	if runs, err2 := op.groups[name].Populated(); runs || err2 != nil && !isGoneError(err2) {
		return err // a file is missing, not the group
	}
	op.log.Info("ended meanwhile", op.logName(name))
	delete(op.groups, name)
	return nil
}

// isGoneError reports whether an error means that a cgroup has been removed. On cgroup v1 the hierarchies of a
// container disappear one after the other.
func isGoneError(err error) bool {
	return errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, fs.ErrNotExist)
}

// hasSettings reports whether the settings of a cgroup equal the wanted settings, within the kernel's precision. If no
// memory nodes are wanted, the nodes that an engine has chosen count as equal.
func (op *operation) hasSettings(g *group, current, wanted cgroup.Settings) bool {
	if wanted.Mems.IsEmpty() {
		wanted.Mems = op.basis.mems
		if g.isEngineOwned() {
			wanted.Mems = current.Mems
		}
	}
	if op.tree.SameWeight(current.Weight, wanted.Weight) {
		current.Weight = wanted.Weight
	}
	return current == wanted
}

// applyWrite performs a write. The newcomer's first write creates its cgroup.
func (op *operation) applyWrite(w write, final cgroup.Settings) error {
	g := op.groups[w.group]
	isNew := op.newcomer != nil && op.newcomer.name == w.group
	switch {
	case g == nil && !isNew: // the container has ended meanwhile
		return nil
	case g == nil:
		g = &group{Group: op.tree.Group(w.group), populated: true}
		if err := g.Create(final, op.newcomer.pid); err != nil {
			return err
		}
		g.settings = final
		op.groups[w.group] = g
		return nil
	case w.cpus == final.CPUs && !g.isEngineOwned():
		err := g.Apply(final)
		if err == nil {
			g.settings = final
		}
		if err == nil || op.isSubject(w.group) || errors.Is(err, cgroup.ErrManyGroups) {
			return err
		}
	}
	return op.setCPUs(g, w.cpus) // only the CPUs: the kernel can have refused the other settings
}

// setCPUs writes the CPUs of a cgroup and no other setting.
func (op *operation) setCPUs(g *group, cpus cpuset.Set) error {
	mems := g.settings.Mems
	if g.isEngineOwned() {
		mems = cpuset.Set{}
	}
	err := g.SetCPUs(cpus, mems)
	if err == nil {
		g.settings.CPUs = cpus
	}
	return err
}
