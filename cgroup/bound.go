package cgroup

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// A Bound is the quota of a group: all processes in the group and in the groups nested in it share it.
type Bound struct {
	Path          string // of the group, from the mount point on; "/" is the root of a container's cgroup namespace
	Quota, Period time.Duration
}

// Bound returns the lowest quota of a group and the groups above it; a zero Bound if there is none. A missing group is
// ErrNoGroup.
func (t *Tree) Bound(path string) (Bound, error) {
	if err := t.checkExists(path); err != nil {
		return Bound{}, err
	}
	bounds, err := t.boundsFrom(path)
	return Tightest(bounds), err
}

// Above returns the lowest quota of the groups above a group; a zero Bound if there is none.
func (g *Group) Above() (Bound, error) {
	bounds, err := g.BoundsAbove()
	return Tightest(bounds), err
}

// BoundsAbove returns the quotas of the groups above a group, the nearest first. The group need not exist, nor the
// groups above it. Groups outside of this process's cgroup namespace cannot be seen.
func (g *Group) BoundsAbove() ([]Bound, error) {
	if g.err != nil {
		return nil, g.err
	}
	return g.tree.boundsFrom(filepath.Dir(g.Path()))
}

// BoundsOfParent returns the quotas of Candor's parent group and of the groups above it, the nearest first.
func (t *Tree) BoundsOfParent() ([]Bound, error) { return t.boundsFrom(t.cpu.pathOf(t.cpu.parent)) }

// Path returns the path of the group, from the mount point of the cpu controller on.
func (g *Group) Path() string { return g.tree.cpu.pathOf(g.dir(g.tree.cpu)) }

// Tightest returns the first bound with the least CPU time per time; a zero Bound if there are none.
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

// boundsFrom returns the quotas of a group and of the groups above it, the nearest first.
func (t *Tree) boundsFrom(path string) (boundsFrom []Bound, err error) {
	for ; ; path = filepath.Dir(path) {
		b, err := t.cpu.readBandwidth(filepath.Join(t.cpu.mount, path))
		switch {
		case isGone(err): // not created yet, without the controller (v2), or the root of the machine (v2)
		case err != nil:
			return nil, fmt.Errorf("cgroup %s: %w", path, err)
		case b.quota != noQuota:
			boundsFrom = append(boundsFrom, Bound{path, time.Duration(b.quota) * time.Microsecond, time.Duration(b.period) * time.Microsecond})
		}
		if path == "/" {
			return boundsFrom, nil
		}
	}
}

// quotaCause adds the group with the limiting quota to cgroup v1's refusal of a quota, which is a bare EINVAL.
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
