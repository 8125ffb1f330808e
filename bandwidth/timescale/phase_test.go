package timescale

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// phasesOf returns the phases of a group with these uses in each second.
func phasesOf(seconds []float64) []Phase {
	l := &levels{windowsPerMean: 1}
	for _, v := range seconds {
		l.push(v, 1)
	}
	return (&Group{To: time.Duration(len(seconds)) * time.Second, levels: l}).Phases()
}

// TestPhases: Phases finds the ends of phases with different levels under noise, to within 1/32 of the
// recording.
func TestPhases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		n := rapid.IntRange(2, 4).Draw(t, "phases")
		length := rapid.IntRange(40, 300).Draw(t, "seconds of each")
		low := rapid.Float64Range(0.1, 1).Draw(t, "low")
		var seconds []float64
		for i := range n {
			mean := low
			if i%2 == 1 {
				mean = 3 * low
			}
			for range length {
				seconds = append(seconds, mean*(0.7+0.6*random.Float64()))
			}
		}
		got := phasesOf(seconds)
		if len(got) != n {
			t.Fatalf("%d phases: %v", n, got)
		}
		slop := time.Duration(len(seconds)/32) * time.Second
		for i, p := range got {
			if want := time.Duration((i+1)*length) * time.Second; (p.To - want).Abs() > slop {
				t.Fatalf("phase %d ends at %v, want %v: %v", i, p.To, want, got)
			}
		}
	})
}

// TestOnePhase: noise, bursts and a single peak are no change of phase.
func TestOnePhase(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 2))
		noise, bursts, peak := make([]float64, 300), make([]float64, 300), make([]float64, 300)
		for i := range noise {
			noise[i], peak[i] = random.ExpFloat64(), 0.3
			if random.IntN(5) == 0 {
				bursts[i] = 2
			}
		}
		peak[random.IntN(len(peak))] = 8
		for name, seconds := range map[string][]float64{"noise": noise, "bursts": bursts, "a peak": peak, "short": noise[:minLevels-1], "nothing": make([]float64, 100)} {
			if got := phasesOf(seconds); got != nil {
				t.Errorf("%s, seed %d: %v", name, seed, got)
			}
		}
	}
}

// TestLevels: a long recording has a bounded number of means, which cover the whole recording.
func TestLevels(t *testing.T) {
	l := &levels{windowsPerMean: 1}
	for i := range int64(1000) {
		l.push(float64(i%2), 1+i%3)
	}
	l.push(0.5, 1<<40)
	if n := len(l.means); n < maxLevels/2-1 || n >= maxLevels || meanOf(l.means) < 0.49 || meanOf(l.means) > 0.51 {
		t.Errorf("%d means, of all %v", n, meanOf(l.means))
	}
}
