package guest

import (
	"sync"
	"time"
)

// rdtsc reads the time stamp counter of this CPU.
func rdtsc() uint64

// tscKHz returns the rate of this machine's time stamp counter in kHz. The emulated guest reads the same counter.
var tscKHz = sync.OnceValue(func() uint64 {
	c0, t0 := stamp()
	time.Sleep(50 * time.Millisecond)
	c1, t1 := stamp()
	return (c1 - c0) * 1e6 / uint64(t1.Sub(t0))
})

// stamp reads the counter and the clock at almost the same moment: it returns the closest pair of ten attempts.
func stamp() (cycles uint64, at time.Time) {
	best := ^uint64(0)
	for range 10 {
		a := rdtsc()
		now := time.Now()
		if d := rdtsc() - a; d < best {
			best, cycles, at = d, a+d/2, now
		}
	}
	return cycles, at
}
