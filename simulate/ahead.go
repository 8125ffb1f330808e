package simulate

import "github.com/candor-project/candor/trace"

// aheadEvents is the size of a batch of events, aheadBatches the number of batches that are read in advance.
const (
	aheadEvents  = 1024
	aheadBatches = 3
)

// An ahead reads a trace in a goroutine of its own, so that parsing or generating it goes on
// beside the decisions. Only Next and peek may be called until stop has returned.
type ahead struct {
	trace.Reader
	empty, full chan *batch // full is closed when the goroutine has ended
	now         *batch
	at          int // events of now that were handed out
}

// A batch is events that were read, and the error that came after them.
type batch struct {
	events [aheadEvents]trace.Event
	count  int
	err    error
}

// readAhead starts to read; stop ends it.
func readAhead(r trace.Reader) *ahead {
	a := &ahead{Reader: r, empty: make(chan *batch, aheadBatches+1), full: make(chan *batch, aheadBatches+1), now: new(batch)}
	for range aheadBatches {
		a.empty <- new(batch)
	}
	go a.read()
	return a
}

// read fills batches until an error, which the end of the trace is too, or until no more come in.
func (a *ahead) read() {
	defer close(a.full)
	for b := range a.empty {
		b.fill(a.Reader)
		a.full <- b // has the capacity for all batches
		if b.err != nil {
			return
		}
	}
}

// fill reads events until the batch is full.
func (b *batch) fill(r trace.Reader) {
	for b.count = 0; b.count < aheadEvents; b.count++ {
		if b.err = r.Next(&b.events[b.count]); b.err != nil {
			return
		}
	}
}

// Next implements trace.Reader.
func (a *ahead) Next(e *trace.Event) error {
	for a.at == a.now.count {
		if a.now.err != nil {
			return a.now.err
		}
		spent := a.now
		a.now, a.at = <-a.full, 0
		a.empty <- spent
	}
	*e = a.now.events[a.at]
	a.at++
	return nil
}

// peek returns the event at a distance after the last event, if it is in memory, otherwise nil.
func (a *ahead) peek(after int) *trace.Event {
	if at := a.at + after - 1; at < a.now.count {
		return &a.now.events[at]
	}
	return nil
}

// stop ends the reading and waits for it.
func (a *ahead) stop() {
	close(a.empty)
	for range a.full { // until it is closed
	}
}
