package simulate

import (
	"sync/atomic"

	"github.com/candor-project/candor/trace"
)

// Progress reports the progress of a sweep to any goroutine.
type Progress struct {
	events, finished, finishedEvents atomic.Int64
	left                             atomic.Pointer[trace.Report]
}

// Events returns the number of events that all points have replayed so far.
func (p *Progress) Events() int64 { return p.events.Load() }

// Finished returns the number of finished points, and of their events.
func (p *Progress) Finished() (points, events int64) {
	return p.finished.Load(), p.finishedEvents.Load()
}

// Left returns the report of the trace's reader from a finished point; nil before.
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
