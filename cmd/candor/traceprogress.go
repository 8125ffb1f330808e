package main

import (
	"io"
	"sync/atomic"

	"github.com/candor-project/candor/trace"
)

// A countedReader publishes its progress for other goroutines.
type countedReader struct {
	trace.Reader
	n            int64
	events, time atomic.Int64 // at the last update
}

// countEvents shows the progress of reading a trace until end is called.
func countEvents(terminal io.Writer, r trace.Reader, parts string) (counted trace.Reader, end func()) {
	c, h := &countedReader{Reader: r}, r.Header()
	return c, showProgress(terminal, func() stage { return c.stage(h, parts) })
}

// stride is the number of events between two updates.
const stride = 1024

// Next implements trace.Reader.
func (c *countedReader) Next(e *trace.Event) error {
	err := c.Reader.Next(e)
	if c.n++; c.n%stride == 0 {
		c.events.Store(c.n)
		c.time.Store(int64(e.Time))
	}
	return err
}

// stage returns the progress: by events if the header counts them, otherwise by the trace's time if its length is known.
func (c *countedReader) stage(h trace.Header, parts string) stage {
	s := stage{parts: parts, events: c.events.Load()}
	switch {
	case h.Events > 0:
		s.share = float64(s.events) / float64(h.Events)
	case h.Span > 0:
		s.share = float64(c.time.Load()) / float64(h.Span)
	}
	return s
}
