package simulate_test

import (
	"errors"
	"io"
	"testing"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/simulate"
	"github.com/candor-project/candor/trace"
)

// An events is a trace in memory. Amounts of CPU are in milli-CPU.
type events struct {
	list []trace.Event
	next int
	fail error  // after the last event, in place of the end
	each func() // before every event
}

func (r *events) Header() trace.Header {
	return trace.Header{Name: "test", Source: "test", Unit: trace.Milli, Classes: []trace.Class{{Name: "a"}, {Name: "b", Sensitive: true}}}
}

func (r *events) Next(e *trace.Event) error {
	if r.each != nil {
		r.each()
	}
	if r.next == len(r.list) {
		if r.fail != nil {
			return r.fail
		}
		return io.EOF
	}
	*e = r.list[r.next]
	r.next++
	return nil
}

func (r *events) Report() trace.Report { return trace.Report{} }
func (r *events) Close() error         { return nil }

// openerOf returns a function that opens a list of events as a trace.
func openerOf(list []trace.Event) func() (trace.Reader, error) {
	return func() (trace.Reader, error) { return &events{list: list}, nil }
}

func setting(list []trace.Event) simulate.Setting {
	return simulate.Setting{Open: openerOf(list), CoresOfLargest: 16, Overcommit: 1, Seed: 1}
}

// The functions below return events for hand-written traces. Times are in seconds, and amounts of CPU in milli-CPU.

func machine(at trace.Micros, id uint32, cpu int32) trace.Event {
	return trace.Event{Time: at * trace.Second, Kind: trace.MachineAdd, Machine: id, CPU: cpu, Memory: 1000}
}

func removal(at trace.Micros, id uint32) trace.Event {
	return trace.Event{Time: at * trace.Second, Kind: trace.MachineRemove, Machine: id}
}

func submit(at trace.Micros, slot uint32, cpu int32) trace.Event {
	return trace.Event{Time: at * trace.Second, Kind: trace.Submit, Container: slot, Job: uint64(slot) + 1, CPU: cpu, Memory: 1}
}

// flexible gives the container of an event the class that byClass does not select; sensitive gives it the selected class.
func flexible(e trace.Event) trace.Event  { e.Class = 0; return e }
func sensitive(e trace.Event) trace.Event { e.Class = 1; return e }

func end(at trace.Micros, slot uint32) trace.Event {
	return trace.Event{Time: at * trace.Second, Kind: trace.End, Container: slot, Job: uint64(slot) + 1}
}

// byClass returns a point whose sensitive containers are the containers of class b.
func byClass(a hybrid.Algorithm) simulate.Point {
	return simulate.Point{Algorithm: a, Scheduler: simulate.DefaultScheduler(a), Sensitive: simulate.Selection{ByClass: true}}
}

func run(t *testing.T, s simulate.Setting, p simulate.Point) simulate.Result {
	t.Helper()
	r, err := simulate.Run(t.Context(), s, p)
	if err != nil {
		t.Fatal(err)
	}
	return withoutTimes(r)
}

// withoutTimes returns a result without the fields that can differ between runs.
func withoutTimes(r simulate.Result) simulate.Result {
	r.Timing = simulate.Timing{}
	return r
}

var errBroken = errors.New("broken")
