package trace

import (
	"fmt"
	"strconv"
)

// Unit is the unit of the CPU and memory of a trace's events.
type Unit uint8

const (
	// LargestMachine: billionths of the largest machine's CPU and memory.
	LargestMachine Unit = iota
	// Milli: milli-CPU, and MiB of memory.
	Milli
)

var unitWords = [...]string{LargestMachine: "largest-machine", Milli: "milli"}

func (u Unit) String() string { return wordOf(unitWords[:], int(u)) }

// MarshalText writes the unit as its word.
func (u Unit) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText parses the text of MarshalText.
func (u *Unit) UnmarshalText(text []byte) error {
	for i, word := range unitWords {
		if word == string(text) {
			*u = Unit(i)
			return nil
		}
	}
	return fmt.Errorf("unit %q: must be %s or %s", text, LargestMachine, Milli)
}

// One is the largest machine's CPU or memory under LargestMachine.
const One = 1_000_000_000

// Milli returns an amount of CPU in milli-CPU, rounded to the nearest. The
// cores of the largest machine matter only where amounts are fractions of it.
func (u Unit) Milli(cpu int32, coresOfLargest float64) int64 {
	if u == Milli {
		return int64(cpu)
	}
	return int64(float64(cpu)*coresOfLargest*1000/One + 0.5)
}

// A Class is a kind of containers in the source.
type Class struct {
	Name      string `json:"name"`
	Sensitive bool   `json:"sensitive"` // latency-sensitive: the natural choice of sensitive containers
}

// A Header holds the facts on a trace that are known before its events are read. Unknown counts are 0.
type Header struct {
	Name    string  `json:"name"`   // display name, such as "google2011"
	Source  string  `json:"source"` // the spec that it was opened with
	Unit    Unit    `json:"unit"`
	Classes []Class `json:"classes"` // of Event.Class

	Machines   int64  `json:"machines,omitempty"`   // distinct machines
	Containers int64  `json:"containers,omitempty"` // incarnations
	Slots      int64  `json:"slots,omitempty"`      // most containers at once: Event.Container is below
	Events     int64  `json:"events,omitempty"`
	Span       Micros `json:"span,omitempty"` // time of the last event; for a running generator, an upper bound
}

// cpuText writes an amount of CPU for errors, as the source does.
func (u Unit) cpuText(cpu int32) string {
	if u == LargestMachine {
		return strconv.FormatFloat(float64(cpu)/One, 'g', 6, 64)
	}
	return strconv.Itoa(int(cpu)) + "m"
}

// memoryText writes an amount of memory for errors.
func (u Unit) memoryText(memory int32) string {
	if u == LargestMachine {
		return u.cpuText(memory)
	}
	return strconv.Itoa(int(memory)) + " MiB"
}
