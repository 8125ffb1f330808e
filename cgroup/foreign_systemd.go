package cgroup

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	systemd "github.com/coreos/go-systemd/v22/dbus"

	"github.com/candor-project/candor/internal/oneline"
)

// The kubelet and the runtimes, too, can have systemd make the groups of pods and containers: slices and scopes. As with
// Candor's own, the units' properties own the kernel's files, which systemd writes again when it is reloaded. But many
// containers may change for one that is about to start, and the files are what counts: they are written first,
// and systemd is told after that, of all at once.

// A Given is what somebody else's group has been given since it had Before.
type Given struct {
	Group         *Group
	Before, After Settings
}

// Tell lets systemd know what groups were given that are its units, so that it does not undo it. Groups that are
// no units, or are no more, are left out. It keeps quotas in steps of 10 ms a second: where one lies between two
// steps the unit has the next one up, and the file what was given. It returns what systemd and the kernel have refused.
func (t *Tree) Tell(all []Given) error {
	if t.bus == nil {
		return nil
	}
	var errs []error
	var rewritten []Given
	for _, given := range all {
		if !given.Group.isUnit() {
			continue
		}
		rewrites, err := given.tell()
		if err != nil && !isUnitError(err, "NoSuchUnit") {
			errs = append(errs, given.Group.wrap(err))
		}
		if errors.Is(err, context.DeadlineExceeded) {
			break // the others would get no answer either
		}
		if rewrites {
			rewritten = append(rewritten, given)
		}
	}
	return oneline.Join(append(errs, t.rewrite(rewritten))...)
}

// isUnit reports whether systemd may have made somebody else's group.
func (g *Group) isUnit() bool {
	return g.err == nil && (strings.HasSuffix(g.path, ".scope") || strings.HasSuffix(g.path, ".slice"))
}

func (given *Given) tell() (rewrites bool, err error) {
	t := given.Group.tree
	before, after := given.Before.kernel(t.cpu), given.After.kernel(t.cpu)
	if after.mems.IsEmpty() {
		after.mems = before.mems
	}
	return t.tellUnit(given.Group.path, before, after)
}

// tellUnit gives the unit of a group the properties that differ between two states, rounded as systemd keeps them.
// With one of the cpu controller's systemd rewrites all of its files.
func (t *Tree) tellUnit(path string, before, after state) (rewrites bool, err error) {
	before.bandwidth, after.bandwidth = roundForSystemd(before.bandwidth), roundForSystemd(after.bandwidth)
	props := properties(before, after)
	isCPU := func(p systemd.Property) bool { return strings.HasPrefix(p.Name, "CPU") }
	return slices.ContainsFunc(props, isCPU), t.setProperties(filepath.Base(path), props)
}

// rewrite gives groups their quota again where systemd has rounded it, after it has done so.
func (t *Tree) rewrite(all []Given) error {
	if len(all) == 0 {
		return nil
	}
	if err := t.bus.settle(); err != nil {
		return err
	}
	var errs []error
	for _, given := range all {
		g := given.Group
		err := g.wrap(t.cpu.setCPU(g.dir(t.cpu), given.After.kernel(t.cpu).cpuState))
		if err != nil && !errors.Is(err, ErrNoGroup) {
			errs = append(errs, err)
		}
	}
	return oneline.Join(errs...)
}

// settle waits until systemd has written what it was told: it does so before it looks at the next question.
func (b *bus) settle() error {
	return b.call(func(ctx context.Context, conn *systemd.Conn) error {
		_, err := conn.SystemStateContext(ctx)
		return err
	})
}
