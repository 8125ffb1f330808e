package bandwidth_test

import (
	"fmt"
	"time"

	"github.com/candor-project/candor/bandwidth"
)

// Four busy threads under a limit of two CPUs use the quota of 200 ms in the first half of each period. Then
// they are throttled.
func Example() {
	limit := bandwidth.Bandwidth{Quota: 200 * time.Millisecond, Period: 100 * time.Millisecond}
	sim := bandwidth.New(bandwidth.Linux, 4, bandwidth.Setting{Bandwidth: limit})
	sim.SetThreads(0, 4)
	sim.Add(0, time.Hour) // more work than the limit allows
	sim.Run(10 * time.Second)

	stat := sim.Stat(0)
	fmt.Println("limit in CPUs:", limit.Limit())
	fmt.Println("used:", stat.Usage.Round(100*time.Millisecond))
	fmt.Println("throttled in", stat.Throttled, "of", stat.Periods, "periods")
	// Output:
	// limit in CPUs: 2
	// used: 20s
	// throttled in 100 of 100 periods
}

// With a burst, a group that was idle handles a peak of work without being throttled.
func ExampleSetting() {
	for _, burst := range []time.Duration{0, 50 * time.Millisecond} {
		sim := bandwidth.New(bandwidth.Linux, 1, bandwidth.Setting{
			Bandwidth:    bandwidth.Bandwidth{Quota: 50 * time.Millisecond, Period: 100 * time.Millisecond, Burst: burst},
			HasFullBurst: true,
		})
		sim.Add(0, 80*time.Millisecond)
		sim.RunWhileBusy(0, time.Second)
		fmt.Printf("burst %v: done after %v\n", burst, sim.DoneAt(0)) // the kernel charges at ticks, every 4 ms
	}
	// Output:
	// burst 0s: done after 128ms
	// burst 50ms: done after 80ms
}

// Check refuses the values that the kernel refuses.
func ExampleBandwidth_Check() {
	good := bandwidth.Bandwidth{Quota: 50 * time.Millisecond, Period: 100 * time.Millisecond}
	bad := good
	bad.Burst = 60 * time.Millisecond // more than the quota
	fmt.Println(good.Check(), bad.Check() != nil)
	// Output: <nil> true
}
