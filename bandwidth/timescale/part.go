package timescale

import (
	"errors"
	"time"

	"github.com/candor-project/candor/cgroup"
)

// A Part is a part of a recording, by times since its start. The zero value is all of it.
type Part struct{ From, To time.Duration } // To 0: its end

// ErrNoPart is a part that a recording does not have.
var ErrNoPart = errors.New("no such part of the recording")

// clip is the moment in the part that is next to a moment.
func (p Part) clip(at time.Duration) time.Duration {
	if p.To > 0 {
		at = min(at, p.To)
	}
	return max(at, p.From)
}

// share is how much of the time from one reading to the next lies in the part.
func (p Part) share(from, to time.Duration) float64 {
	if in := p.clip(to) - p.clip(from); from < to {
		return float64(in) / float64(to-from)
	}
	if p.clip(to) == to {
		return 1
	}
	return 0
}

// scale is a share of what was used. Periods cannot be cut: they are in the part that has more of them.
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
