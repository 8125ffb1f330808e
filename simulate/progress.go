package simulate

import (
	"sync/atomic"

	"github.com/candor-project/candor/trace"
)

// Progress tells, at any moment and to any goroutine, how far a sweep is.
type Progress struct {
	events, finished, finishedEvents atomic.Int64
	left                             atomic.Pointer[trace.Report]
}

// Events returns how many events were replayed so far, by all points.
func (p *Progress) Events() int64 { return p.events.Load() }

// Finished returns how many points are done, and how many events they had.
func (p *Progress) Finished() (points, events int64) {
	return p.finished.Load(), p.finishedEvents.Load()
}

// Left returns what the trace's reader left out, as a point that has ended found
// it; nil before.
func (p *Progress) Left() *trace.Report { return p.left.Load() }

func (p *Progress) add(events int64) {
	if p != nil {
		p.events.Add(events)
	}
}

func (p *Progress) finish(events int64) {
	if p != nil {
		p.finished.Add(1)
		p.finishedEvents.Add(events)
	}
}

func (p *Progress) leave(r trace.Report) {
	if p != nil {
		p.left.Store(&r)
	}
}
