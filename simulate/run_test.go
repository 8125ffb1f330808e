package simulate_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/simulate"
	"github.com/candor-project/candor/trace"
)

// sharedTrace has two sensitive containers of 1500m and a flexible container of 500m on four CPUs. A sensitive container runs for 10 s, and
// the other two containers run for 20 s, which is 45 CPU seconds of sensitive time.
var sharedTrace = []trace.Event{
	machine(0, 0, 4000),
	sensitive(submit(0, 0, 1500)), sensitive(submit(0, 1, 1500)), flexible(submit(0, 2, 500)),
	end(10, 0), end(20, 1), end(20, 2),
}

// unsharedTrace is sharedTrace without the flexible container.
var unsharedTrace = []trace.Event{
	machine(0, 0, 4000),
	sensitive(submit(0, 0, 1500)), sensitive(submit(0, 1, 1500)),
	end(10, 0), end(20, 1),
}

func TestSharedTime(t *testing.T) {
	for _, test := range []struct {
		name      string
		algorithm hybrid.Algorithm
		events    []trace.Event
		s, bound  float64 // CPU seconds of 45
	}{
		// Algorithm 1 puts both fractions on one CPU, and flexible containers on every fractional one.
		{"paper, alone", hybrid.Paper, unsharedTrace, 10, 0},
		{"paper, with a flexible one", hybrid.Paper, sharedTrace, 10 + 10*0.5, 5},
		// Candor gives each fraction a CPU; the flexible container needs one of these while both are there.
		{"candor, alone", hybrid.Candor, unsharedTrace, 0, 0},
		{"candor, with a flexible one", hybrid.Candor, sharedTrace, 10 * 0.5, 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := run(t, setting(test.events), byClass(test.algorithm))
			if want := test.s / 45; math.Abs(r.S-want) > 1e-12 {
				t.Errorf("s is %v, want %v", r.S, want)
			}
			if want := test.bound / 45; math.Abs(r.SBound-want) > 1e-12 {
				t.Errorf("the bound is %v, want %v", r.SBound, want)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	list := []trace.Event{
		machine(0, 0, 2000),
		sensitive(submit(0, 0, 600)), sensitive(submit(0, 1, 600)),
		sensitive(submit(0, 2, 700)), // 800m are left, 400m on each CPU
		sensitive(submit(0, 3, 900)), // more than is left
		flexible(submit(0, 4, 900)),
		flexible(submit(0, 5, 800)),
		end(10, 0), end(10, 1), end(10, 2), end(10, 3), end(10, 4), end(10, 5),
	}
	for _, algorithm := range []hybrid.Algorithm{hybrid.Candor, hybrid.Paper} {
		r := run(t, setting(list), byClass(algorithm))
		want := simulate.Result{
			Algorithm: algorithm.String(), Policy: "strict", Scheduler: algorithm.String(), Sensitive: 4.0 / 6,
			S: 1, SBound: 1, R: 1.0 / 3, RBound: 1.0 / 3, Placed: 3, RefusedView: 1, RefusedCapacity: 2, Load: 1,
			Submitted: 6, SubmittedSensitive: 4, RefusedCapacitySensitive: 1,
			PlacedMilli: 2000, SensitiveMilli: 1200, NodesUsed: 1, Nodes: 1, Events: 13, TraceSeconds: 10,
		}
		if r != want {
			t.Errorf("got  %+v\nwant %+v", r, want)
		}
	}
}

func TestRemovedMachine(t *testing.T) {
	list := []trace.Event{
		machine(0, 0, 2000), machine(0, 1, 2000),
		sensitive(submit(0, 0, 1000)), sensitive(submit(0, 1, 2000)),
		removal(5, 0),
		end(10, 0), end(10, 1),
		end(10, 0), // of containers that have ended
	}
	p := byClass(hybrid.Candor)
	p.Scheduler = fleet.Least // the first to machine 0, the second to machine 1
	r := run(t, setting(list), p)
	if r.Submitted != 2 || r.Resubmitted != 1 || r.Placed != 2 || r.RefusedCapacity != 1 {
		t.Errorf("got %+v: want the container of the machine that went to be submitted again, and refused", r)
	}
	if want := (3*5 + 2*5) / (4.0*5 + 2*5); r.Load != want {
		t.Errorf("load %v, want %v", r.Load, want)
	}
	if r.Nodes != 1.5 || r.NodesUsed != 1.5 {
		t.Errorf("nodes %v, used %v: want 2 for half of the time and 1 for the other", r.Nodes, r.NodesUsed)
	}
}

func TestShrunkMachine(t *testing.T) {
	smaller := machine(5, 0, 1999) // one whole CPU
	smaller.Kind = trace.MachineUpdate
	list := []trace.Event{
		machine(0, 0, 3000), machine(0, 1, 800), // the second has no whole CPU
		sensitive(submit(0, 0, 1000)), sensitive(submit(0, 1, 2000)),
		smaller, end(10, 0), end(10, 1), removal(10, 1),
	}
	r := run(t, setting(list), byClass(hybrid.Candor))
	if r.Resubmitted != 1 || r.Placed != 2 || r.RefusedCapacity != 1 || r.Nodes != 1 {
		t.Errorf("got %+v: want one of two containers to lose its place on the only node", r)
	}
}

func TestSmallRequestsAreFlexible(t *testing.T) {
	list := []trace.Event{machine(0, 0, 1000), sensitive(submit(0, 0, 0)), sensitive(submit(0, 1, 9)), sensitive(submit(0, 2, 10)), end(1, 0)}
	for _, s := range []simulate.Selection{{Share: 1}, {ByClass: true}} {
		p := byClass(hybrid.Paper)
		p.Sensitive = s
		if r := run(t, setting(list), p); r.SubmittedSensitive != 1 || r.Placed != 3 {
			t.Errorf("%+v: got %+v: want one sensitive container of three", s, r)
		}
	}
}

// TestSnapshot checks that a trace without duration is measured at its end.
func TestSnapshot(t *testing.T) {
	r := run(t, setting(sharedTrace[:4]), byClass(hybrid.Paper))
	if r.S != 1000.0/3000 || r.Load != 3500.0/4000 {
		t.Errorf("s %v, load %v", r.S, r.Load)
	}
}

func TestDifferentMachines(t *testing.T) {
	apart := func(e trace.Event) trace.Event { e.Job, e.Flags = 7, trace.DifferentMachines; return e }
	list := []trace.Event{machine(0, 0, 4000), machine(0, 1, 4000),
		apart(submit(0, 0, 100)), apart(submit(0, 1, 100)), apart(submit(0, 2, 100)), end(1, 0)}
	if r := run(t, setting(list), byClass(hybrid.Candor)); r.Placed != 2 || r.RefusedCapacity != 1 {
		t.Errorf("got %+v: want two of three placed on two machines", r)
	}
}

func TestOvercommit(t *testing.T) {
	for _, test := range []struct {
		cpu        int32
		unit       trace.Unit
		cores      float64
		overcommit float64
		want       int
	}{
		{4000, trace.Milli, 16, 1, 4},
		{3920, trace.Milli, 16, 1, 3},
		{4000, trace.Milli, 16, 1.5, 6},
		{10000, trace.Milli, 16, 1.1, 11},
		{trace.One / 2, trace.LargestMachine, 16, 1, 8},
		{trace.One / 4, trace.LargestMachine, 10, 1, 2},
		{trace.One / 4, trace.LargestMachine, 10, 1.2, 3},
		{trace.One, trace.LargestMachine, 16, 1.3, 20},
		{0, trace.LargestMachine, 16, 2, 0},
	} {
		s := simulate.Setting{CoresOfLargest: test.cores, Overcommit: test.overcommit}
		if got := s.CPUs(test.unit, test.cpu); got != test.want {
			t.Errorf("%+v: got %d CPUs", test, got)
		}
	}
}

func TestBadSettings(t *testing.T) {
	good := setting(sharedTrace)
	for name, change := range map[string]func(*simulate.Setting){
		"trace":      func(s *simulate.Setting) { s.Open = nil },
		"cores":      func(s *simulate.Setting) { s.CoresOfLargest = math.NaN() },
		"overcommit": func(s *simulate.Setting) { s.Overcommit = 0 },
		"machines":   func(s *simulate.Setting) { s.Machines = -1 },
		"CPUs":       func(s *simulate.Setting) { s.Overcommit = 100; s.Open = openerOf([]trace.Event{machine(0, 0, 1<<20)}) },
	} {
		s := good
		change(&s)
		if _, err := simulate.Run(t.Context(), s, byClass(hybrid.Candor)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	list := append([]trace.Event{}, sharedTrace[:4]...)
	for i := range 4000 {
		list = append(list, submit(trace.Micros(i), 9, 10), end(trace.Micros(i), 9))
	}
	s := setting(nil)
	read := 0
	s.Open = func() (trace.Reader, error) {
		return &events{list: list, each: func() {
			if read++; read == 7000 { // of which the last ones were read ahead
				cancel()
			}
		}}, nil
	}
	r, err := simulate.Run(ctx, s, byClass(hybrid.Candor))
	if !errors.Is(err, context.Canceled) || !r.Stopped || r.Events < 2048 || r.Events >= int64(len(list)) || r.SensitiveMilli != 3000 {
		t.Errorf("error %v, result %+v: want what was measured up to the end of the context", err, r)
	}
}
