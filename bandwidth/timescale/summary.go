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

// A Summary is what a recording shows.
type Summary struct {
	record.Header
	record.Cost
	Span   time.Duration // from the first reading to the last
	Part   Part          // of it that is summed up
	Cut    bool          // the recording goes on, or its recorder was killed
	Groups []Group
}

// A Group is what is known of one group.
type Group struct {
	record.Group
	Number   int           // in the recording
	From, To time.Duration // since the recording's start
	Used     cgroup.Usage  // in this time
	Figures  []Figures     // by length of the windows
	Hidden   *Hidden       // nil where no limit was felt
	Above    *Above        // nil where no group above it had a limit
	Points   []*Series     // the use over time, as Figures, after Trace
	levels   *levels       // the same in few values
}

// An Above is the group above one that had the tightest limit, and what it felt of it.
type Above struct {
	record.Group
	Used cgroup.Usage
}

// Mean is the mean use in CPUs.
func (g *Group) Mean() float64 { return cpus(g.Used.CPU, g.To-g.From) }

// Hidden is what a limit did to a group while it was recorded: such a recording
// shows what the group got, not what it wanted. The limit may be one of a group above.
type Hidden struct {
	Share float64 // throttled periods of all: its own, or those of the group above
	// Wanted is a lower bound of the mean number of threads that ran or could have run, in CPUs: each CPU on which the
	// group was throttled had one at least. Used is what ran: a lower bound of the work that there was.
	Used, Wanted float64
}

func cpus(time, in time.Duration) float64 {
	if in == 0 {
		return 0
	}
	return float64(time) / float64(in)
}

// Read is ReadPart of all of a recording.
func Read(in io.Reader) (*Summary, error) { return ReadPart(in, Part{}) }

// ReadPart reads a recording to its end, or to where it is cut off, and sums up a part of it. All other errors
// are ErrNoPart, record.ErrFormat or the file's.
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
	named := numbers(r.Groups)
	for i, g := range groups {
		if g.from >= g.at && part != (Part{}) { // it was not there then
			continue
		}
		one := g.group(i, r.Groups[i])
		if at := named.above(r.Groups, i); at >= 0 {
			one.Above = &Above{r.Groups[at], groups[at].used}
		}
		one.hide()
		s.Groups = append(s.Groups, one)
	}
	return s, nil
}

// named are the numbers of the groups with a name, in rising order: a name may come again, when a group has ended.
type named map[string][]int

func numbers(groups []record.Group) named {
	all := named{}
	for i := range groups {
		all[groups[i].Name] = append(all[groups[i].Name], i)
	}
	return all
}

// above is the number of the group whose limit holds for a group: the last one of that name before it, or the first after it;
// -1 where there is none.
func (n named) above(groups []record.Group, of int) int {
	if groups[of].Above == "" {
		return -1
	}
	all := n[groups[of].Above]
	at, itself := slices.BinarySearch(all, of)
	switch {
	case at > 0:
		return all[at-1]
	case itself:
		at++
	}
	if at == len(all) {
		return -1
	}
	return all[at]
}

// Trace reads the use over time of one of a summary's groups, in the same part of its recording, for Plot. Only of one: a
// recording may have more groups than there is memory for their points.
func (g *Group) Trace(in io.Reader, part Part) error {
	r, err := record.NewReader(in)
	if err != nil {
		return err
	}
	g.Points = nil
	_, _, err = gather(r, part, func(number int, start time.Duration) *gatherer {
		if number != g.Number {
			return &gatherer{ended: true}
		}
		one := newGatherer(start, Scales, r.Header.Interval)
		for _, w := range one.windows {
			points := &Series{Window: w.length, each: 1}
			w.visit = points.push
			g.Points = append(g.Points, points)
		}
		return one
	})
	return err
}

// EachStep calls visit with the CPUs that one group used in each step of a part of the recording, of its
// interval, in their order, and in how many steps in a row. Errors are those of Read.
func EachStep(in io.Reader, part Part, group int, visit func(cpus float64, n int64)) error {
	r, err := record.NewReader(in)
	if err != nil {
		return err
	}
	_, _, err = gather(r, part, func(number int, start time.Duration) *gatherer {
		if number != group {
			return &gatherer{ended: true}
		}
		g := newGatherer(start, []time.Duration{r.Header.Interval}, 0)
		g.windows[0].visit = visit
		return g
	})
	return err
}

// gather reads to the recording's end, or to where it is cut off. It asks for a gatherer for each group, which
// gets what is in the part.
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
			groups[n].end(part.clip(span))
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

// A gatherer collects one group's windows.
type gatherer struct {
	from, at time.Duration // what was used until here is counted
	used     cgroup.Usage
	windows  []*window
	levels   *levels
	ended    bool
}

// newGatherer has windows of these lengths, but of none below the least.
func newGatherer(start time.Duration, lengths []time.Duration, least time.Duration) *gatherer {
	g := &gatherer{from: start, at: start}
	for _, length := range lengths {
		if length >= least {
			w := newWindow(length, start)
			if length == levelWindow {
				g.levels = &levels{each: 1}
				w.visit = g.levels.push
			}
			g.windows = append(g.windows, w)
		}
	}
	return g
}

// add counts what was used from one reading to the next.
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

// idle counts the time in which nothing was used.
func (g *gatherer) idle(to time.Duration) {
	if g.at < to && !g.ended {
		g.count(to, 0)
	}
}

func (g *gatherer) count(to, cpu time.Duration) {
	for _, w := range g.windows {
		w.add(g.at, to, cpu)
	}
	g.at = max(g.at, to)
}

func (g *gatherer) end(at time.Duration) {
	g.idle(at)
	g.ended = true
}

func (g *gatherer) group(number int, of record.Group) Group {
	out := Group{Group: of, Number: number, From: g.from, To: g.at, Used: g.used, levels: g.levels}
	for _, w := range g.windows {
		out.Figures = append(out.Figures, w.figures())
	}
	return out
}

// hide says what the group's own limit, and that of the group above, did to it.
func (g *Group) hide() {
	share := throttledShare(&g.Used)
	if g.Above != nil {
		share = max(share, throttledShare(&g.Above.Used))
	}
	if share > 0 || g.Used.ThrottledTime > 0 {
		g.Hidden = &Hidden{Share: share, Used: g.Mean(), Wanted: cpus(g.Used.CPU+g.Used.ThrottledTime, g.To-g.From)}
	}
}

func throttledShare(u *cgroup.Usage) float64 {
	return float64(u.Throttled) / float64(max(u.Periods, 1))
}
