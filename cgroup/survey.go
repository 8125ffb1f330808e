package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/candor-project/candor/cpuset"
)

// What is in this file looks at everybody's groups. It takes no rights but to read them.

// A Bound is the tightest quota that holds for a group.
type Bound struct {
	Path          string // of the group that has the quota: the group itself, or one above it
	Quota, Period time.Duration
}

// Bound returns the tightest quota among those of a group and of the groups above it; a zero Bound if
// there is none. ErrNoGroup: there is no group with that path.
func (t *Tree) Bound(path string) (Bound, error) {
	if err := t.checkThere(path); err != nil {
		return Bound{}, err
	}
	tightest, at := bandwidth{quota: none}, ""
	for ; path != "/"; path = filepath.Dir(path) {
		b, err := t.cpu.readBandwidth(t.cpu.mount + path)
		if gone(err) { // v2: a group that the controller is not given to
			continue
		}
		if err != nil {
			return Bound{}, fmt.Errorf("cgroup %s: %w", path, err)
		}
		if tightest.exceeds(b) {
			tightest, at = b, path
		}
	}
	if at == "" {
		return Bound{}, nil
	}
	return Bound{at, time.Duration(tightest.quota) * time.Microsecond, time.Duration(tightest.period) * time.Microsecond}, nil
}

// Above returns the tightest quota among those of the groups above a group; a zero Bound if there is none.
func (g *Group) Above() (Bound, error) {
	if g.err != nil {
		return Bound{}, g.err
	}
	above := filepath.Dir(g.tree.cpu.pathOf(g.dir(g.tree.cpu)))
	if above == "/" {
		return Bound{}, nil
	}
	return g.tree.Bound(above)
}

// Bandwidth returns a group's quota for each period, and its burst; zeros where there is none, or where the cpu controller has
// not the group.
func (g *Group) Bandwidth() (quota, period, burst time.Duration, err error) {
	if g.err != nil {
		return 0, 0, 0, g.err
	}
	b, err := g.tree.cpu.readBandwidth(g.dir(g.tree.cpu))
	switch {
	case gone(err) || err == nil && b.quota == none:
		return 0, 0, 0, nil
	case err != nil:
		return 0, 0, 0, g.wrap(err)
	}
	micros := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	return micros(b.quota), micros(b.period), micros(b.burst), nil
}

// CPUsAt returns the CPUs that the processes of a group may use. Where the cpuset controller has not the
// group, they are those of the nearest group above that it has.
func (t *Tree) CPUsAt(path string) (cpuset.Set, error) {
	if err := t.checkThere(path); err != nil {
		return cpuset.Set{}, err
	}
	for {
		cpus, err := readEffective(t.cpuset.mount+path, cpusFile)
		if !errors.Is(err, fs.ErrNotExist) || path == "/" {
			return cpus, err
		}
		path = filepath.Dir(path)
	}
}

// checkThere refuses what is no path, and no group.
func (t *Tree) checkThere(path string) error {
	err := CheckPath(path)
	if err != nil {
		return err
	}
	is, err := isGroup(t.cpu.mount + path)
	if err == nil && !is {
		err = fmt.Errorf("cgroup %s: %w", path, ErrNoGroup)
	}
	return err
}
