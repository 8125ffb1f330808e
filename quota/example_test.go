package quota_test

import (
	"fmt"
	"time"

	"github.com/candor-project/candor/burst"
	"github.com/candor-project/candor/quota"
)

// A container has a limit of half a CPU. Its helper uses as much CPU time as the container itself, so the container gets half
// of its limit.
func ExampleState() {
	s := quota.State{Setting: quota.Setting{
		Setting:   burst.Setting{Quota: 50 * time.Millisecond, Period: 100 * time.Millisecond},
		IsCharged: true,
	}}
	m := quota.Sample{IsLeased: true}
	for m.At < 10*time.Second {
		var a quota.Action
		s, a = s.Next(m)
		if a.Write {
			s = s.AfterWrite(a.Quota) // the caller writes the quota to the kernel
		}
		span := a.Wake - m.At
		own := time.Duration(float64(span) * float64(s.InForce) / float64(s.Period)) // the container uses its whole quota
		m = quota.Sample{At: a.Wake, Used: m.Used + own, Charged: m.Charged + own, Periods: uint64(a.Wake / s.Period), IsLeased: true}
	}
	fmt.Println("quota", time.Duration(s.InForce).Round(time.Millisecond), "per", s.Period)
	fmt.Println("own and helper", (m.Used + m.Charged).Round(100*time.Millisecond), "in", m.At.Round(time.Second))
	// Output:
	// quota 25ms per 100ms
	// own and helper 5s in 10s
}
