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
	// Close must be called, because it ends the goroutine that decompresses a source.
	io.Closer
}

// Options are options of Open.
type Options struct {
	// Lenient makes the Reader skip invalid parts of the source, and count them in the Report. Otherwise Next returns an error for an
	// invalid part.
	Lenient bool
}

// A Report lists the parts of a source that are not in the stream.
type Report struct {
	Skipped     []Count `json:"skipped,omitempty"`     // invalid; skipped because of Options.Lenient
	NotModelled []Count `json:"notModelled,omitempty"` // valid, but not representable as events
}

// A Count is the number of omitted parts with the same reason, and the location of the first part.
type Count struct {
	Reason string `json:"what"`
	N      int64  `json:"count"`
	First  string `json:"first"` // FILE:LINE, or the name of an object
}

// A SyntaxError is an error at a location in a source.
type SyntaxError struct {
	File    string
	Line    int64  // from 1; 0 if the file has no lines
	Problem string // kind of the error; a Report counts the errors of each kind
	Detail  string // the invalid text and the accepted forms
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
