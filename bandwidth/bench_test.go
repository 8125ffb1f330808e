package bandwidth

import (
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkDay replays a day of random demand in steps of 10 ms: bursts of up to four threads, busy for a
// third of the time, under a limit of 1.5 CPUs.
func BenchmarkDay(b *testing.B) {
	const step, day = 10 * ms, 24 * time.Hour
	demand := make([]time.Duration, day/step)
	random := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < len(demand); {
		for end := i + random.IntN(20); i < min(end, len(demand)); i++ {
			demand[i] = time.Duration(random.Int64N(int64(4 * step)))
		}
		i += random.IntN(40)
	}
	for b.Loop() {
		s := New(Linux, 4, Setting{Bandwidth: Bandwidth{Quota: 150 * ms, Period: 100 * ms, Burst: 150 * ms}})
		s.SetThreads(0, 4)
		for i, work := range demand {
			if work > 0 {
				s.Add(0, work)
			}
			s.Run(step * time.Duration(i+1))
		}
	}
}
