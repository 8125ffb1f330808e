package cgroup

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// A Bound is the quota of a group, and thus an upper bound for the CPU time of every group nested in the group.
type Bound struct {
	Path          string // path of the group below the mount point; "/" can be the root of a container's cgroup namespace
	Quota, Period time.Duration
}

// Bound returns the tightest bound among a group and the groups above it, or a zero Bound if they have no quota. The error for a missing
// group is ErrNoGroup.
func (t *Tree) Bound(path string) (Bound, error) {
	if err := t.checkExists(path); err != nil {
		return Bound{}, err
	}
	bounds, err := t.boundsFrom(path)
	return Tightest(bounds), err
}

// Above returns the tightest bound among the groups above a group, or a zero Bound if they have no quota.
func (g *Group) Above() (Bound, error) {
	bounds, err := g.BoundsAbove()
	return Tightest(bounds), err
}

// BoundsAbove returns the quotas of the groups above a group, the nearest group first. Neither the group nor the groups above it need
// exist. BoundsAbove omits groups outside this process's cgroup namespace, because they are not visible.
func (g *Group) BoundsAbove() ([]Bound, error) {
	if g.err != nil {
		return nil, g.err
	}
	return g.tree.boundsFrom(filepath.Dir(g.Path()))
}

// BoundsOfParent returns the quotas of Candor's parent group and of the groups above the parent group, the nearest group first.
func (t *Tree) BoundsOfParent() ([]Bound, error) { return t.boundsFrom(t.cpu.pathOf(t.cpu.parent)) }

// Path returns the path of the group, relative to the mount point of the cpu controller.
func (g *Group) Path() string { return g.tree.cpu.pathOf(g.dir(g.tree.cpu)) }

// Tightest returns the bound with the lowest ratio of quota to period, the first of several equal bounds. For an empty list it returns a
// zero Bound.
func Tightest(bounds []Bound) (tightest Bound) {
	for _, b := range bounds {
		if tightest.Quota == 0 || tightest.cfsBandwidth().exceeds(b.cfsBandwidth()) {
			tightest = b
		}
	}
	return tightest
}

func (b Bound) cfsBandwidth() cfsBandwidth {
	return cfsBandwidth{quota: b.Quota.Microseconds(), period: b.Period.Microseconds()}
}

// boundsFrom returns the quotas of the group at path and of the groups above it, the nearest group first.
func (t *Tree) boundsFrom(path string) (bounds []Bound, err error) {
	for ; ; path = filepath.Dir(path) {
		b, err := t.cpu.readBandwidth(filepath.Join(t.cpu.mount, path))
		switch {
		case isGone(err): // the group does not exist yet; or on v2 lacks the controller, or is the root group of the machine
		case err != nil:
			return nil, fmt.Errorf("cgroup %s: %w", path, err)
		case b.quota != noQuota:
			bounds = append(bounds, Bound{path, time.Duration(b.quota) * time.Microsecond, time.Duration(b.period) * time.Microsecond})
		}
		if path == "/" {
			return bounds, nil
		}
	}
}

// quotaCause adds the cause to an error of cgroup v1 that refuses a quota (EINVAL): an ancestor group has a lower quota than the
// wanted quota. It returns other errors unchanged, and also this error if no ancestor has a lower quota.
func (g *Group) quotaCause(refusal error, wanted cfsBandwidth) error {
	if g.tree.cpu.v2 || !errors.Is(refusal, unix.EINVAL) {
		return refusal
	}
	above, err := g.Above()
	if err != nil || above.Quota == 0 || wanted.quota == noQuota || !wanted.exceeds(above.cfsBandwidth()) {
		return refusal
	}
	return fmt.Errorf("a quota of %d us per %d us is more than group %s has, %v per %v; raise the quota of that group, or ask for less: %w",
		wanted.quota, wanted.period, above.Path, above.Quota, above.Period, refusal)
}
