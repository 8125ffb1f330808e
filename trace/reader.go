package trace

import (
	"io"
	"strconv"
)

// A Reader reads the events of a trace.
type Reader interface {
	// Header returns the facts about the trace that are known so far.
	Header() Header
	// Next reads the next event. It returns io.EOF after the last event, and a *SyntaxError for an invalid source.
	Next(*Event) error
	// Report lists the parts of the source that were omitted so far.
	Report() Report
	// Close must be called: it ends the goroutine that decompresses a source.
	io.Closer
}

// Options of Open.
type Options struct {
	// Lenient skips invalid parts and counts them in the Report. Otherwise an invalid part ends the reading with an error.
	Lenient bool
}

// A Report lists the parts of a source that are not in the stream.
type Report struct {
	Skipped     []Count `json:"skipped,omitempty"`     // invalid parts that a lenient reader skipped
	NotModelled []Count `json:"notModelled,omitempty"` // valid parts that events cannot represent
}

// A Count is the number of omitted parts with the same reason, and the place of the first.
type Count struct {
	Reason string `json:"what"`
	N      int64  `json:"count"`
	First  string `json:"first"` // file:line, or an object's name
}

// A SyntaxError is an error at a place in a source.
type SyntaxError struct {
	File    string
	Line    int64  // from 1; 0 where the file has no lines
	Problem string // kind of the fault, counted in a Report
	Detail  string // found text and accepted forms
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
