package trace

import (
	"cmp"
	"math"
	"slices"
)

// A lifetime is a container with its start and its end.
type lifetime struct {
	Event         // the container's Submit, without a slot
	until  Micros // time of the end; math.MaxInt64 if unknown
	reason Reason
}

// An unsorted is the common part of readers whose source is not sorted by time. Such a source must be read completely before the first
// event. The reader stores a small lifetime for each container.
type unsorted struct {
	source
	stream *Memory
	lives  []lifetime
}

// Next implements Reader.
func (w *unsorted) Next(e *Event) error { return w.stream.Next(e) }

// Close implements Reader.
func (w *unsorted) Close() error { return nil }

// arrange creates the stream: the machines, then starts and ends sorted by time. At equal times, ends precede starts, except that an end
// never precedes the start of the same container.
func (w *unsorted) arrange(machines []Event) {
	type moment struct {
		time Micros
		rank int
		life *lifetime
	}
	const endsBefore, starts, endsAtOnce = 0, 1, 2
	var moments []moment
	for i := range w.lives {
		l := &w.lives[i]
		moments = append(moments, moment{l.Time, starts, l})
		switch {
		case l.until == math.MaxInt64:
		case l.until > l.Time:
			moments = append(moments, moment{l.until, endsBefore, l})
		default:
			moments = append(moments, moment{l.Time, endsAtOnce, l})
		}
	}
	slices.SortStableFunc(moments, func(a, b moment) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.rank, b.rank))
	})
	events := slices.Grow(machines, len(moments))
	for _, m := range moments {
		l := m.life
		if m.rank == starts {
			l.Kind, l.Container = Submit, w.slots.take()
			events = append(events, l.Event)
			continue
		}
		w.slots.give(l.Container)
		events = append(events, Event{Time: m.time, Kind: End, Job: l.Job, Task: l.Task, Container: l.Container, Reason: l.reason})
	}
	w.header.Machines, w.header.Containers = int64(len(machines)), int64(len(w.lives))
	w.header.Slots = int64(w.slots.next)
	w.stream = NewMemory(w.header, events)
	w.header = w.stream.Header()
	w.lives = nil
}
