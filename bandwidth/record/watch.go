package record

import (
	"slices"
	"strings"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/interference"
)

// A watchedGroup is the source of a target. It records the CPU time that the group used since its first reading.
type watchedGroup struct {
	Source
	path        string     // of the group
	cpus        cpuset.Set // CPUs of the group at the start; empty: unknown
	first, last time.Duration
	isRead      bool
}

func (g *watchedGroup) Read() (cgroup.Usage, error) {
	u, err := g.Source.Read()
	if err == nil {
		if !g.isRead {
			g.first, g.isRead = u.CPU, true
		}
		g.last = u.CPU
	}
	return u, err
}

// Watch starts to watch the CPUs of the targets. It reads a file per process of the machine, which takes time. Record calls Watch, unless
// the caller has called it before, for example before the start of the recorded program.
func (g *Groups) Watch() {
	if g.known != nil || g.isWatched {
		return
	}
	g.isWatched, g.endWatch = true, g.watch()
}

// watch starts to watch the CPUs of the targets. The returned function ends the watch, and sets and returns Interference. If the CPUs of a
// target have changed, it does not set Interference. watch returns nil if /proc cannot be read; then the recording has no report.
func (g *Groups) watch() (end func() *interference.Report) {
	w := interference.Start(g.cpus())
	if w == nil {
		return nil
	}
	return func() *interference.Report {
		if others, span, err := w.Others(g.used()); err == nil && !g.isMoved(g.tree.CPUsAt) {
			g.Interference = w.Report(others, span, g.contains)
		}
		return g.Interference
	}
}

// cpus returns the CPUs that the targets may use, or the online CPUs if they cannot be read. It records the CPUs of each target.
func (g *Groups) cpus() (all cpuset.Set) {
	for _, watched := range g.watched {
		var err error
		if watched.cpus, err = g.tree.CPUsAt(watched.path); err != nil || watched.cpus.IsEmpty() {
			return onlineCPUs()
		}
		all.AddAll(&watched.cpus)
	}
	return all
}

// isMoved reports whether the CPUs of a target have changed since the start. Then the CPU time of the targets is not only on the
// watched CPUs, and the time of the other processes is unknown. isMoved ignores targets that have ended. The function read
// returns the CPUs of the group at a path.
func (g *Groups) isMoved(read func(path string) (cpuset.Set, error)) bool {
	return slices.ContainsFunc(g.watched, func(w *watchedGroup) bool {
		cpus, err := read(w.path)
		return err == nil && !w.cpus.IsEmpty() && cpus != w.cpus
	})
}

// used returns the CPU time of the targets. If a target is nested in another target, its CPU time is included only once.
func (g *Groups) used() (sum time.Duration) {
	for _, watched := range g.watched {
		isWithin := func(other *watchedGroup) bool { return other != watched && isBelow(watched.path, other.path) }
		if !slices.ContainsFunc(g.watched, isWithin) {
			sum += watched.last - watched.first
		}
	}
	return sum
}

// contains reports whether a process is in a target, or has ended.
func (g *Groups) contains(pid int) bool {
	path, err := g.tree.PathOf(pid)
	return err != nil || slices.ContainsFunc(g.watched, func(w *watchedGroup) bool { return path == w.path || isBelow(path, w.path) })
}

// isBelow reports whether a path is below another path.
func isBelow(path, above string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(above, "/")+"/")
}
