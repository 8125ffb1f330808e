package top

import (
	"fmt"
	"slices"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cmd/candor/internal/audit"
	"github.com/candor-project/candor/cmd/candor/internal/helpers"
	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/cputext"
	"github.com/candor-project/candor/internal/procfs"
)

// Figures are the rates between two samples of the kernel's counters.
type Figures struct {
	During      time.Duration
	Partial     bool // a signal ended the interval early
	Map         *cpumap.Map
	CPUs        []CPU // online CPUs in the order of their IDs
	Rows        []Row // in order of arrival
	ForeignUses []cpumap.ForeignUse
	Inside      *Details // details of the opened container; nil without such a container
	Note        string   // warning of the host's snapshot or, without a warning, the first note of SeenNotes; "" without any
}

// A CPU is an online CPU.
type CPU struct {
	cpumap.Seat
	Busy Share // share of the CPU's time in programs and interrupts, or stolen by the hypervisor
}

// A Share is a fraction from 0 to 1. A negative share is unknown.
type Share float64

// Unknown is the share of an interval without time or periods, and of a CPU, container or thread without an earlier sample.
const Unknown Share = -1

// Known reports whether the share is known.
func (s Share) Known() bool { return s >= 0 }

// A Row is a container in the list.
type Row struct {
	*Container
	Name         string
	Letter       string // letter of a sensitive container in the map
	Color        int
	Use          float64 // mean number of CPUs in use; valid if Used is true
	Used         bool    // Use is known
	Helpers      float64 // mean number of CPUs that helpers use for the container; valid if Helped is true
	Helped       bool    // Helpers is known
	LimitShare   Share   // Use as a share of the limit
	Throttled    Share   // share of the periods between the samples in which the quota ran out
	ThrottledAll Share   // the same share since the cgroup was created
	Condition    string
}

// Details hold the threads of the opened container, the busiest thread first.
type Details struct {
	Row     *Row
	Threads []ThreadUse
}

// A ThreadUse is a thread with its CPU use.
type ThreadUse struct {
	Thread
	Use Share // of a CPU
}

// Between computes the figures between two samples. A new container or CPU, or a container whose counters have restarted, has no
// rates yet. inside is the ID of the opened container, or "".
func Between(before, after *Reading, inside string) *Figures {
	f := &Figures{During: after.At.Sub(before.At), Map: after.Map, Note: after.Note}
	used := helpers.Between(before.Helpers, after.Helpers)
	for i := range after.Containers {
		c := &after.Containers[i]
		was := before.container(c.ID)
		row := f.row(was, c)
		id, ok := audit.ContainerID(c.Engine.Cgroup)
		if !ok {
			id = c.ID // Candor's own cgroup has the beginning of the engine's ID as its name
		}
		row.Helpers, row.Helped = used.Charged(id)
		f.Rows = append(f.Rows, row)
		if comparableTime(was, c) > 0 && was.Exclusive == c.Exclusive {
			f.ForeignUses = append(f.ForeignUses, foreignUses(before, after, was, c)...)
		}
	}
	if notes := f.SeenNotes(); f.Note == "" && len(notes) > 0 {
		f.Note = notes[0]
		if more := len(notes) - 1; more > 0 {
			f.Note = fmt.Sprintf("%s (and %s)", f.Note, cputext.Count(more, "more note"))
		}
	}
	slices.SortStableFunc(f.ForeignUses, func(a, b cpumap.ForeignUse) int { return a.CPUs.First() - b.CPUs.First() })
	f.Map.ForeignUses = f.ForeignUses
	for _, seat := range f.Map.Seats() {
		f.CPUs = append(f.CPUs, CPU{seat, busy(before, after, seat.CPU)})
	}
	if i := slices.IndexFunc(f.Rows, func(r Row) bool { return r.ID == inside }); i >= 0 {
		f.Inside = &Details{&f.Rows[i], threads(before.container(inside), f.Rows[i].Container)}
	}
	return f
}

// SeenNotes returns a line for each container that sees other CPUs than its settings say, with the reason and the remedy.
func (f *Figures) SeenNotes() (notes []string) {
	for i := range f.Rows {
		if r := &f.Rows[i]; r.SeenCPUs.Note != "" {
			notes = append(notes, cpumap.Clean(fmt.Sprintf("%s sees %s: %s", r.Name, r.SeenCPUs, r.SeenCPUs.Note)))
		}
	}
	return notes
}

// comparableTime returns the time between two samples of a container. It returns 0 if the samples cannot be compared, because the container
// is new, has no cgroup, or its counters have restarted.
func comparableTime(was, is *Container) time.Duration {
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
	r.LimitShare, r.Throttled, r.ThrottledAll = Unknown, Unknown, Unknown
	if is.Exists {
		r.ThrottledAll = throttledShare(&cgroup.Usage{}, &is.Stat.Usage)
	}
	took := comparableTime(was, is)
	if took <= 0 {
		return r
	}
	r.Use, r.Used = float64(is.Stat.CPU-was.Stat.CPU)/float64(took), true
	if is.Limit > 0 {
		r.LimitShare = Share(r.Use * 1000 / float64(is.Limit))
	}
	r.Throttled = throttledShare(&was.Stat.Usage, &is.Stat.Usage)
	return r
}

// throttledShare returns the share of the periods between two samples in which the quota ran out; Unknown without periods.
func throttledShare(was, is *cgroup.Usage) Share {
	if is.Periods == was.Periods {
		return Unknown
	}
	return Share(is.Throttled-was.Throttled) / Share(is.Periods-was.Periods)
}

// busy returns the use of a CPU. A negative difference counts as 0, because the kernel's counters can go back by a tick.
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
		if cpu >= 0 { // -1: the sum for all exclusive CPUs
			cpus = cpuset.Of(cpu)
		}
		if milli := hybrid.Milli(share * 1000); milli >= minForeignUse {
			list = append(list, cpumap.ForeignUse{CPUs: cpus, Milli: milli})
		}
	}
	return list
}

// minForeignUse is the smallest foreign use to show, in milli-CPU. Smaller uses can come from the kernel's own threads, which run
// on all CPUs. They can also come from the kernel's counting in ticks.
const minForeignUse = 50

// threads returns the threads of the later sample with their CPU use since the earlier sample, the busiest thread first.
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
