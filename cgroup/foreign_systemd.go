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

// The kubelet and the runtimes can also use systemd for the groups of pods and containers: slices and scopes. As with Candor's own
// groups, the properties of the units own the kernel's files, which systemd writes again at a reload. An update of a unit takes as
// long as writing about 50 files, and many containers can change for a container that is about to start. So Candor writes the files
// first, which has the effect, and updates the units afterwards.

// A PendingUnitUpdate is a foreign group whose unit does not have the group's new values yet.
type PendingUnitUpdate struct {
	Group *Group
	CPUs  bool // its CPUs or memory nodes
	Time  bool // its quota, period or weight
	// Quota is the granted quota of a group whose quota can be raised (SetQuota); 0: the present quota.
	Quota time.Duration
}

// PendingUnitUpdate returns the values that a group's unit lacks after a change. systemd keeps weights and quotas in steps.
func (g *Group) PendingUnitUpdate(before, after Settings) PendingUnitUpdate {
	old, next := before.kernel(g.tree.cpu), after.kernel(g.tree.cpu)
	old.cfsBandwidth, next.cfsBandwidth = roundForSystemd(old.cfsBandwidth), roundForSystemd(next.cfsBandwidth)
	old.burst, next.burst = 0, 0 // it has no property
	if next.mems.IsEmpty() {     // they stay
		next.mems = old.mems
	}
	return PendingUnitUpdate{Group: g, CPUs: old.cpus != next.cpus || old.mems != next.mems, Time: old.cpuState != next.cpuState}
}

// ApplyUnitUpdate updates the units of groups with the groups' values, so that systemd does not revert them. It skips groups without
// a unit and removed groups. systemd keeps quotas in steps of 10 ms per second: for a quota between two steps, the unit has the next
// higher step and the file has the exact quota. Meanwhile no other caller may change the groups. The error has the refusals of
// systemd and the kernel.
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

// isUnit reports whether systemd can have created a foreign group.
func (g *Group) isUnit() bool {
	return g.err == nil && (strings.HasSuffix(g.path, ".scope") || strings.HasSuffix(g.path, ".slice"))
}

// apply updates a unit with the values of its group.
func (u *PendingUnitUpdate) apply() (now state, err error) {
	g := u.Group
	if now, err = g.state(); err != nil {
		return now, g.wrap(err)
	}
	return now, g.wrap(g.updateUnit(u.states(now)))
}

// states returns the assumed and the new values of a unit whose group has a state.
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

// updateUnit gives the unit of a group the properties that differ between two states, rounded as systemd keeps them.
func (g *Group) updateUnit(before, after state) error {
	after.cfsBandwidth = roundForSystemd(after.cfsBandwidth)
	return g.tree.setProperties(filepath.Base(g.path), properties(before, after))
}

// restoreCPU restores the CPU values of groups if systemd has written other values, such as a rounded quota.
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

// flush waits until systemd has written the updates: it writes them before it answers the next call.
func (b *bus) flush() error {
	return b.call(func(ctx context.Context, conn *systemd.Conn) error {
		_, err := conn.SystemStateContext(ctx)
		return err
	})
}
