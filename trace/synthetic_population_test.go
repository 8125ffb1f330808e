package trace

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestEventQueue: entries leave the queue in the order of time, kind and insertion.
func TestEventQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a eventQueue
		var model []due
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if len(model) > 0 && rapid.IntRange(0, 2).Draw(t, "pop") == 0 {
				slices.SortFunc(model, func(a, b due) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.order, b.order)) })
				if got := a.pop(); got != model[0] {
					t.Fatalf("%+v, want %+v", got, model[0])
				}
				model = model[1:]
				continue
			}
			time, kind := Micros(rapid.IntRange(0, 9).Draw(t, "time")), rapid.IntRange(0, dueLong).Draw(t, "kind")
			a.push(time, kind, uint32(len(model)))
			model = append(model, due{time, uint64(kind)<<dueKindShift | a.seq, uint32(len(model))})
			if d := model[len(model)-1]; d.kind() != kind {
				t.Fatalf("kind %d, want %d", d.kind(), kind)
			}
		}
	})
}

// TestCell: the tables of the generator are complete.
func TestCell(t *testing.T) {
	cell, err := readCell()
	if err != nil {
		t.Fatal(err)
	}
	machines := 0
	for _, m := range machineTypes {
		machines += m.count
	}
	if machines != cellMachines {
		t.Errorf("%d machines, want %d", machines, cellMachines)
	}
	jobs := 0.0
	for class := range cellClasses {
		k := &cellClasses[class]
		jobs += k.jobs
		if last := k.sizes[len(k.sizes)-1]; last.share != 1 {
			t.Errorf("class %d: sizes of %v of the jobs", class, last.share)
		}
		for _, ends := range [][Lost]float64{k.longEnds, shortEnds} {
			if sum := ends[Finished] + ends[Evicted] + ends[Failed] + ends[Killed]; math.Abs(sum-1) > 1e-9 {
				t.Errorf("class %d: shares of ends add up to %v", class, sum)
			}
		}
		for population := range cell {
			asks := cell[population][class]
			if !slices.IsSortedFunc(asks[:], func(a, b capacity) int { return cmp.Compare(a.cpu, b.cpu) }) || asks[99].cpu < One/100 {
				t.Errorf("population %d, class %d: %v", population, class, asks)
			}
		}
	}
	if math.Abs(jobs-1) > 1e-9 {
		t.Errorf("shares of jobs add up to %v", jobs)
	}
}

// smallCell returns a small synthetic cell in the compact form. The compact writer checks the rules of its
// events.
func smallCell(t interface{ Fatal(...any) }, machines int, days float64, seed uint64) []byte {
	r, err := Open(fmt.Sprintf("synthetic:machines=%d,days=%v,seed=%d", machines, days, seed), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	events, err := all(r)
	if err != nil {
		t.Fatal(err)
	}
	if last := events[len(events)-1]; last.Time >= Micros(days*float64(Day)) {
		t.Fatal("an event after the end", last)
	}
	file, err := pack(r.Header(), events)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestSyntheticDeterministic: the same seed gives the same bytes, and a different seed gives different bytes.
func TestSyntheticDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		machines := rapid.IntRange(1, 40).Draw(t, "machines")
		days := rapid.SampledFrom([]float64{0.001, 0.1, 0.5}).Draw(t, "days")
		seed := rapid.Uint64Range(0, 5).Draw(t, "seed")
		one := smallCell(t, machines, days, seed)
		if !bytes.Equal(one, smallCell(t, machines, days, seed)) {
			t.Fatal("two runs differ")
		}
		if machines > 5 && bytes.Equal(one, smallCell(t, machines, days, seed+1)) {
			t.Fatal("two seeds are the same")
		}
	})
}

// TestSyntheticSize: the generator keeps only the running containers in memory, not all containers of the
// trace.
func TestSyntheticSize(t *testing.T) {
	r, err := Open("synthetic:machines=100,days=10", Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := drain(t, r)
	g := r.(*synthetic)
	if held := len(g.live) + len(g.waiting.all) + len(g.batches.all); n < 100_000 || held > n/20 {
		t.Errorf("%d events, %d containers held", n, held)
	}
}

// TestSyntheticIsLikeReal compares the generator with the real parts, as docs/benchmarks/trace.md does.
func TestSyntheticIsLikeReal(t *testing.T) {
	real := summaryOf(t, "google2011:"+realTraces(t)+"/google2011")
	made := summaryOf(t, "synthetic:days=0.123,machines=12477")
	near := func(what string, got, want, factor float64) {
		if got > want*factor || got < want/factor {
			t.Errorf("%s: %v, want %v within a factor of %v", what, got, want, factor)
		}
	}
	for i, m := range real.Machines.Mix {
		if made.Machines.Mix[i] != m {
			t.Errorf("machines: %v, want %v", made.Machines.Mix[i], m)
		}
	}
	const bin = 1.26 // the histograms have ten bins per decade
	for _, q := range []struct {
		what       string
		made, real Quantiles
	}{{"at the start", made.RequestHeld, real.RequestHeld}, {"new", made.RequestNew, real.RequestNew}} {
		near(q.what+" p10", q.made.P10, q.real.P10, bin)
		near(q.what+" p25", q.made.P25, q.real.P25, bin)
		near(q.what+" p50", q.made.P50, q.real.P50, bin)
		near(q.what+" p75", q.made.P75, q.real.P75, bin)
		near(q.what+" p90", q.made.P90, q.real.P90, bin)
		near(q.what+" p99", q.made.P99, q.real.P99, bin)
	}
	near("containers at the start", float64(made.Containers.Start), float64(real.Containers.Start), 1.01)
	near("arrivals", made.Arrivals.Mean, real.Arrivals.Mean, 1.5)
	near("jobs", made.JobArrivals.Mean, real.JobArrivals.Mean, 1.5) // the rate differs more between hours of the month
	near("load", made.LoadMean, real.LoadMean, 1.03)
	for i := range real.Classes[:3] { // class 3 has 48 ends
		near("duration p50", made.Classes[i].Duration.P50, real.Classes[i].Duration.P50, 1.8)
		near("cores of a class", made.Classes[i].Cores, real.Classes[i].Cores, 1.03)
	}
}

// summaryOf reads a trace to its end.
func summaryOf(t *testing.T, spec string) *Summary {
	t.Helper()
	r, err := Open(spec, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := Summarize(r, 16)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSemiRealBeginsReal: the semi-real month equals the real trace until its parts end. Then it continues
// and follows the rules of doc.go.
func TestSemiRealBeginsReal(t *testing.T) {
	dir := realTraces(t) + "/google2011"
	real, err := Open("google2011:"+dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer real.Close()
	semi, err := Open("semi-real:"+dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer semi.Close()
	if semi.Header().Name != "semi-real" {
		t.Errorf("it is called %q", semi.Header().Name)
	}
	want, err := all(real)
	if err != nil {
		t.Fatal(err)
	}
	events := make([]Event, len(want)+200_000)
	for i := range events {
		if err := semi.Next(&events[i]); err != nil {
			t.Fatal(i, err)
		}
		if i < len(want) && events[i] != want[i] {
			t.Fatalf("event %d: %+v, want %+v", i, events[i], want[i])
		}
	}
	if err := keepsRules(events); err != nil {
		t.Error(err)
	}
}
