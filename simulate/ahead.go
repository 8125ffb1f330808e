package simulate

import "github.com/candor-project/candor/trace"

// The reader goroutine reads up to aheadBatches batches of aheadEvents events in advance.
const (
	aheadEvents  = 1024
	aheadBatches = 3
)

// An aheadReader reads a trace in a goroutine of its own, so that the trace is parsed or generated while the replay makes decisions. Until
// stop has returned, the caller may call only Next and peek.
type aheadReader struct {
	trace.Reader
	empty, full chan *batch // batches to fill, and filled batches; the goroutine closes full when it ends
	current     *batch      // batch from which Next returns events
	returned    int         // number of events of current that Next has returned
}

// A batch holds events in the order of the trace, and the error that ended the reading after these events.
type batch struct {
	events [aheadEvents]trace.Event
	count  int
	err    error
}

// newAheadReader starts the goroutine. The caller must call stop.
func newAheadReader(r trace.Reader) *aheadReader {
	a := &aheadReader{Reader: r, empty: make(chan *batch, aheadBatches+1), full: make(chan *batch, aheadBatches+1), current: new(batch)}
	for range aheadBatches {
		a.empty <- new(batch)
	}
	go a.read()
	return a
}

// read fills batches until the trace ends, an error occurs or stop closes empty.
func (a *aheadReader) read() {
	defer close(a.full)
	for b := range a.empty {
		b.fill(a.Reader)
		a.full <- b // never blocks, because full has the capacity for all batches
		if b.err != nil {
			return
		}
	}
}

// fill reads events until the batch is full or an error occurs.
func (b *batch) fill(r trace.Reader) {
	for b.count = 0; b.count < aheadEvents; b.count++ {
		if b.err = r.Next(&b.events[b.count]); b.err != nil {
			return
		}
	}
}

// Next implements trace.Reader.
func (a *aheadReader) Next(e *trace.Event) error {
	for a.returned == a.current.count {
		if a.current.err != nil {
			return a.current.err
		}
		spent := a.current
		a.current, a.returned = <-a.full, 0
		a.empty <- spent
	}
	*e = a.current.events[a.returned]
	a.returned++
	return nil
}

// peek returns the event of a later call of Next: of the next call if after is 1, of the second call if after is 2, and so on. It
// returns nil if this event is not in the current batch.
func (a *aheadReader) peek(after int) *trace.Event {
	if i := a.returned + after - 1; i < a.current.count {
		return &a.current.events[i]
	}
	return nil
}

// stop stops the goroutine and waits until it has ended.
func (a *aheadReader) stop() {
	close(a.empty)
	for range a.full { // drain full until the goroutine closes it
	}
}
