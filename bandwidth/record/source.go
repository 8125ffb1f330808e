package record

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/candor-project/candor/cgroup"
)

// Groups are open groups of a machine, ready for recording.
type Groups struct {
	tree  *cgroup.Tree
	open  []opened
	known map[string]bool // by path: groups found so far
	has   map[string]bool // by path: groups that are recorded for their limit
}

type opened struct {
	Group
	Source
}

// A Target is a group to record: its name in the recording, and its name for cgroup.OpenUsage.
type Target struct{ Name, Group string }

// Open opens groups. The error is fs.ErrNotExist if a group does not exist.
func Open(tree *cgroup.Tree, targets ...Target) (*Groups, error) {
	g := &Groups{tree: tree, has: map[string]bool{}}
	for _, target := range targets {
		g.has[target.Name] = true
	}
	for _, target := range targets {
		one, err := openGroup(tree, target)
		if err == nil {
			err = g.add(one, g.keep)
		}
		if err != nil {
			g.Close()
			return nil, err
		}
	}
	return g, nil
}

func (g *Groups) keep(one opened) error {
	g.open = append(g.open, one)
	return nil
}

// add passes an open group to found, after the group whose limit applies to it.
func (g *Groups) add(one opened, found func(opened) error) error {
	err := g.enclose(one.Above, found)
	if err == nil {
		err = found(one)
	}
	if err != nil {
		one.Close()
	}
	return err
}

// enclose opens an ancestor group for its limit, unless the group is already recorded. The throttling of the ancestor
// delays its descendants, but only the ancestor's counters show it.
func (g *Groups) enclose(path string, found func(opened) error) error {
	if path == "" || g.has[path] {
		return nil
	}
	one, err := openGroup(g.tree, Target{path, path})
	if err != nil {
		return err
	}
	one.Encloses = true
	g.has[path] = true
	one.Source = known{one.Source, func() { delete(g.known, path); delete(g.has, path) }}
	return g.add(one, found)
}

// OpenEvery opens all groups that have processes. Record adds groups that appear later.
func OpenEvery(tree *cgroup.Tree) (*Groups, error) {
	g := &Groups{tree: tree, known: map[string]bool{}, has: map[string]bool{}}
	return g, g.find(g.keep)
}

// find opens new groups that have processes. It skips groups that end meanwhile.
func (g *Groups) find(found func(opened) error) error {
	paths, err := g.tree.Paths()
	if err != nil {
		return err
	}
	now := make(map[string]bool, len(paths))
	for _, path := range paths {
		now[path] = true
		if g.known[path] || g.has[path] { // or recorded for its limit, and has processes only now
			continue
		}
		one, err := openGroup(g.tree, Target{path, path})
		if err == nil {
			g.has[path] = true
			one.Source = known{one.Source, func() { delete(g.known, path); delete(g.has, path) }}
			err = g.add(one, found)
		}
		if errors.Is(err, fs.ErrNotExist) {
			now[path] = false
		} else if err != nil {
			return err
		}
	}
	g.known = now
	return nil
}

// A known is the source of a group that find found. When the group ends, its path becomes unknown, because another
// group can be created at the path.
type known struct {
	Source
	forget func()
}

func (k known) Close() {
	k.Source.Close()
	k.forget()
}

// Record records the groups with a Recorder, and closes them.
func (g *Groups) Record(ctx context.Context, out io.Writer, interval, duration time.Duration) error {
	defer g.Close()
	r, err := New(out, interval)
	if err != nil {
		return err
	}
	add := func(one opened) error { return r.Add(one.Group, one.Source) }
	for len(g.open) > 0 {
		one := g.open[0]
		if err := add(one); err != nil && !(g.known != nil && errors.Is(err, fs.ErrNotExist)) {
			return err
		} else if err != nil { // the group has ended meanwhile
			one.Close()
		}
		g.open = g.open[1:] // the recorder closes it
	}
	if g.known != nil {
		r.Look = func() error { return g.find(add) }
	}
	return r.Run(ctx, duration)
}

// Close closes groups that were not recorded.
func (g *Groups) Close() {
	for _, one := range g.open {
		one.Close()
	}
	g.open = nil
}

func openGroup(tree *cgroup.Tree, target Target) (opened, error) {
	from, err := tree.OpenUsage(target.Group)
	if err != nil {
		return opened{}, err
	}
	g := tree.Group(target.Group)
	if strings.HasPrefix(target.Group, "/") {
		g = tree.EngineGroup("group", target.Group)
	}
	one := Group{Name: target.Name}
	one.Quota, one.Period, one.Burst, err = g.Bandwidth()
	if err == nil {
		var above cgroup.Bound
		above, err = g.Above()
		one.Above = above.Path
	}
	if err != nil {
		from.Close()
		return opened{}, err
	}
	return opened{one, from}, nil
}
