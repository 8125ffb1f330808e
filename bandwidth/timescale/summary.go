package timescale

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/candor-project/candor/bandwidth/record"
	"github.com/candor-project/candor/cgroup"
)

// A Summary is the result of reading a recording.
type Summary struct {
	record.Header
	record.Cost
	Span   time.Duration // from the first reading to the last
	Part   Part          // the summarized part
	Cut    bool          // the recording is still being written, or its recorder was killed
	Groups []Group
}

// A Group is the summary of a group.
type Group struct {
	record.Group
	Number       int           // number of the group in the recording
	From, To     time.Duration // since the recording's start
	Used         cgroup.Usage  // between From and To
	Figures      []Figures     // by length of the windows
	HiddenDemand *HiddenDemand // nil if the group was never throttled
	Ancestor     *Ancestor     // nil if no ancestor had a limit
	Points       []*Series     // the use over time by length of the windows, after Trace
	levels       *levels       // the use over time in few values
}

// An Ancestor is the ancestor with the tightest limit, and its usage.
type Ancestor struct {
	record.Group
	Used cgroup.Usage
}

// Mean returns the mean use in CPUs.
func (g *Group) Mean() float64 { return cpus(g.Used.CPU, g.To-g.From) }

// HiddenDemand describes how a limit affected a group during the recording. With such a limit, the recording shows the CPU
// time that the group got, which can be less than its demand. The limit can be an ancestor's.
type HiddenDemand struct {
	Share float64 // share of throttled periods, of the group or of its ancestor
	// Wanted is a lower bound of the mean number of threads that ran or were ready to run, in CPUs. Each CPU on which
	// the group was throttled counts as a thread. Used is the CPU time that ran, which is a lower bound of the work.
	Used, Wanted float64
}

func cpus(time, in time.Duration) float64 {
	if in == 0 {
		return 0
	}
	return float64(time) / float64(in)
}

// Read reads a whole recording; see ReadPart.
func Read(in io.Reader) (*Summary, error) { return ReadPart(in, Part{}) }

// ReadPart reads a recording to its end, or to the point where it is cut, and summarizes a part of it. The error is
// ErrNoPart, record.ErrFormat or an error of in.
func ReadPart(in io.Reader, part Part) (*Summary, error) {
	r, err := record.NewReader(in)
	if err != nil {
		return nil, err
	}
	s := &Summary{Header: r.Header, Part: part}
	var groups []*gatherer
	s.Span, s.Cut, err = gather(r, part, func(_ int, start time.Duration) *gatherer {
		groups = append(groups, newGatherer(start, Scales, r.Header.Interval))
		return groups[len(groups)-1]
	})
	if err != nil {
		return nil, err
	}
	if part.From >= s.Span && part.From > 0 {
		return nil, fmt.Errorf("%w: it begins at %v, and the recording has %v", ErrNoPart, Length(part.From), Length(s.Span.Round(time.Millisecond)))
	}
	s.Cost = r.Cost
	named := numberGroups(r.Groups)
	for i, g := range groups {
		if g.from >= g.at && part != (Part{}) { // the group did not exist then
			continue
		}
		group := g.group(i, r.Groups[i])
		if at := named.ancestorOf(r.Groups, i); at >= 0 {
			group.Ancestor = &Ancestor{r.Groups[at], groups[at].used}
		}
		group.setHidden()
		s.Groups = append(s.Groups, group)
	}
	return s, nil
}

// groupNumbers holds the numbers of the groups of each name, in ascending order. A name can repeat after a group has ended.
type groupNumbers map[string][]int

func numberGroups(groups []record.Group) groupNumbers {
	all := groupNumbers{}
	for i := range groups {
		all[groups[i].Name] = append(all[groups[i].Name], i)
	}
	return all
}

// ancestorOf returns the number of the group whose limit applies to a group: the last group of that name before it, or
// else the first after it. It returns -1 if there is none.
func (n groupNumbers) ancestorOf(groups []record.Group, index int) int {
	if groups[index].Above == "" {
		return -1
	}
	all := n[groups[index].Above]
	at, found := slices.BinarySearch(all, index)
	switch {
	case at > 0:
		return all[at-1]
	case found:
		at++
	}
	if at == len(all) {
		return -1
	}
	return all[at]
}

