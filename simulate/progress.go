package simulate

import (
	"sync/atomic"

	"github.com/candor-project/candor/trace"
)

// Progress holds the progress of a sweep. Its methods can be called from any goroutine.
type Progress struct {
	events, finished, finishedEvents atomic.Int64
	report                           atomic.Pointer[trace.Report]
}

// Events returns the number of events that all points have replayed so far.
func (p *Progress) Events() int64 { return p.events.Load() }

// Finished returns the number of finished points, and the number of their events.
func (p *Progress) Finished() (points, events int64) {
	return p.finished.Load(), p.finishedEvents.Load()
}

// Report returns the trace reader's report after the first point has finished, and nil before.
func (p *Progress) Report() *trace.Report { return p.report.Load() }

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

func (p *Progress) setReport(r trace.Report) {
	if p != nil {
		p.report.Store(&r)
	}
}
