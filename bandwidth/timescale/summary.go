package timescale

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/candor-project/candor/bandwidth/record"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/internal/interference"
)

// A Summary is the result of ReadPart.
type Summary struct {
	record.Header
	record.Cost
	Span   time.Duration // length of the whole recording
	Part   Part          // part that is summarized
	Cut    bool          // the recording has no end: it is still being written, or its Recorder was killed
	Groups []Group
	// Interference is the use of the groups' CPUs by other processes during the whole recording; nil: low or unknown.
	Interference *interference.Report
}

// A Group is the summary of a group.
type Group struct {
	record.Group
	Number       int           // number of the group in the recording
	From, To     time.Duration // start and end of the group's readings, as times since the start of the recording
	Used         cgroup.Usage  // usage between From and To
	Figures      []Figures     // statistics, by window length
	HiddenDemand *HiddenDemand // nil if the group and Ancestor were never throttled
	Ancestor     *Ancestor     // nil if no ancestor had a limit
	Points       []*Series     // use over time by window length; nil before Trace
	levels       *levels       // use over time in at most maxLevels values, from which Phases is computed
}

// An Ancestor is the ancestor of a group with the tightest limit, and its usage.
type Ancestor struct {
	record.Group
	Used cgroup.Usage
}

// Mean returns the mean use in CPUs.
func (g *Group) Mean() float64 { return cpus(g.Used.CPU, g.To-g.From) }

// HiddenDemand describes the effect of a limit on a group during the recording. Because of the limit, the group can have
// used less CPU time than its demand, and the recording hides the difference. The limit can be the limit of an ancestor.
type HiddenDemand struct {
	Share float64 // share of the periods in which the group or its Ancestor was throttled; the larger of the two shares
	Used  float64 // mean use in CPUs, which is a lower bound of the mean demand
	// Wanted is a lower bound of the mean number of threads that ran or were ready to run. It is Used plus the mean
	// number of CPUs on which the group was throttled.
	Wanted float64
}

// cpus returns the CPU time used within a span in CPUs.
func cpus(used, span time.Duration) float64 {
	if span == 0 {
		return 0
	}
	return float64(used) / float64(span)
}

// Read reads a whole recording; see ReadPart.
func Read(in io.Reader) (*Summary, error) { return ReadPart(in, Part{}) }

// ReadPart reads a recording and summarizes a part of it. It accepts a recording without an end (record.ErrCut). The error
// is ErrNoPart, record.ErrFormat or an error of in.
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
	s.Cost, s.Interference = r.Cost, r.Interference
	named := numberGroups(r.Groups)
	for i, g := range groups {
		if g.from >= g.at && part != (Part{}) { // the group did not exist in the part
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

// groupNumbers maps a name to the numbers of the groups with this name, in ascending order. There can be several, because
// a new group can have the name of an ended group.
type groupNumbers map[string][]int

func numberGroups(groups []record.Group) groupNumbers {
	all := groupNumbers{}
	for i := range groups {
		all[groups[i].Name] = append(all[groups[i].Name], i)
	}
	return all
}

// ancestorOf returns the number of the group's ancestor with the tightest limit (record.Group.Above), or -1 if there is
// none. Of several groups with the ancestor's name, it returns the last with a smaller number than the group, or else the
// first with a larger number.
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

// Trace reads the group's use over time into Points, for Plot. It must get the same recording and the same part as
// ReadPart. ReadPart does not do this, because the points of all groups can exceed the memory.
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

// EachStep calls visit for the steps of a group in a part of the recording, in order. A step is an interval of the
// recording. The arguments of visit are the CPUs used in a step, and the number of consecutive steps with this use. The
// errors are the errors of Read.
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

// gather reads a recording to its end. It calls newGroup for each group, and adds the group's use within the part to the gatherer that
// newGroup returns. span is the length of the recording, and cut reports whether the recording has no end.
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

// A gatherer collects the use of a group.
type gatherer struct {
	from, at time.Duration // start of the group, and the time up to which used includes its use
	used     cgroup.Usage
	windows  []*window // by window length
	levels   *levels
	isEnded  bool // the group has ended, or the caller ignores the group
}

// newGatherer returns a gatherer for windows of several lengths. It omits lengths below minLength.
func newGatherer(start time.Duration, lengths []time.Duration, minLength time.Duration) *gatherer {
	g := &gatherer{from: start, at: start}
	for _, length := range lengths {
		if length >= minLength {
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

// add counts the use between two moments.
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

// idle counts the time until a moment as time without use.
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

func (g *gatherer) group(number int, recorded record.Group) Group {
	out := Group{Group: recorded, Number: number, From: g.from, To: g.at, Used: g.used, levels: g.levels}
	for _, w := range g.windows {
		out.Figures = append(out.Figures, w.figures())
	}
	return out
}

// setHidden sets HiddenDemand.
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
