package simulate

import "sync/atomic"

// Progress tells, at any moment and to any goroutine, how far a sweep is.
type Progress struct {
	events, finished, finishedEvents atomic.Int64
}

// Events returns how many events were replayed so far, by all points.
func (p *Progress) Events() int64 { return p.events.Load() }

// Finished returns how many points are done, and how many events they had.
func (p *Progress) Finished() (points, events int64) {
	return p.finished.Load(), p.finishedEvents.Load()
}

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
