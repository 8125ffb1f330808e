package top

import (
	"slices"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cmd/candor/internal/cpumap"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/procfs"
)

// Figures are the differences between two samples.
type Figures struct {
	During    time.Duration
	Map       *cpumap.Map
	CPUs      []CPU // online CPUs, by ID
	Rows      []Row // in order of arrival
	Strangers []cpumap.ForeignUse
	Inside    *Inside // of the container that is looked into
	Note      string
}

// A CPU is an online CPU.
type CPU struct {
	cpumap.Seat
	Busy Share // of its time: with programs and interrupts, and stolen by the hypervisor
}

// A Share is a part of something, 0 to 1; below 0 it is not known.
type Share float64

// Unknown is a share that is not known: of no time, or of a thing that has just come.
const Unknown Share = -1

// Known reports whether the share is known.
func (s Share) Known() bool { return s >= 0 }

// A Row is a container.
type Row struct {
	*Container
	Name         string
	Letter       string // letter of a sensitive container in the map
	Color        int
	Use          float64 // CPUs, if Used
	Used         bool    // Use is known
	OfLimit      Share   // Use of the limit
	Throttled    Share   // periods in which the quota ran out, of those between the readings
	ThrottledAll Share   // the same since the group was made
	Condition    string
}

// An Inside holds the threads of a container, the busiest first.
type Inside struct {
	Row     *Row
	Threads []ThreadUse
}

// A ThreadUse is a thread with its CPU use.
type ThreadUse struct {
	Thread
	Use Share // of a CPU
}

// Between compares two samples. New containers and CPUs, and those whose counters have restarted, have no rates yet.
func Between(before, after *Reading, inside string) *Figures {
	f := &Figures{During: after.At.Sub(before.At), Map: after.Map, Note: after.Note}
	for i := range after.Containers {
		c := &after.Containers[i]
		was := before.container(c.ID)
		f.Rows = append(f.Rows, f.row(was, c))
		if used(was, c) > 0 && was.Exclusive == c.Exclusive {
			f.Strangers = append(f.Strangers, foreignUses(before, after, was, c)...)
		}
	}
	slices.SortStableFunc(f.Strangers, func(a, b cpumap.ForeignUse) int { return a.CPUs.First() - b.CPUs.First() })
	f.Map.ForeignUses = f.Strangers
	for _, seat := range f.Map.Seats() {
		f.CPUs = append(f.CPUs, CPU{seat, busy(before, after, seat.CPU)})
	}
	if i := slices.IndexFunc(f.Rows, func(r Row) bool { return r.ID == inside }); i >= 0 {
		f.Inside = &Inside{&f.Rows[i], threads(before.container(inside), f.Rows[i].Container)}
	}
	return f
}

// used is the time for which a container's counts can be compared; 0: not at all.
func used(was, is *Container) time.Duration {
	if was == nil || !was.Exists || !is.Exists || is.Stat.CPU < was.Stat.CPU || is.Stat.Periods < was.Stat.Periods ||
		is.Stat.Throttled < was.Stat.Throttled {
		return 0
	}
	return is.At.Sub(was.At)
}

func (f *Figures) row(was, is *Container) Row {
	r := Row{Container: is, Name: f.Map.Name(is.ID), Condition: is.ContainerState.Condition(&is.Grant)}
	if is.Class == hybrid.Sensitive {
		r.Letter, r.Color = f.Map.Tag(is.ID)
	}
	r.OfLimit, r.Throttled, r.ThrottledAll = Unknown, Unknown, Unknown
	if is.Exists {
		r.ThrottledAll = throttled(&cgroup.Usage{}, &is.Stat.Usage)
	}
	took := used(was, is)
	if took <= 0 {
		return r
	}
	r.Use, r.Used = float64(is.Stat.CPU-was.Stat.CPU)/float64(took), true
	if is.Limit > 0 {
		r.OfLimit = Share(r.Use * 1000 / float64(is.Limit))
	}
	r.Throttled = throttled(&was.Stat.Usage, &is.Stat.Usage)
	return r
}

// throttled is the share of periods in which the quota ran out; of no periods it is not known.
func throttled(was, is *cgroup.Usage) Share {
	if is.Periods == was.Periods {
		return Unknown
	}
	return Share(is.Throttled-was.Throttled) / Share(is.Periods-was.Periods)
}

// busy returns the use of a CPU. The kernel's counters can go back by a tick.
func busy(before, after *Reading, cpu int) Share {
	was, known := before.CPUs[cpu]
	is, stillKnown := after.CPUs[cpu]
	working := func(t procfs.CPUTime) time.Duration { return t.Programs + t.Interrupts + t.Stolen }
	work, idle := working(is)-working(was), is.Idle-was.Idle
	if !known || !stillKnown || max(work, 0)+max(idle, 0) == 0 {
		return Unknown
	}
	return Share(max(work, 0)) / Share(max(work, 0)+max(idle, 0))
}

// foreignUses returns the use of a container's exclusive CPUs by foreign processes.
func foreignUses(before, after *Reading, was, is *Container) (list []cpumap.ForeignUse) {
	sample := func(r *Reading, c *Container) *host.BusySample {
		return &host.BusySample{At: r.At, Busy: host.BusyWith(r.CPUs), Own: c.Stat}
	}
	for cpu, share := range host.ForeignUse(&is.Grant, sample(before, was), sample(after, is)) {
		cpus := is.Exclusive
		if cpu >= 0 { // -1: all of them together
			cpus = cpuset.Of(cpu)
		}
		if milli := hybrid.Milli(share * 1000); milli >= leastStranger {
			list = append(list, cpumap.ForeignUse{CPUs: cpus, Milli: milli})
		}
	}
	return list
}

// leastStranger is the smallest foreign use to show: the kernel counts in ticks, and its own threads run everywhere.
const leastStranger = 50

// threads sorts the threads of a container by their use, then by their IDs.
func threads(was, is *Container) []ThreadUse {
	before := map[int]time.Duration{}
	var took time.Duration
	if was != nil {
		took = is.ThreadsAt.Sub(was.ThreadsAt)
		for _, t := range was.Threads {
			before[t.ID] = t.Time
		}
	}
	uses := make([]ThreadUse, 0, len(is.Threads))
	for _, t := range is.Threads {
		use := Unknown
		if then, known := before[t.ID]; known && took > 0 && t.Time >= then {
			use = Share(t.Time-then) / Share(took)
		}
		uses = append(uses, ThreadUse{t, use})
	}
	slices.SortFunc(uses, func(a, b ThreadUse) int {
		switch {
		case a.Use > b.Use:
			return -1
		case a.Use < b.Use:
			return 1
		default:
			return a.ID - b.ID
		}
	})
	return uses
}
