package trace

import (
	"io"
	"strconv"
)

// A Reader hands out the events of a trace.
type Reader interface {
	// Header says what is known of the trace so far.
	Header() Header
	// Next fills in the next event. It returns io.EOF after the last one, and a
	// *SyntaxError where the source is not what it should be.
	Next(*Event) error
	// Report says what was left out of the events read so far.
	Report() Report
	// Close must be called: compressed sources have a goroutine that ends with it.
	io.Closer
}

// Options of Open.
type Options struct {
	// Lenient leaves out what is wrong, and counts it in the Report. Without, it
	// ends the reading with an error.
	Lenient bool
}

// A Report says what of a source is not in the stream.
type Report struct {
	Skipped     []Count `json:"skipped,omitempty"`     // wrong, left out by Options.Lenient
	NotModelled []Count `json:"notModelled,omitempty"` // right, but nothing that the events can say
}

// A Count is a number of things of a kind, and where the first one was found.
type Count struct {
	Reason string `json:"what"`
	N      int64  `json:"count"`
	First  string `json:"first"` // file:line, or an object's name
}

// A SyntaxError is a place in a source that is not what it should be.
type SyntaxError struct {
	File    string
	Line    int64  // from 1; 0 where the file has no lines
	Problem string // the kind of fault: what a Report counts
	Detail  string // what was found and what is accepted
}

func (e *SyntaxError) Error() string {
	place := e.place()
	if e.Detail == "" {
		return place + ": " + e.Problem
	}
	return place + ": " + e.Problem + ": " + e.Detail
}

func (e *SyntaxError) place() string {
	if e.Line == 0 {
		return e.File
	}
	return e.File + ":" + strconv.FormatInt(e.Line, 10)
}
