package host

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
)

// Only two failures refuse a container: another container cannot leave its exclusive CPUs (stuck.go), or its own settings are
// refused. A refused setting of another container is degraded (degraded.go): that container keeps its present setting.

// isSubject reports whether an operation is for that container.
func (op *operation) isSubject(name string) bool {
	return name != "" && (name == op.subject || name == op.resized || op.newcomer != nil && op.newcomer.name == name)
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
			if op.isPaused(t, g, exclusive) {
				moves[i].new = g.settings.CPUs
			}
		}
	}
	stay := op.unreadCPUs()
	writes, clean := order(append(moves, move{old: stay, new: stay}), exclusive)
	if !clean {
		op.log.Warn("two containers had each other's CPUs, and share one for a moment on the way back")
	}
	for _, w := range writes {
		final := targets[w.of].settings
		if taken := op.taken(w.group); w.cpus.Overlaps(&taken) {
			op.behind[w.group] = true // it gets these CPUs when the other container has left them
			if w.cpus = w.cpus.Minus(taken); w.cpus.IsEmpty() {
				continue
			}
		}
		err := op.unlessOver(w.group, op.give(w, final))
		if err == nil {
			if w.cpus == final.CPUs {
				delete(op.behind, w.group)
				op.restored(w.group, SettingCPUs)
			}
			continue
		}
		if err := op.leaveBehind(w, final.CPUs, err); err != nil {
			return err
		}
	}
	return op.settleRest(targets)
}

// settleRest writes the settings besides CPUs.
func (op *operation) settleRest(targets []target) error {
	for _, t := range targets {
		g := op.groups[t.name]
		if g == nil {
			continue
		}
		if op.behind[t.name] {
			t.settings.CPUs = g.settings.CPUs
		}
		if err := op.settleGroup(&t, g); err != nil {
			return fmt.Errorf("group of %s: %w", t.name, err)
		}
	}
	return nil
}

// settleGroup gives one group its settings but for CPUs.
func (op *operation) settleGroup(t *target, g *group) error {
	defer op.restoreParts(t, g)
	// The engine may have lowered the limit of the group above, so that the kernel refuses the settings. The CPUs are right
	// then, and the container runs on.
	mustHave := op.isSubject(t.name) && (!g.isEngines() || op.resized == t.name)
	want := t.settings
	if !mustHave {
		want = op.withoutRefused(t.name, g.settings, want)
	}
	if op.same(g, g.settings, want) {
		return nil
	}
	err := op.unlessOver(t.name, g.Apply(want))
	switch {
	case err == nil:
		g.settings = want
	case mustHave:
		return err
	default:
		op.settleParts(t.name, g, want)
	}
	return nil
}

// A settingPart is a part of a group's settings that is written by itself.
type settingPart struct {
	name Setting
	copy func(to *cgroup.Settings, from cgroup.Settings)
}

// settingParts are in an order in which the kernel can take them: no burst exceeds its quota.
var settingParts = []settingPart{
	{SettingMems, func(to *cgroup.Settings, from cgroup.Settings) { to.Mems = from.Mems }},
	{SettingQuota, func(to *cgroup.Settings, from cgroup.Settings) {
		to.Quota, to.Period, to.Burst = from.Quota, from.Period, min(to.Burst, from.Quota)
	}},
	{SettingBurst, func(to *cgroup.Settings, from cgroup.Settings) { to.Burst = min(from.Burst, to.Quota) }},
	{SettingWeight, func(to *cgroup.Settings, from cgroup.Settings) { to.Weight = from.Weight }},
}

// value returns the part alone, to compare.
func (p *settingPart) value(of cgroup.Settings) cgroup.Settings {
	alone := cgroup.Settings{}
	if p.name == SettingBurst {
		alone.Quota = of.Quota
	}
	p.copy(&alone, of)
	return alone
}

// settleParts writes the parts of a group's settings one by one, and records those that are refused.
func (op *operation) settleParts(name string, g *group, want cgroup.Settings) {
	for _, part := range settingParts {
		next := g.settings
		part.copy(&next, want)
		if op.same(g, g.settings, next) {
			continue
		}
		err := op.unlessOver(name, g.Apply(next))
		if op.groups[name] == nil {
			return
		}
		if err != nil {
			op.degrade(name, part.name, part.value(want), err)
			continue
		}
		g.settings = next
	}
}

// withoutRefused returns the settings with the present value of each part that was refused a moment ago.
func (op *operation) withoutRefused(name string, has, want cgroup.Settings) cgroup.Settings {
	if !op.Host.degraded.has(name) {
		return want
	}
	next := want
	for _, part := range settingParts {
		if !op.Host.degraded.isDue(name, part.name, part.value(want)) {
			part.copy(&next, has)
		}
	}
	next.Burst = min(next.Burst, next.Quota)
	return next
}

// restoreParts records the settings that a group has as granted.
func (op *operation) restoreParts(t *target, g *group) {
	// In undo the target is the former state, not the grant.
	if op.isUndoing || !op.Host.degraded.has(t.name) || g.unreadable != nil {
		return
	}
	op.restored(t.name, SettingGroup)
	if !op.behind[t.name] {
		op.restored(t.name, SettingCPUs)
	}
	for _, part := range settingParts {
		with := g.settings
		part.copy(&with, t.settings)
		if op.same(g, g.settings, with) {
			op.restored(t.name, part.name)
		}
	}
}

// unlessOver returns the error of a write to a group, but nil if the group has been
// removed: a container that ends during another one's operation (systemd removes its
// group at once) is left to the next operation.
func (op *operation) unlessOver(name string, err error) error {
	isNew := op.newcomer != nil && op.newcomer.name == name
	if isNew || !isGoneError(err) {
		return err
	}
	if runs, err2 := op.groups[name].Populated(); runs || err2 != nil && !isGoneError(err2) {
		return err // a file is missing, not the group
	}
	op.log.Info("ended meanwhile", "container", name)
	delete(op.groups, name)
	return nil
}

// isGoneError reports whether an error means that a group has been removed. On v1 it goes from one hierarchy after the other.
func isGoneError(err error) bool {
	return errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, fs.ErrNotExist)
}

// same reports whether a group has its settings, as far as the kernel can
// hold them. An engine may have given its group other memory nodes.
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

// give does one write. The newcomer's first write creates its group.
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
		if err == nil || op.isSubject(w.group) || errors.Is(err, cgroup.ErrManyGroups) {
			return err
		}
	}
	return op.giveCPUs(g, w.cpus) // without the other settings, which may be the ones that were refused
}

// giveCPUs gives a group CPUs alone.
func (op *operation) giveCPUs(g *group, cpus cpuset.Set) error {
	mems := g.settings.Mems
	if g.isEngines() {
		mems = cpuset.Set{}
	}
	err := g.SetCPUs(cpus, mems)
	if err == nil {
		g.settings.CPUs = cpus
	}
	return err
}
