package record

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/internal/interference"
)

// Groups are groups of a machine that are open for recording.
type Groups struct {
	tree     *cgroup.Tree
	open     []openedGroup   // groups that Record has not passed to a Recorder yet
	known    map[string]bool // paths of the groups with processes at the last call of find; nil if find is not used
	recorded map[string]bool // names of all groups that are recorded
	watched  []*watchedGroup // targets; nil after OpenEvery

	isWatched bool                        // Watch was called
	endWatch  func() *interference.Report // result of watch

	// Interference is the use of the targets' CPUs by other processes during Record; nil: low, unknown, or the groups are from OpenEvery.
	Interference *interference.Report
}

// An openedGroup is a group with a source of its usage.
type openedGroup struct {
	Group
	Source
	path string
}

// A Target is a group to record. Name is the group's name in the recording, and Group its name for cgroup.OpenUsage.
type Target struct{ Name, Group string }

// Open opens the targets. The error is fs.ErrNotExist if a group does not exist.
func Open(tree *cgroup.Tree, targets ...Target) (*Groups, error) {
	g := &Groups{tree: tree, recorded: map[string]bool{}}
	for _, target := range targets {
		g.recorded[target.Name] = true
	}
	for _, target := range targets {
		group, err := openGroup(tree, target)
		if err == nil {
			watched := &watchedGroup{Source: group.Source, path: group.path}
			group.Source = watched
			g.watched = append(g.watched, watched)
			err = g.add(group, g.store)
		}
		if err != nil {
			g.Close()
			return nil, err
		}
	}
	return g, nil
}

func (g *Groups) store(group openedGroup) error {
	g.open = append(g.open, group)
	return nil
}

// add calls found for an open group. Before that call, it opens the group's ancestor with the tightest limit, and calls found for this
// ancestor.
func (g *Groups) add(group openedGroup, found func(openedGroup) error) error {
	err := g.addAncestor(group.Above, found)
	if err == nil {
		err = found(group)
	}
	if err != nil {
		group.Close()
	}
	return err
}

// addAncestor opens the ancestor at a path and calls found for it, unless the ancestor is recorded already. An ancestor is
// recorded because its throttling delays the groups nested in it, and only the counters of the ancestor show this
// throttling.
func (g *Groups) addAncestor(path string, found func(openedGroup) error) error {
	if path == "" || g.recorded[path] {
		return nil
	}
	group, err := openGroup(g.tree, Target{path, path})
	if err != nil {
		return err
	}
	group.Encloses = true
	g.recorded[path] = true
	group.Source = foundSource{group.Source, func() { delete(g.known, path); delete(g.recorded, path) }}
	return g.add(group, found)
}

// OpenEvery opens all groups that have processes. Record also records groups that get processes later.
func OpenEvery(tree *cgroup.Tree) (*Groups, error) {
	g := &Groups{tree: tree, known: map[string]bool{}, recorded: map[string]bool{}}
	return g, g.find(g.store)
}

// find opens all groups that have processes and are not recorded yet, and calls found for them. It skips groups that end
// meanwhile.
func (g *Groups) find(found func(openedGroup) error) error {
	paths, err := g.tree.Paths()
	if err != nil {
		return err
	}
	now := make(map[string]bool, len(paths))
	for _, path := range paths {
		now[path] = true
		if g.known[path] || g.recorded[path] { // recorded but not known: an ancestor that has got its first process
			continue
		}
		group, err := openGroup(g.tree, Target{path, path})
		if err == nil {
			g.recorded[path] = true
			group.Source = foundSource{group.Source, func() { delete(g.known, path); delete(g.recorded, path) }}
			err = g.add(group, found)
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

// A foundSource is a Source that calls onClose when it is closed. onClose removes the path of an ended group from known
// and recorded, so that find can find a new group at the same path.
type foundSource struct {
	Source
	onClose func()
}

func (s foundSource) Close() {
	s.Source.Close()
	s.onClose()
}

// Record records the groups with a Recorder and writes the recording to out. It closes the groups.
func (g *Groups) Record(ctx context.Context, out io.Writer, interval, duration time.Duration) error {
	defer g.Close()
	g.Watch() // before the recorder starts
	r, err := New(out, interval)
	if err != nil {
		return err
	}
	r.OnEnd = g.endWatch
	add := func(group openedGroup) error { return r.Add(group.Group, group.Source) }
	for len(g.open) > 0 {
		group := g.open[0]
		if err := add(group); err != nil && !(g.known != nil && errors.Is(err, fs.ErrNotExist)) {
			return err
		} else if err != nil { // the group has ended meanwhile
			group.Close()
		}
		g.open = g.open[1:] // from now on, the Recorder is responsible for closing the group
	}
	if g.known != nil {
		r.OnFlush = func() error { return g.find(add) }
	}
	return r.Run(ctx, duration)
}

// Close closes the groups that Record has not passed to a Recorder.
func (g *Groups) Close() {
	for _, group := range g.open {
		group.Close()
	}
	g.open = nil
}

func openGroup(tree *cgroup.Tree, target Target) (openedGroup, error) {
	reader, err := tree.OpenUsage(target.Group)
	if err != nil {
		return openedGroup{}, err
	}
	g := tree.Group(target.Group)
	if strings.HasPrefix(target.Group, "/") {
		g = tree.EngineGroup("group", target.Group)
	}
	group := Group{Name: target.Name}
	group.Quota, group.Period, group.Burst, err = g.Bandwidth()
	if err == nil {
		var above cgroup.Bound
		above, err = g.Above()
		group.Above = above.Path
	}
	if err != nil {
		reader.Close()
		return openedGroup{}, err
	}
	return openedGroup{group, reader, g.Path()}, nil
}
