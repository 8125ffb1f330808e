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

// The kubelet and the runtimes, too, can have systemd make the groups of pods and containers: slices and scopes. As with
// Candor's own, the units' properties own the kernel's files, which systemd writes again when it is reloaded. But to tell
// systemd takes as long as to write some 50 files, and many containers may change for one that is about to start. So
// the files are written first, which is what counts, and systemd is told afterwards what they have.

// An PendingUnitUpdate is somebody else's group of which systemd does not know yet what it was given.
type PendingUnitUpdate struct {
	Group *Group
	CPUs  bool // its CPUs or memory nodes
	Time  bool // its quota, period or weight
	// Quota is its own one where what it has may be raised (SetQuota); 0: the one that it has.
	Quota time.Duration
}

// PendingUnitUpdate returns what systemd does not know of a group that had something else before: it keeps weights and quotas in steps.
func (g *Group) PendingUnitUpdate(before, after Settings) PendingUnitUpdate {
	was, is := before.kernel(g.tree.cpu), after.kernel(g.tree.cpu)
	was.cfsBandwidth, is.cfsBandwidth = roundForSystemd(was.cfsBandwidth), roundForSystemd(is.cfsBandwidth)
	was.burst, is.burst = 0, 0 // it has no property
	if is.mems.IsEmpty() {     // they stay
		is.mems = was.mems
	}
	return PendingUnitUpdate{Group: g, CPUs: was.cpus != is.cpus || was.mems != is.mems, Time: was.cpuState != is.cpuState}
}

// ApplyUnitUpdate lets systemd know what groups have that are its units, so that it does not undo it. Groups that are
// no units, or are no more, are left out. It keeps quotas in steps of 10 ms a second: where one lies between two
// steps the unit has the next one up, and the file what it had. Meanwhile nobody may give the groups anything
// else. It returns what systemd and the kernel have refused.
func (t *Tree) ApplyUnitUpdate(all []PendingUnitUpdate) error {
	if t.bus == nil {
		return nil
	}
	var errs []error
	rewritten := map[*Group]cpuState{}
	for _, u := range all {
		if !u.Group.isUnit() {
			continue
		}
		now, err := u.tell()
		if errors.Is(err, context.DeadlineExceeded) {
			errs = append(errs, err)
			break // the others would get no answer either
		}
		switch {
		case errors.Is(err, ErrNoGroup), isUnitError(err, "NoSuchUnit"):
		case err != nil:
			errs = append(errs, err)
		default: // whatever it is told, systemd writes all that it knows of a unit
			rewritten[u.Group] = now.cpuState
		}
	}
	return errline.Join(append(errs, t.bus.rewrite(rewritten))...)
}

// isUnit reports whether systemd may have made somebody else's group.
func (g *Group) isUnit() bool {
	return g.err == nil && (strings.HasSuffix(g.path, ".scope") || strings.HasSuffix(g.path, ".slice"))
}

// tell gives a unit what its group has.
func (u *PendingUnitUpdate) tell() (now state, err error) {
	g := u.Group
	if now, err = g.state(); err != nil {
		return now, g.wrap(err)
	}
	return now, g.wrap(g.tellUnit(u.change(now)))
}

// change is what the unit is taken to have, and what it is to have, where its group has a state.
func (u *PendingUnitUpdate) change(now state) (before, after state) {
	if after = now; u.Quota != 0 && now.quota != none {
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

// tellUnit gives the unit of a group the properties that differ between two states, rounded as systemd keeps them.
func (g *Group) tellUnit(before, after state) error {
	after.cfsBandwidth = roundForSystemd(after.cfsBandwidth)
	return g.tree.setProperties(filepath.Base(g.path), properties(before, after))
}

// rewrite gives groups what they had of CPU time where systemd has written something else, such as a quota that it has rounded,
// when it has done so.
func (b *bus) rewrite(all map[*Group]cpuState) error {
	if len(all) == 0 {
		return nil
	}
	if err := b.settle(); err != nil {
		return err
	}
	var errs []error
	for g, had := range all {
		err := g.wrap(g.tree.cpu.setCPU(g.dir(g.tree.cpu), had))
		if err != nil && !errors.Is(err, ErrNoGroup) {
			errs = append(errs, err)
		}
	}
	return errline.Join(errs...)
}

// settle waits until systemd has written what it was told: it does so before it looks at the next question.
func (b *bus) settle() error {
	return b.call(func(ctx context.Context, conn *systemd.Conn) error {
		_, err := conn.SystemStateContext(ctx)
		return err
	})
}
