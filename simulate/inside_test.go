package simulate

import (
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestIntegral(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var i integral
		want := new(big.Int)
		for range rapid.IntRange(0, 20).Draw(t, "n") {
			value, span := rapid.Uint64Max(1<<50).Draw(t, "value"), rapid.Uint64Max(1<<60).Draw(t, "span")
			i.add(value, span)
			want.Add(want, new(big.Int).Mul(new(big.Int).SetUint64(value), new(big.Int).SetUint64(span)))
		}
		got := new(big.Int).Lsh(new(big.Int).SetUint64(i.high), 64)
		if got.Add(got, new(big.Int).SetUint64(i.low)).Cmp(want) != 0 {
			t.Fatalf("got %v, want %v", got, want)
		}
		if exact, _ := new(big.Float).SetInt(want).Float64(); math.Abs(i.meanOver(1)-exact) > 1e-12*exact {
			t.Fatalf("got %v, want %v", i.meanOver(1), exact)
		}
	})
}

func TestClockSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Min(0).Draw(t, "d"))
		middle := middleOf(stepOf(d))
		if math.Abs(middle-float64(d)) > float64(d)/50 {
			t.Fatalf("%d ns are in a step around %v", d, middle)
		}
	})
	if stepOf(math.MaxInt64) >= len(new(clock).counts) || stepOf(-5) != 0 {
		t.Error("steps are out of range")
	}
}

func TestClockQuantiles(t *testing.T) {
	var c clock
	for i := range 1000 {
		c.addDecision(time.Duration(i+1)*time.Microsecond, i%2 == 0)
	}
	got := c.timing(time.Second, 500)
	for name, v := range map[string][2]float64{
		"p50":            {1e6 * got.DecisionP50, 500},
		"p99":            {1e6 * got.DecisionP99, 990},
		"mean":           {1e6 * got.DecisionMean, 500.5},
		"sensitive mean": {1e6 * got.DecisionSensitiveMean, 500},
		"rate":           {got.EventsPerSecond, 500},
		"share":          {got.AllocatorShare, 0.5005},
	} {
		if math.Abs(v[0]-v[1]) > v[1]*0.02 {
			t.Errorf("%s is %v, want %v", name, v[0], v[1])
		}
	}
	for range 100 {
		if c.isSampledEnd() {
			c.sampledEnds.add(time.Millisecond)
		}
	}
	if got := c.timing(time.Second, 0).AllocatorShare; c.sampledEnds.n != 15 || math.Abs(got-0.6005) > 1e-9 {
		t.Errorf("share with 100 ends of 1 ms is %v, want 0.6005; %d of them timed", got, c.sampledEnds.n)
	}
	if got := c.timing(time.Millisecond, 0).AllocatorShare; got != 1 {
		t.Errorf("share of less time than they took is %v, want 1", got)
	}
	if new(clock).timing(0, 0) != (Timing{}) {
		t.Error("a clock that saw nothing has figures")
	}
}

// TestBound compares minShared with every choice of the fractions that have a CPU of their own.
func TestBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newCellBound()
		var fractions []int64
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			if n := len(fractions); n > 0 && rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
				b.add(fractions[n-1], -1)
				fractions = fractions[:n-1]
			} else {
				f := rapid.Int64Range(0, 999).Draw(t, "fraction")
				b.add(f, 1)
				fractions = append(fractions, f)
			}
			slack := rapid.Int64Range(0, 4000).Draw(t, "slack")
			least, largest := leastShared(fractions, slack)
			if got := b.minShared(slack); got > least || got < least-largest || got < 0 {
				t.Fatalf("fractions %v, slack %d: bound %d, the best choice shares %d", fractions, slack, got, least)
			}
		}
	})
}

// TestBoundCPUs compares minCPUs with the best packing of the fractions, which it finds by trying all packings.
func TestBoundCPUs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newCellBound()
		limits := rapid.SliceOfN(rapid.Int64Range(1, 2500), 1, 7).Draw(t, "limits")
		whole := int64(0)
		for _, limit := range limits {
			whole += limit / 1000
		}
		for _, limit := range limits[1:] {
			b.add(limit, 1)
		}
		got, best := b.minCPUs(limits[0]), whole+fewestBins(limits, nil)
		if got > best || got < whole || 2*(got-whole) < best-whole {
			t.Fatalf("limits %v: at least %d CPUs, the best packing has %d", limits, got, best)
		}
	})
}

// fewestBins returns the smallest number of bins for the fractions. It tries every packing.
func fewestBins(limits []int64, bins []int64) int64 {
	if len(limits) == 0 {
		return int64(len(bins))
	}
	f, best := limits[0]%1000, int64(math.MaxInt64)
	if f == 0 {
		return fewestBins(limits[1:], bins)
	}
	for i := range bins {
		if bins[i]+f <= 1000 {
			bins[i] += f
			best = min(best, fewestBins(limits[1:], bins))
			bins[i] -= f
		}
	}
	return min(best, fewestBins(limits[1:], append(bins, f)))
}

// leastShared returns the lowest shared time over every choice of fractions with CPUs of their own, and the largest fraction. Dividing a
// fraction lowers the shared time by at most the largest fraction.
func leastShared(fractions []int64, slack int64) (least, largest int64) {
	least = math.MaxInt64
	for choice := range 1 << len(fractions) {
		idle, shared := int64(0), int64(0)
		for i, f := range fractions {
			if largest = max(largest, f); f == 0 {
				continue
			}
			if choice>>i&1 == 1 {
				idle += 1000 - f
			} else {
				shared += f
			}
		}
		if idle <= slack {
			least = min(least, shared)
		}
	}
	return least, largest
}
