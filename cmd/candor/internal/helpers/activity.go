package helpers

import "time"

// An Activity compares the CPU use of all helpers with their earlier use. This costs less than a reading of a Meter, so a caller can omit
// readings while the use does not rise.
type Activity struct {
	meter *Meter
	at    time.Time     // time of the last comparison
	used  time.Duration // CPU time of all helpers at this time
	use   float64       // CPU use between the last two comparisons, in CPUs
}

// The use rises if it exceeds riseFactor times the earlier use, plus minRise. For comparison, an idle containerd with 50 containers uses
// 0.05 CPUs to read their statistics.
const (
	riseFactor = 1.5
	minRise    = 0.01 // CPUs
)

// Activity returns an Activity of the helpers that the Meter knows.
func (m *Meter) Activity() *Activity { return &Activity{meter: m} }

// Rises reports whether the helpers' CPU use since the last call is clearly higher than before that call. The first call returns true. If
// the Meter measures packets, every call returns true, because softirqs have no CPU clock.
func (a *Activity) Rises() bool {
	return a.meter.packets != nil || a.rises(time.Now(), a.meter.source.Used())
}

func (a *Activity) rises(now time.Time, used time.Duration) bool {
	span, before := now.Sub(a.at), a.use
	use := float64(used-a.used) / float64(max(span, 1))
	isFirst := a.at.IsZero()
	a.at, a.used, a.use = now, used, use
	return isFirst || use > riseFactor*before+minRise
}
