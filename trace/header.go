package trace

import (
	"fmt"
	"strconv"
)

// Unit is the unit of the CPU and memory of a trace's events.
type Unit uint8

const (
	// LargestMachine is a billionth of the largest machine's CPU or memory.
	LargestMachine Unit = iota
	// Milli is a milli-CPU, or a MiB of memory.
	Milli
)

var unitWords = [...]string{LargestMachine: "largest-machine", Milli: "milli"}

func (u Unit) String() string { return wordOf(unitWords[:], int(u)) }

// MarshalText implements encoding.TextMarshaler.
func (u Unit) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (u *Unit) UnmarshalText(text []byte) error {
	for i, word := range unitWords {
		if word == string(text) {
			*u = Unit(i)
			return nil
		}
	}
	return fmt.Errorf("unit %q: must be %s or %s", text, LargestMachine, Milli)
}

// One is the CPU or memory of the largest machine in the unit LargestMachine.
const One = 1_000_000_000

// Milli converts an amount of CPU to milli-CPU, rounded to the nearest integer. It only uses coresOfLargest, the number of cores of the
// largest machine, if the unit is LargestMachine.
func (u Unit) Milli(cpu int32, coresOfLargest float64) int64 {
	if u == Milli {
		return int64(cpu)
	}
	return int64(float64(cpu)*coresOfLargest*1000/One + 0.5)
}

// A Class is a class of containers in the source.
type Class struct {
	Name      string `json:"name"`
	Sensitive bool   `json:"sensitive"` // latency-sensitive in the source; replays can treat the containers as sensitive
}

// A Header holds the facts about a trace that are known before its events are read. Unknown counts are 0.
type Header struct {
	Name    string  `json:"name"`   // display name, such as "google2011"
	Source  string  `json:"source"` // spec with which the trace was opened
	Unit    Unit    `json:"unit"`
	Classes []Class `json:"classes"` // indexed by Event.Class

	Machines   int64  `json:"machines,omitempty"`   // number of different machines
	Containers int64  `json:"containers,omitempty"` // number of Submits
	Slots      int64  `json:"slots,omitempty"`      // maximum number of simultaneous containers; Event.Container is lower
	Events     int64  `json:"events,omitempty"`
	Span       Micros `json:"span,omitempty"` // time of the last event; for a running generator, an upper bound
}

// cpuText formats an amount of CPU for errors: as a fraction of the largest machine, or in milli-CPU.
func (u Unit) cpuText(cpu int32) string {
	if u == LargestMachine {
		return strconv.FormatFloat(float64(cpu)/One, 'g', 6, 64)
	}
	return strconv.Itoa(int(cpu)) + "m"
}

// memoryText formats an amount of memory for errors.
func (u Unit) memoryText(memory int32) string {
	if u == LargestMachine {
		return u.cpuText(memory)
	}
	return strconv.Itoa(int(memory)) + " MiB"
}
