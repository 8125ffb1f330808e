// Package jsonout writes the JSON output of all commands in the same form.
//
// A command that writes a single value indents it by two spaces, on a terminal and in a pipe. So a saved output is readable, and two
// outputs can be compared line by line. A command that can write several values writes each value on a line (JSON Lines), so that a reader
// can process a value before the next one exists.
package jsonout

import (
	"encoding/json"
	"io"
	"math"
)

// Write writes a value as indented JSON with a final newline, in a single call of w.Write. It does not escape <, > and &.
func Write(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// WriteLine writes a value as JSON on one line, in a single call of w.Write. It does not escape <, > and &.
func WriteLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// Milli converts an amount of CPU from CPUs to milli-CPU, rounded to a thousandth: JSON output has all amounts in milli-CPU.
func Milli(cpus float64) float64 { return math.Round(cpus*1e6) / 1e3 }
