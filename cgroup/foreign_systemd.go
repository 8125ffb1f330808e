package cgroup

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/errline"
)

// The kubelet and container runtimes can also use systemd for the groups of pods (slices) and containers (scopes). systemd writes the
// properties of these units to the kernel's files again at a reload, as for Candor's own groups. But an update of a unit takes as long as
// about 50 writes of a file, and the start of a container can change many other containers. So Candor first writes the files, which
// makes the change effective, and updates the units afterwards.

// A PendingUnitUpdate records that the systemd unit of a foreign group does not have some new values of the group yet.
type PendingUnitUpdate struct {
	Group *Group
	CPUs  bool // the unit lacks new CPUs or memory nodes
	Time  bool // the unit lacks a new quota, period or weight
	// Quota is the quota for the unit, if the group's present quota can be a temporary quota from SetQuota. 0 means the present quota.
	Quota time.Duration
}

// PendingUnitUpdate returns which values the group's unit lacks after a change of the settings. It ignores differences below systemd's
// and the kernel's steps for quotas and weights.
func (g *Group) PendingUnitUpdate(before, after Settings) PendingUnitUpdate {
	old, next := before.kernel(g.tree.cpu), after.kernel(g.tree.cpu)
	old.cfsBandwidth, next.cfsBandwidth = roundForSystemd(old.cfsBandwidth), roundForSystemd(next.cfsBandwidth)
	old.burst, next.burst = 0, 0 // systemd has no property for the burst
	if next.mems.IsEmpty() {     // the memory nodes do not change
		next.mems = old.mems
	}
	return PendingUnitUpdate{Group: g, CPUs: old.cpus != next.cpus || old.mems != next.mems, Time: old.cpuState != next.cpuState}
}

// ApplyUnitUpdate sets the properties of the groups' units to the groups' present values, so that systemd does not revert these values.
// It skips groups without a unit, and groups that were removed. systemd stores quotas in steps of 10 ms per second. For a quota between
// two steps, the unit gets the next higher step, and ApplyUnitUpdate restores the exact quota in the file. The caller must ensure that
// no other caller changes the groups meanwhile. The error contains the refusals of systemd and the kernel.
func (t *Tree) ApplyUnitUpdate(all []PendingUnitUpdate) error {
	if t.bus == nil {
		return nil
	}
	var errs []error
	changed := map[*Group]cpuState{}
	for _, u := range all {
		if !u.Group.isUnit() {
			continue
		}
		now, err := u.apply()
		if errors.Is(err, context.DeadlineExceeded) {
			errs = append(errs, err)
			break // systemd would not answer for the other units either
		}
		switch {
		case errors.Is(err, ErrNoGroup), isUnitError(err, "NoSuchUnit"):
		case err != nil:
			errs = append(errs, err)
		default: // with any update, systemd writes all properties of a unit
			changed[u.Group] = now.cpuState
		}
	}
	return errline.Join(append(errs, t.bus.restoreCPU(changed))...)
}

// isUnit reports whether a foreign group has the name of a systemd unit, so that systemd can have created the group.
func (g *Group) isUnit() bool {
	return g.err == nil && (strings.HasSuffix(g.path, ".scope") || strings.HasSuffix(g.path, ".slice"))
}

// apply sets the properties of the unit to the group's present values, and returns these values.
func (u *PendingUnitUpdate) apply() (now state, err error) {
	g := u.Group
	if now, err = g.state(); err != nil {
		return now, g.wrap(err)
	}
	return now, g.wrap(g.updateUnit(u.states(now)))
}

// states returns two states for updateUnit: the values that the unit is assumed to have, and its new values. now is the group's present
// state.
func (u *PendingUnitUpdate) states(now state) (before, after state) {
	if after = now; u.Quota != 0 && now.quota != noQuota {
		after.quota = u.Quota.Microseconds()
	}
	before = after
	if u.CPUs {
		before.cpus, before.mems = cpuset.Set{}, cpuset.Set{}
	}
	if u.Time {
		before.period, before.weight = 0, 0
	}
	return before, after
}

// updateUnit sets the properties of the group's unit that differ between two states. It rounds the quota to systemd's step.
func (g *Group) updateUnit(before, after state) error {
	after.cfsBandwidth = roundForSystemd(after.cfsBandwidth)
	return g.tree.setProperties(filepath.Base(g.path), properties(before, after))
}

// restoreCPU restores the groups' values of the cpu controller after systemd has written other values, such as a rounded quota.
func (b *bus) restoreCPU(all map[*Group]cpuState) error {
	if len(all) == 0 {
		return nil
	}
	if err := b.flush(); err != nil {
		return err
	}
	var errs []error
	for g, before := range all {
		err := g.wrap(g.tree.cpu.setCPU(g.dir(g.tree.cpu), before))
		if err != nil && !errors.Is(err, ErrNoGroup) {
			errs = append(errs, err)
		}
	}
	return errline.Join(errs...)
}

// flush waits until systemd has written all updates to the kernel's files. It makes a call, because systemd writes the updates before it
// answers the next call.
func (b *bus) flush() error {
	return b.call(func(ctx context.Context, conn *systemd.Conn) error {
		_, err := conn.SystemStateContext(ctx)
		return err
	})
}
