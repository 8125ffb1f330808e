package simulate_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/simulate"
	"github.com/candor-project/candor/trace"
)

// cell opens a small generated cell.
func cell() (trace.Reader, error) {
	return trace.Open("synthetic:machines=30,days=0.1,seed=5", trace.Options{})
}

// somePoints returns a point of each kind.
func somePoints() []simulate.Point {
	var list []simulate.Point
	for _, a := range []hybrid.Algorithm{hybrid.Candor, hybrid.Paper} {
		for _, p := range []hybrid.Policy{hybrid.Strict, hybrid.BestEffort} {
			for _, o := range []fleet.Order{fleet.Candor, fleet.Paper, fleet.Least, fleet.Most} {
				list = append(list, simulate.Point{Algorithm: a, Policy: p, Scheduler: o, Sensitive: simulate.Selection{Share: 0.9}})
			}
		}
	}
	return list
}

func TestSweepIsDeterministic(t *testing.T) {
	s := simulate.Setting{Open: cell, CoresOfLargest: 16, Overcommit: 1, Seed: 1, Progress: &simulate.Progress{}}
	points := somePoints()
	all, err := simulate.Sweep(t.Context(), s, points)
	if err != nil || len(all) != len(points) {
		t.Fatalf("%d of %d points, error %v", len(all), len(points), err)
	}
	events := int64(0)
	for i, p := range points {
		events += all[i].Events
		if one := run(t, s, p); one != withoutTimes(all[i]) {
			t.Errorf("alone   %+v\nin sweep %+v", one, withoutTimes(all[i]))
		}
		checkTotals(t, &all[i])
	}
	if finished, finishedEvents := s.Progress.Finished(); int(finished) != len(points) || finishedEvents != events || s.Progress.Events() != 2*events {
		t.Errorf("progress: %d points, %d events, %d in all; want %d, %d and twice that", finished, finishedEvents, s.Progress.Events(), len(points), events)
	}
}

// checkTotals checks the properties that hold for every result.
func checkTotals(t *testing.T, r *simulate.Result) {
	t.Helper()
	name := r.Algorithm + " " + r.Policy + " " + r.Scheduler
	if r.Submitted+r.Resubmitted != r.Placed+r.RefusedView+r.RefusedCapacity {
		t.Errorf("%s: %d and %d were submitted, %d placed, %d and %d refused", name, r.Submitted, r.Resubmitted, r.Placed, r.RefusedView, r.RefusedCapacity)
	}
	if r.Policy == "best-effort" && r.RefusedView != 0 {
		t.Errorf("%s refused %d for their view", name, r.RefusedView)
	}
	if r.S < r.SBound || r.S > 1 || r.Load <= 0 || r.Load > 1 || r.NodesUsed > r.Nodes || r.SensitiveMilli > r.PlacedMilli {
		t.Errorf("%s: %+v", name, *r)
	}
	if r.Algorithm == "paper" && r.Moves != 0 {
		t.Errorf("%s moved %d fractions", name, r.Moves)
	}
}

func TestSweepEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := setting(sharedTrace)
	if all, err := simulate.Sweep(ctx, s, somePoints()); !errors.Is(err, context.Canceled) || len(all) != 0 {
		t.Errorf("canceled before it began: %d points, error %v", len(all), err)
	}
	s.Open = func() (trace.Reader, error) { return &events{list: sharedTrace, fail: errBroken}, nil }
	if _, err := simulate.Sweep(t.Context(), s, somePoints()); !errors.Is(err, errBroken) {
		t.Errorf("a broken trace: error %v", err)
	}
	s.Open = openerOf(nil)
	if all, err := simulate.Sweep(t.Context(), s, somePoints()[:3]); err != nil || len(all) != 3 {
		t.Errorf("an empty trace: %d points, error %v", len(all), err)
	}
}

// TestRandomTraces checks that, for any trace, the totals agree and no shared time is below its bound.
func TestRandomTraces(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		s := setting(randomTrace(rng))
		for _, p := range somePoints() {
			r := run(t, s, p)
			checkTotals(t, &r)
		}
	})
}

// randomTrace returns the trace of a cell of a few machines that are added and removed.
func randomTrace(rng *rand.Rand) []trace.Event {
	var list []trace.Event
	now := trace.Micros(0)
	there, live := make([]bool, 3), make([]bool, 20)
	for range 20 + rng.IntN(80) {
		now += trace.Micros(rng.IntN(3))
		switch slot := uint32(rng.IntN(len(live))); {
		case rng.IntN(8) == 0:
			id := rng.IntN(len(there))
			if there[id] {
				list = append(list, removal(now, uint32(id)))
			} else {
				list = append(list, machine(now, uint32(id), int32(1+rng.IntN(6))*1000))
			}
			there[id] = !there[id]
		case live[slot]:
			list = append(list, end(now, slot))
			live[slot] = false
		default:
			list = append(list, submit(now, slot, int32(rng.IntN(30))*100))
			live[slot] = true
		}
	}
	return slices.Concat([]trace.Event{machine(0, 9, 4000)}, list)
}

// TestRealParts replays the first hours of a real cell.
func TestRealParts(t *testing.T) {
	const dir = "../../shared/traces/google2011"
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no traces: ", err)
	}
	if testing.Short() {
		t.Skip("replays 300,000 events, four times")
	}
	s := simulate.Setting{CoresOfLargest: 16, Overcommit: 1, Seed: 1,
		Open: func() (trace.Reader, error) { return trace.Open("google2011:"+dir, trace.Options{}) }}
	var points []simulate.Point
	for _, a := range []hybrid.Algorithm{hybrid.Candor, hybrid.Paper} {
		for _, o := range []fleet.Order{fleet.Least, simulate.DefaultScheduler(a)} {
			points = append(points, simulate.Point{Algorithm: a, Scheduler: o, Sensitive: simulate.Selection{Share: 0.5}})
		}
	}
	all, err := simulate.Sweep(t.Context(), s, points)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		checkTotals(t, &all[i])
		if r := &all[i]; r.Submitted != 216_225 || r.Events != 313_031 {
			t.Errorf("%+v: want 216225 containers in 313031 events", *r)
		}
	}
}
