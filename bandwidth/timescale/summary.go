package timescale

import (
	"errors"
	"io"
	"time"

	"github.com/candor-project/candor/bandwidth/record"
	"github.com/candor-project/candor/cgroup"
)

// A Summary is what a recording shows.
type Summary struct {
	record.Header
	record.Cost
	Span   time.Duration // from the first reading to the last
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
	Points   []*Series     // the use over time, as Figures
}

// Mean is the mean use in CPUs.
func (g *Group) Mean() float64 { return cpus(g.Used.CPU, g.To-g.From) }

// Hidden is what a limit did to a group while it was recorded: such a recording
// shows what the group got, not what it wanted.
type Hidden struct {
	Share float64 // throttled periods of all
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

// Read reads a recording to its end, or to where it is cut off. All other errors
// are record.ErrFormat or the file's.
func Read(in io.Reader) (*Summary, error) {
	r, err := record.NewReader(in)
	if err != nil {
		return nil, err
	}
	s := &Summary{Header: r.Header}
	var groups []*gatherer
	s.Span, s.Cut, err = gather(r, func(_ int, start time.Duration) *gatherer {
		groups = append(groups, newGatherer(start, Scales, r.Header.Interval))
		return groups[len(groups)-1]
	})
	if err != nil {
		return nil, err
	}
	s.Cost = r.Cost
	for i, g := range groups {
		s.Groups = append(s.Groups, g.group(i, r.Groups[i]))
	}
	return s, nil
}

// EachStep calls visit with the CPUs that one group used in each step of the recording's
// interval, in their order, and in how many steps in a row. Errors are those of Read.
func EachStep(in io.Reader, group int, visit func(cpus float64, n int64)) error {
	r, err := record.NewReader(in)
	if err != nil {
		return err
	}
	_, _, err = gather(r, func(number int, start time.Duration) *gatherer {
		if number != group {
			return &gatherer{ended: true}
		}
		g := newGatherer(start, []time.Duration{r.Header.Interval}, 0)
		g.windows[0].visit = visit
		return g
	})
	return err
}

// gather reads to the recording's end, or to where it is cut off. It asks for a gatherer for each group.
func gather(r *record.Reader, newGroup func(number int, start time.Duration) *gatherer) (span time.Duration, cut bool, err error) {
	var groups []*gatherer
	for {
		tick, err := r.Next()
		if err == io.EOF || errors.Is(err, record.ErrCut) {
			for _, g := range groups {
				g.idle(span)
			}
			return span, err != io.EOF, nil
		}
		if err != nil {
			return 0, false, err
		}
		for len(groups) < len(r.Groups) {
			groups = append(groups, newGroup(len(groups), span))
		}
		for _, n := range tick.Ended {
			groups[n].end(span)
		}
		for _, u := range tick.Uses {
			groups[u.Group].add(span, tick.At, &u.Usage)
		}
		span = tick.At
	}
}

// A gatherer collects one group's windows.
type gatherer struct {
	from, at time.Duration // what was used until here is counted
	used     cgroup.Usage
	windows  []*window
	ended    bool
}

// newGatherer has windows of these lengths, but of none below the least.
func newGatherer(start time.Duration, lengths []time.Duration, least time.Duration) *gatherer {
	g := &gatherer{from: start, at: start}
	for _, length := range lengths {
		if length >= least {
			g.windows = append(g.windows, newWindow(length, start))
		}
	}
	return g
}

// add counts what was used from one reading to the next.
func (g *gatherer) add(from, to time.Duration, u *cgroup.Usage) {
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
	out := Group{Group: of, Number: number, From: g.from, To: g.at, Used: g.used}
	for _, w := range g.windows {
		out.Figures = append(out.Figures, w.figures())
		out.Points = append(out.Points, w.points)
	}
	if g.used.Throttled > 0 || g.used.ThrottledTime > 0 {
		in := out.To - out.From
		out.Hidden = &Hidden{
			Share: float64(g.used.Throttled) / float64(max(g.used.Periods, 1)),
			Used:  out.Mean(), Wanted: cpus(g.used.CPU+g.used.ThrottledTime, in),
		}
	}
	return out
}