// Trace reads the use over time of a group for Plot, from the same part of its recording. It reads a single group,
// because the points of all groups can exceed the memory.
func (g *Group) Trace(in io.Reader, part Part) error {
	r, err := record.NewReader(in)
	if err != nil {
		return err
	}
	g.Points = nil
	_, _, err = gather(r, part, func(number int, start time.Duration) *gatherer {
		if number != g.Number {
			return &gatherer{isEnded: true}
		}
		group := newGatherer(start, Scales, r.Header.Interval)
		for _, w := range group.windows {
			points := &Series{Window: w.length, windowsPerPoint: 1}
			w.visit = points.push
			g.Points = append(g.Points, points)
		}
		return group
	})
	return err
}

// EachStep calls visit for the steps of a group in a part of the recording, in order. A step has the length of the
// interval. visit gets the CPUs used in each step, and the number of consecutive steps with that use. Errors are the
// errors of Read.
func EachStep(in io.Reader, part Part, group int, visit func(cpus float64, n int64)) error {
	r, err := record.NewReader(in)
	if err != nil {
		return err
	}
	_, _, err = gather(r, part, func(number int, start time.Duration) *gatherer {
		if number != group {
			return &gatherer{isEnded: true}
		}
		g := newGatherer(start, []time.Duration{r.Header.Interval}, 0)
		g.windows[0].visit = visit
		return g
	})
	return err
}

// gather reads to the recording's end, or to the point where it is cut. It calls newGatherer for each group, and adds
// the group's use within the part.
func gather(r *record.Reader, part Part, newGroup func(number int, start time.Duration) *gatherer) (span time.Duration, cut bool, err error) {
	var groups []*gatherer
	for {
		tick, err := r.Next()
		if err == io.EOF || errors.Is(err, record.ErrCut) {
			for _, g := range groups {
				g.idle(part.clip(span))
			}
			return span, err != io.EOF, nil
		}
		if err != nil {
			return 0, false, err
		}
		for len(groups) < len(r.Groups) {
			groups = append(groups, newGroup(len(groups), part.clip(span)))
		}
		for _, n := range tick.Ended {
			groups[n].finish(part.clip(span))
		}
		from, to := part.clip(span), part.clip(tick.At)
		for _, u := range tick.Uses {
			if share := part.share(span, tick.At); share > 0 {
				groups[u.Group].add(from, to, scale(u.Usage, share))
			}
		}
		span = tick.At
	}
}

// A gatherer collects a group's windows.
type gatherer struct {
	from, at time.Duration // the use until at is counted
	used     cgroup.Usage
	windows  []*window
	levels   *levels
	isEnded  bool
}

// newGatherer returns a gatherer with windows of the given lengths. It omits lengths below least.
func newGatherer(start time.Duration, lengths []time.Duration, least time.Duration) *gatherer {
	g := &gatherer{from: start, at: start}
	for _, length := range lengths {
		if length >= least {
			w := newWindow(length, start)
			if length == levelWindow {
				g.levels = &levels{windowsPerMean: 1}
				w.visit = g.levels.push
			}
			g.windows = append(g.windows, w)
		}
	}
	return g
}

// add counts the use from one reading to the next.
func (g *gatherer) add(from, to time.Duration, u cgroup.Usage) {
	g.idle(from)
	g.count(to, u.CPU)
	g.used.CPU += u.CPU
	g.used.Periods += u.Periods
	g.used.Throttled += u.Throttled
	g.used.ThrottledTime += u.ThrottledTime
	g.used.Bursts += u.Bursts
	g.used.BurstTime += u.BurstTime
}

// idle counts a time without use.
func (g *gatherer) idle(to time.Duration) {
	if g.at < to && !g.isEnded {
		g.count(to, 0)
	}
}

func (g *gatherer) count(to, cpu time.Duration) {
	for _, w := range g.windows {
		w.add(g.at, to, cpu)
	}
	g.at = max(g.at, to)
}

func (g *gatherer) finish(at time.Duration) {
	g.idle(at)
	g.isEnded = true
}

func (g *gatherer) group(number int, of record.Group) Group {
	out := Group{Group: of, Number: number, From: g.from, To: g.at, Used: g.used, levels: g.levels}
	for _, w := range g.windows {
		out.Figures = append(out.Figures, w.figures())
	}
	return out
}

// setHidden computes the effect of the limits of the group and of its ancestor.
func (g *Group) setHidden() {
	share := throttledShare(&g.Used)
	if g.Ancestor != nil {
		share = max(share, throttledShare(&g.Ancestor.Used))
	}
	if share > 0 || g.Used.ThrottledTime > 0 {
		g.HiddenDemand = &HiddenDemand{Share: share, Used: g.Mean(), Wanted: cpus(g.Used.CPU+g.Used.ThrottledTime, g.To-g.From)}
	}
}

func throttledShare(u *cgroup.Usage) float64 {
	return float64(u.Throttled) / float64(max(u.Periods, 1))
}
