package trace

import (
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// TestSummary compares the summary of a small trace with a calculation by hand.
func TestSummary(t *testing.T) {
	const half = One / 2
	events := []Event{
		{Kind: MachineAdd, CPU: One, Memory: One, Flags: AtStart},
		{Kind: MachineAdd, Machine: 1, CPU: half, Memory: One, Flags: AtStart},
		{Kind: MachineAdd, Machine: 2, CPU: half, Memory: One, Flags: AtStart},
		{Kind: Submit, Job: 1, CPU: One / 4, Class: 1, Flags: AtStart},
		{Kind: Submit, Time: 1 * Hour, Job: 2, Container: 1, CPU: half},
		{Kind: Submit, Time: 1 * Hour, Job: 2, Task: 1, Container: 2, CPU: One / 8},
		{Kind: MachineRemove, Time: 2 * Hour, Machine: 2},
		{Kind: End, Time: 2 * Hour, Job: 2, Container: 1, Reason: Failed},
		{Kind: End, Time: 2 * Hour, Job: 1, Class: 1},
		{Kind: Submit, Time: 3 * Hour, Job: 3, CPU: half},
		{Kind: MachineUpdate, Time: 4 * Hour, Machine: 1, CPU: One, Memory: One},
	}
	s, err := Summarize(NewMemory(Header{Name: "by hand", Classes: googleClasses()}, events), 16)
	if err != nil {
		t.Fatal(err)
	}
	if want := []MachineKind{{8, 1, 2. / 3}, {16, 1, 1. / 3}}; !reflect.DeepEqual(s.Machines.Mix, want) {
		t.Errorf("mix %v, want %v", s.Machines.Mix, want)
	}
	for what, v := range map[string][2]float64{
		"machines":           {float64(s.Machines.Start), 3},
		"cores":              {s.Machines.Cores, 32},
		"removals":           {float64(s.Machines.Removals), 1},
		"updates":            {float64(s.Machines.Updates), 1},
		"at the start":       {float64(s.Containers.Start), 1},
		"new":                {float64(s.Containers.New), 3},
		"at once":            {float64(s.Containers.AtOnce), 3},
		"jobs":               {float64(s.Jobs), 2},
		"failed":             {float64(s.Containers.Ends["failed"]), 1},
		"held p50":           {s.RequestHeld.P50, 4},
		"new p1":             {s.RequestNew.P1, 2},
		"new p50":            {s.RequestNew.P50, 8},
		"new mean":           {s.RequestNew.Mean, 6},
		"arrivals mean":      {s.Arrivals.Mean, 1},
		"arrivals max":       {s.Arrivals.Max, 2},
		"jobs an hour p50":   {s.JobArrivals.P50, 1},
		"class 0 running":    {float64(s.Classes[0].Running), 2},
		"class 0 ran for":    {s.Classes[0].Duration.P50, 3600},
		"class 1 start":      {float64(s.Classes[1].Start), 1},
		"class 1 new":        {float64(s.Classes[1].New), 0},
		"load, area of area": {s.LoadMean, (4 + 14 + 2 + 10) / (32. + 32 + 24 + 24)},
		"events":             {float64(s.Header.Events), 11},
		"span":               {s.Header.Span.Seconds(), 4 * 3600},
		"end of the load":    {s.Load[len(s.Load)-1].Seconds, 4 * 3600},
	} {
		if math.Abs(v[0]-v[1]) > 0.03*v[1] {
			t.Errorf("%s: %v, want %v", what, v[0], v[1])
		}
	}
}

// TestLoadLine: wider intervals keep the sum of the load, and the number of intervals stays bounded.
func TestLoadLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := loadLine{width: Second}
		var now Micros
		var want loadPart
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			next := now + Micros(rapid.OneOf(rapid.Int64Range(1, int64(Second)), rapid.Int64Range(1, int64(100*Day))).Draw(t, "span"))
			is := loadSums{rapid.Int64Range(0, 1000).Draw(t, "requested"), rapid.Int64Range(1, 1000).Draw(t, "capacity"), 1}
			l.add(now, next, is)
			span := float64(next - now)
			want.requested += float64(is.requested) * span
			want.capacity += float64(is.capacity) * span
			want.time += span
			now = next
		}
		var got loadPart
		for _, p := range l.parts {
			got.requested += p.requested
			got.capacity += p.capacity
			got.time += p.time
		}
		if len(l.parts) > maxLoadPoints || math.Abs(got.requested-want.requested) > 1e-9*want.requested ||
			math.Abs(got.capacity-want.capacity) > 1e-9*want.capacity || got.time != want.time {
			t.Fatalf("%d parts, %+v; want %+v", len(l.parts), got, want)
		}
	})
}
