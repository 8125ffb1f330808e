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

// Milli converts an amount of CPU to milli-CPU, rounded to the nearest. coresOfLargest, the CPUs of the largest machine, matters only for
// the unit LargestMachine.
func (u Unit) Milli(cpu int32, coresOfLargest float64) int64 {
	if u == Milli {
		return int64(cpu)
	}
	return int64(float64(cpu)*coresOfLargest*1000/One + 0.5)
}

// A Class is a class of containers in the source, such as a scheduling class or a QoS class.
type Class struct {
	Name      string `json:"name"`
	Sensitive bool   `json:"sensitive"` // latency-sensitive: the natural choice of sensitive containers
}

// A Header holds the facts about a trace that are known before its events are read. An unknown count is 0.
type Header struct {
	Name    string  `json:"name"`   // display name, such as "google2011"
	Source  string  `json:"source"` // the spec that it was opened with
	Unit    Unit    `json:"unit"`
	Classes []Class `json:"classes"` // the classes that Event.Class selects

	Machines   int64  `json:"machines,omitempty"`   // distinct machines
	Containers int64  `json:"containers,omitempty"` // incarnations
	Slots      int64  `json:"slots,omitempty"`      // maximum number of containers at once: Event.Container is always less
	Events     int64  `json:"events,omitempty"`
	Span       Micros `json:"span,omitempty"` // time of the last event; for a running generator, an upper bound
}

// cpuText formats an amount of CPU in the source's unit, for errors.
func (u Unit) cpuText(cpu int32) string {
	if u == LargestMachine {
		return strconv.FormatFloat(float64(cpu)/One, 'g', 6, 64)
	}
	return strconv.Itoa(int(cpu)) + "m"
}

// memoryText formats an amount of memory in the source's unit, for errors.
func (u Unit) memoryText(memory int32) string {
	if u == LargestMachine {
		return u.cpuText(memory)
	}
	return strconv.Itoa(int(memory)) + " MiB"
}
