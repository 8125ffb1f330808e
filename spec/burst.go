package spec

import (
	"fmt"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/hybrid"
)

// A Burst selects how a container can later use CPU time that it left unused below its limit. The zero value disables bursts.
type Burst struct {
	By   BurstBy
	Time time.Duration // burst buffer of the kernel, at most the quota; only with BurstTime
}

// BurstBy selects the mechanism of a Burst.
type BurstBy string

// Mechanisms of a burst.
const (
	BurstTime   BurstBy = ""       // a kernel burst buffer (Linux 5.14) of Burst.Time; 0 disables it
	BurstKernel BurstBy = "kernel" // the largest kernel burst buffer, which equals the quota
	BurstQuota  BurstBy = "quota"  // Candor raises the quota while CPUs are idle (package burst)
	BurstAuto   BurstBy = "auto"   // BurstQuota and, if the kernel supports it, also BurstKernel
)

// BurstWords are the words that UnmarshalText accepts besides a time such as 20ms.
var BurstWords = []string{"none", string(BurstKernel), string(BurstQuota), string(BurstAuto)}

// maxBurst is the largest possible quota: the quota of MaxLimit with the longest period.
const maxBurst = time.Duration(hybrid.MaxLimit) * bandwidth.MaxPeriod / 1000

// UnmarshalText parses one of BurstWords or a time.
func (b *Burst) UnmarshalText(text []byte) error {
	word := string(text)
	switch by := BurstBy(word); by {
	case "none":
		*b = Burst{}
		return nil
	case BurstKernel, BurstQuota, BurstAuto:
		*b = Burst{By: by}
		return nil
	}
	span, err := time.ParseDuration(word)
	next := Burst{Time: span}
	if err != nil || next.Check() != nil {
		return fmt.Errorf("burst %.40q: must be none, kernel, quota, auto, or 0s to the quota in whole microseconds, such as 20ms", word)
	}
	*b = next
	return nil
}

// Raises reports whether Candor raises the quota while CPUs are idle.
func (b Burst) Raises() bool { return b.By == BurstQuota || b.By == BurstAuto }

// MarshalText returns the text that UnmarshalText parses.
func (b Burst) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// String returns the text that UnmarshalText parses.
func (b Burst) String() string {
	switch {
	case b.By != BurstTime:
		return string(b.By)
	case b.Time == 0:
		return "none"
	default:
		return b.Time.String()
	}
}

// Check returns an error for a value that UnmarshalText cannot return.
func (b Burst) Check() error {
	switch {
	case b.By == BurstTime && (b.Time < 0 || b.Time > maxBurst || b.Time%time.Microsecond != 0):
		return fmt.Errorf("burst %v: must be 0 to %v in whole microseconds", b.Time, maxBurst)
	case b.By != BurstTime && b.By != BurstKernel && b.By != BurstQuota && b.By != BurstAuto:
		return fmt.Errorf("burst %.40q: must be none, kernel, quota, auto or a time", string(b.By))
	case b.By != BurstTime && b.Time != 0:
		return fmt.Errorf("burst %s and %v: use only one of them", b.By, b.Time)
	default:
		return nil
	}
}

// CheckBurst returns an error if the kernel or package burst cannot apply a burst with this limit and period.
func CheckBurst(b Burst, limit hybrid.Milli, period time.Duration) error {
	quota := time.Duration(limit) * period / 1000
	switch {
	case b == Burst{}:
		return nil
	case limit == 0:
		return fmt.Errorf("burst %v: needs a limit", b)
	case b.By == BurstTime && b.Time > quota:
		return fmt.Errorf("burst %v: must be at most %[4]v, the quota of a limit of %[2]v with a period of %[3]v", b, limit, period, quota)
	case b.By == BurstQuota && period < bandwidth.MinRaisePeriod:
		return fmt.Errorf("burst %v: a period of %v is too short to raise the quota; use a period of %v or more, or burst kernel", b, period, bandwidth.MinRaisePeriod)
	default:
		return nil
	}
}
