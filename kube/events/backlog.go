package events

import (
	"slices"
	"time"
)

const (
	burst      = 25               // Events that the node can write at once
	perEvent   = time.Second      // time in which the node earns the write of a further Event
	interval   = 10 * time.Minute // minimum time between two writes for a pod and a reason
	seriesTime = time.Hour        // time after the last write for which a repetition continues an Event; the API server's default retention
	maxSeries  = 1000             // series in memory
)

// A key identifies the Events of a series.
type key struct {
	object Pod // zero: the node
	reason Reason
}

// A series is a sequence of Events with the same key. The first write creates an Event on the API server, and later writes update
// its number of occurrences.
type series struct {
	key
	note  string    // text of the last occurrence
	since time.Time // time of the first unwritten occurrence
	last  time.Time // time of the last occurrence

	unwritten int // occurrences that no write has reported
	isQueued  bool
	number    int64 // number of the Event that a write tries to create; 0: none yet

	// The Event on the API server:
	name        string // "": none
	written     int    // occurrences in the Event
	writtenNote string
	writtenAt   time.Time
}

// A backlog decides which Events are written, and when. It is not safe for concurrent use. The caller passes the time, which must
// not decrease.
//
// An Event enters the queue at the cost of perEvent of the credit. The credit grows with time, and credit and queue together are
// at most burst Events. Therefore, the number of Events that leave the queue in a time t is at most burst + t/perEvent, even if
// the queue was not emptied for a long time.
type backlog struct {
	all     map[key]*series
	queue   []*series     // Events to write, oldest first
	writing *series       // head of the queue that is being written, or nil
	credit  time.Duration // 0 to burst*perEvent
	filled  time.Time     // time of the last growth of the credit
	number  int64         // number of the last created Event
}

func newBacklog(now time.Time) backlog {
	return backlog{all: map[key]*series{}, credit: burst * perEvent, filled: now}
}

// add adds an occurrence. It returns the number of occurrences that are dropped for lack of credit: those of the oldest waiting
// Event, or the added occurrence if no Event waits.
func (b *backlog) add(k key, note string, now time.Time) (dropped int) {
	b.earn(now)
	s := b.all[k]
	isNew := s == nil || !s.isQueued && s.unwritten == 0 && now.Sub(s.writtenAt) >= seriesTime
	if isNew {
		dropped = b.makeRoom()
		s = &series{key: k}
		b.all[k] = s
	}
	if s.unwritten == 0 {
		s.since = now
	}
	s.unwritten++
	s.note, s.last = note, now
	if s.isQueued || !isNew && now.Sub(s.writtenAt) < interval {
		return dropped
	}
	isAccepted, replaced := b.enqueue(s)
	if dropped += replaced; !isAccepted && isNew {
		dropped += b.drop(s)
	}
	return dropped
}

// enqueue accepts an Event for writing if there is credit. Without credit, the Event replaces the oldest Event that waits, so that
// the queue has the newest Events when the API server answers again.
func (b *backlog) enqueue(s *series) (isAccepted bool, dropped int) {
	waiting := b.queue
	if len(waiting) > 0 && waiting[0] == b.writing {
		waiting = waiting[1:]
	}
	switch {
	case b.credit >= perEvent:
		b.credit -= perEvent
	case len(waiting) > 0:
		dropped = b.drop(waiting[0])
	default:
		return false, 0
	}
	s.isQueued = true
	b.queue = append(b.queue, s)
	return true, dropped
}

// earn grows the credit by the time since its last growth.
func (b *backlog) earn(now time.Time) {
	maxCredit := time.Duration(burst-len(b.queue)) * perEvent
	b.credit = min(b.credit+max(0, now.Sub(b.filled)), maxCredit)
	b.filled = now
}

// makeRoom drops a series without a queued Event if there are too many series. It returns the number of its unwritten
// occurrences.
func (b *backlog) makeRoom() (dropped int) {
	if len(b.all) < maxSeries {
		return 0
	}
	var oldest *series
	for _, s := range b.all {
		if !s.isQueued && (oldest == nil || s.last.Before(oldest.last)) {
			oldest = s
		}
	}
	return b.drop(oldest) // not nil, because maxSeries > burst
}

// next returns the Event to write now, or nil and the time until the next call. The caller ends the write with done, missing or
// drop, or calls next again to repeat it.
func (b *backlog) next(now time.Time) (s *series, wait time.Duration) {
	b.earn(now)
	if b.writing = nil; len(b.queue) == 0 {
		if wait = b.enqueueRepeated(now); wait > 0 {
			return nil, wait
		}
	}
	b.writing = b.queue[0]
	return b.writing, 0
}

// enqueueRepeated enqueues the series whose repetitions have waited for the longest time. It returns the time until a series can
// be enqueued, or 0. It also removes the series that have ended.
func (b *backlog) enqueueRepeated(now time.Time) (wait time.Duration) {
	var due *series
	for k, s := range b.all {
		switch {
		case s.unwritten == 0 && now.Sub(s.writtenAt) >= seriesTime:
			delete(b.all, k)
		case s.unwritten > 0 && (due == nil || s.writtenAt.Before(due.writtenAt)):
			due = s
		}
	}
	if due == nil {
		return seriesTime
	}
	if wait = max(due.writtenAt.Add(interval).Sub(now), perEvent-b.credit); wait > 0 {
		return wait
	}
	b.enqueue(due)
	return 0
}

// A draft is the content of a write. Occurrences during the write stay unwritten.
type draft struct {
	*series
	note        string
	since, last time.Time
	name        string // Event to update; "": create an Event
	count       int    // occurrences in the Event after the write
	added       int    // occurrences that this write adds
}

// draft returns the content of the next write of a series. An Event keeps its text, so another text needs another Event. A
// repeated write creates an Event with the same number, so that it does not create a second Event if the response to the first
// write was lost.
func (b *backlog) draft(s *series) *draft {
	d := &draft{series: s, note: s.note, since: s.since, last: s.last, count: s.unwritten, added: s.unwritten}
	switch {
	case s.name != "" && s.note == s.writtenNote:
		d.name, d.count = s.name, s.written+s.unwritten
	case s.number == 0:
		b.number = max(s.since.UnixNano(), b.number+1)
		s.number = b.number
	}
	return d
}

// done records that the API server has accepted a write, with the name of the Event.
func (b *backlog) done(d *draft, name string, now time.Time) {
	s := d.series
	b.earn(now)
	b.dequeue(s)
	s.name, s.written, s.writtenNote, s.writtenAt, s.number = name, d.count, d.note, now, 0
	if s.unwritten -= d.added; s.unwritten > 0 {
		s.since = s.last
	}
}

// missing records that the Event of a series no longer exists. The next write creates another Event.
func (s *series) missing() { s.name = "" }

// drop drops a series with its queued Event, and returns the number of its unwritten occurrences.
func (b *backlog) drop(s *series) (dropped int) {
	b.dequeue(s)
	delete(b.all, s.key)
	return s.unwritten
}

// dropOutdated drops the queued Events that the API server would have removed already, and returns the number of their
// occurrences.
func (b *backlog) dropOutdated(now time.Time) (dropped int) {
	for len(b.queue) > 0 && now.Sub(b.queue[0].last) >= seriesTime {
		dropped += b.drop(b.queue[0])
	}
	return dropped
}

func (b *backlog) dequeue(s *series) {
	if i := slices.Index(b.queue, s); i >= 0 {
		b.queue = slices.Delete(b.queue, i, i+1)
	}
	if s.isQueued = false; b.writing == s {
		b.writing = nil
	}
}
