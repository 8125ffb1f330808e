package timescale

import (
	"errors"
	"time"

	"github.com/candor-project/candor/cgroup"
)

// A Part is a part of a recording. From and To are times since the start of the recording. The zero value is the whole
// recording.
type Part struct{ From, To time.Duration } // To 0: the end of the recording

// ErrNoPart means that a recording does not have the requested part.
var ErrNoPart = errors.New("no such part of the recording")

// clip returns the moment in the part that is nearest to at.
func (p Part) clip(at time.Duration) time.Duration {
	if p.To > 0 {
		at = min(at, p.To)
	}
	return max(at, p.From)
}

// share returns the share of the time between two readings that lies in the part.
func (p Part) share(from, to time.Duration) float64 {
	if overlap := p.clip(to) - p.clip(from); from < to {
		return float64(overlap) / float64(to-from)
	}
	if p.clip(to) == to {
		return 1
	}
	return 0
}

// scale returns a share of a usage. It does not scale the numbers of periods, because a period cannot be divided. It keeps these numbers if
// the share is at least one half, and sets them to 0 otherwise.
func scale(u cgroup.Usage, share float64) cgroup.Usage {
	if share == 1 {
		return u
	}
	times := func(d time.Duration) time.Duration { return time.Duration(share * float64(d)) }
	u.CPU, u.ThrottledTime, u.BurstTime = times(u.CPU), times(u.ThrottledTime), times(u.BurstTime)
	if share < 0.5 {
		u.Periods, u.Throttled, u.Bursts = 0, 0, 0
	}
	return u
}
