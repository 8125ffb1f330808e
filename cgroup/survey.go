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
