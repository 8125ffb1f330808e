package advise

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// steadyDemand returns a demand of cpus CPUs at any time.
func steadyDemand(t testing.TB, cpus float64) *Demand {
	used := make([]float64, 2000)
	for i := range used {
		used[i] = cpus
	}
	return demandOf(t, 4, used...)
}

// burstyDemand returns a demand of four CPUs in a random tenth of all windows.
func burstyDemand(t testing.TB) *Demand {
	random := rand.New(rand.NewPCG(3, 4))
	used := make([]float64, 20000)
	for i := 0; i < len(used); i += 10 {
		if random.IntN(10) == 0 {
			for k := range 10 {
				used[i+k] = 4
			}
		}
	}
	return demandOf(t, 4, used...)
}

// TestUnlimited: steady containers fill a node completely. The number of bursty containers with a mean of 0.4
// CPUs follows the binomial distribution. More than 4 containers are busy at once in 2.2 % of the time for 17
// containers, in 1.3 % for 15, and in 0.9 % for 14.
func TestUnlimited(t *testing.T) {
	for _, c := range []struct {
		name      string
		demands   []*Demand
		cpus      int
		low, high int
	}{
		{"steady", []*Demand{steadyDemand(t, 0.5)}, 16, 32, 32},
		{"two kinds", []*Demand{steadyDemand(t, 0.5), steadyDemand(t, 1)}, 6, 8, 8},
		{"too big", []*Demand{steadyDemand(t, 2)}, 1, 0, 0},
		{"bursty", []*Demand{burstyDemand(t)}, 16, 13, 16},
	} {
		got := NewNode(c.cpus, 0.01, c.demands).FillUnlimited()
		if got.Containers < c.low || got.Containers > c.high || got.Short > 0.01 {
			t.Errorf("%s: %+v, want %d to %d", c.name, got, c.low, c.high)
		}
	}
}

// TestWholeRecording: the end of a long recording counts as much as its start.
func TestWholeRecording(t *testing.T) {
	d, err := NewDemand(100*ms, 4)
	if err != nil {
		t.Fatal(err)
	}
	d.Add(0.1, 5*maxMoments)
	d.Add(1.9, 5*maxMoments)
	if err := d.Prepare(); err != nil {
		t.Fatal(err)
	}
	if got := NewNode(100, 0, []*Demand{d}).FillLimited("all", []float64{1}); got.Containers != 100 || got.Short < 0.2 || got.Short > 0.8 {
		t.Errorf("%+v: 100 that are busy half of the time want more than their mean in about half of it", got)
	}
	if got := NewNode(16, 0, []*Demand{d}).FillUnlimited(); got.Containers > 40 {
		t.Errorf("%+v: the busy half is not seen", got)
	}
}

// TestShortness: with more containers, the demand exceeds the node's CPUs more often. The curve extends
// beyond the number of containers that the node holds.
func TestShortness(t *testing.T) {
	n := NewNode(16, 0.01, []*Demand{burstyDemand(t)})
	most := n.FillUnlimited()
	points := n.shortness([]Filling{most})
	if len(points) <= most.Containers || points[most.Containers].Y != 100*most.Short || points[most.Containers+1].Y <= 1 || points[len(points)-1].Y < 100*maxShort {
		t.Errorf("%d containers are held; %v", most.Containers, points)
	}
	for i := range points[1:] {
		if points[i+1].Y < points[i].Y || points[i+1].X != float64(i+1) {
			t.Errorf("point %d: %v after %v", i+1, points[i+1], points[i])
		}
	}
}

// TestLimited: the reserved CPU time never exceeds the CPU time of the node, and no further container fits.
func TestLimited(t *testing.T) {
	demands := []*Demand{steadyDemand(t, 0.5), burstyDemand(t)}
	rapid.Check(t, func(t *rapid.T) {
		limits := rapid.SliceOfN(rapid.Float64Range(0.1, 8), 2, 2).Draw(t, "limits")
		cpus := rapid.IntRange(1, 64).Draw(t, "CPUs")
		got := NewNode(cpus, 0.01, demands).FillLimited("limits", limits)
		if got.Reserved > float64(cpus)+1e-6 || got.Reserved+limits[got.Containers%2] <= float64(cpus) {
			t.Fatalf("%+v of %d CPUs", got, cpus)
		}
	})
}

// TestFill: with bursts or without limits, a node holds more bursty containers than with limits alone.
func TestFill(t *testing.T) {
	d := requests(t)
	target, err := ParseTarget("throttled<20%")
	if err != nil {
		t.Fatal(err)
	}
	r := &Report{Target: target, BusyWindows: d.BusyWindows(), Span: d.Span(), Outcomes: d.TryAll(d.Options([]time.Duration{100 * ms}))}
	got := NewNode(16, 0.01, []*Demand{d}).Fill([]*Report{r})
	if len(got) != 3 || got[0].Containers < 1 || got[1].Containers <= got[0].Containers || got[2].Containers <= got[0].Containers {
		t.Errorf("%+v", got)
	}
	r.Target, _ = ParseTarget("throttled<1%")
	if got := NewNode(16, 0.01, []*Demand{d}).Fill([]*Report{r}); len(got) != 1 || got[0].Name != "without limits" {
		t.Errorf("limits by a recording that is too short: %+v", got)
	}
}

// TestRegular: of a long recording that is busy in every tenth window, about a tenth of the sampled moments
// are busy.
func TestRegular(t *testing.T) {
	d, err := NewDemand(100*ms, 4)
	if err != nil {
		t.Fatal(err)
	}
	for range maxMoments {
		d.Add(1, 1)
		d.Add(0, 9)
	}
	if err := d.Prepare(); err != nil {
		t.Fatal(err)
	}
	load := NewNode(4, 0, []*Demand{d}).newLoad()
	load.add()
	for _, sum := range load.sums {
		busy := 0
		for _, cpus := range sum {
			busy += int(cpus)
		}
		if busy < len(sum)/12 || busy > len(sum)/8 {
			t.Errorf("busy in %d of %d moments", busy, len(sum))
		}
	}
}
