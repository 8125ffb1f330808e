package simulate

import (
	"io"
	"testing"

	"github.com/candor-project/candor/trace"
)

// peek returns the event that Next returns the given number of calls later, if that event is in the current batch; otherwise nil.
func TestPeek(t *testing.T) {
	events := make([]trace.Event, aheadEvents+20)
	for i := range events {
		events[i] = trace.Event{Time: trace.Micros(i), Kind: trace.MachineAdd, Machine: uint32(i), CPU: 1, Memory: 1}
	}
	a := newAheadReader(trace.NewMemory(trace.Header{Name: "by hand"}, events))
	defer a.stop()
	const after = 12
	var e trace.Event
	seen, missing := 0, 0
	for i := range events {
		if err := a.Next(&e); err != nil || e.Machine != uint32(i) {
			t.Fatalf("event %d: %v, %v", i, e, err)
		}
		switch next := a.peek(after); {
		case next == nil:
			missing++
		case next.Machine != uint32(i+after):
			t.Fatalf("after event %d: event %d, want %d", i, next.Machine, i+after)
		default:
			seen++
		}
	}
	if missing != 2*after || seen != len(events)-2*after { // the last ones of each of two batches
		t.Errorf("%d were peeked at, %d were not at hand", seen, missing)
	}
	if err := a.Next(&e); err != io.EOF || a.peek(1) != nil {
		t.Errorf("at the end: %v, %v", err, a.peek(1))
	}
}
