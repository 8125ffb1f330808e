// Package charged has the common parts of the tests in which several containers of an engine pay for their helpers.
package charged

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// CountLoop is a shell script that writes the numbers from 1 on, one in each line.
const CountLoop = `i=0; while :; do i=$((i+1)); echo $i; done`

// Number returns the number of containers, and the limit of each container. CANDOR_CHARGED=50 sets the number.
func Number(t testing.TB) (number int, limit hybrid.Milli) {
	t.Helper()
	number = 5
	if text := os.Getenv("CANDOR_CHARGED"); text != "" {
		var err error
		if number, err = strconv.Atoi(text); err != nil || number < 1 {
			t.Fatalf("CANDOR_CHARGED=%q: must be a number of containers", text)
		}
	}
	return number, hybrid.Milli(max(20, 600/number)) // at 20m, the quota is 2 ms in each period
}

const (
	windows   = 5 // maximum number of measurements
	window    = 5 * time.Second
	tolerance = 0.15
	maxOther  = 0.25
)

// ReachLimits measures until a number of containers and their helpers use the sum of their limits, at most 5 times for 5 s: the agent
// finds new helpers after a second, and a rotation of logs can disturb a measurement. If they never do, ReachLimits fails the test.
//
// cpuTime returns the CPU time of the containers and of all their helpers. unattributed returns the part of it that no container
// caused, such as statistics, which is not charged. This part must be less than a quarter of the sum.
func ReachLimits(t testing.TB, when string, number int, limit hybrid.Milli, cpuTime, unattributed func() time.Duration) {
	t.Helper()
	want := float64(number) * float64(limit) / 1000
	for range windows {
		otherBefore, before, start := unattributed(), cpuTime(), time.Now()
		time.Sleep(window)
		span := float64(time.Since(start))
		other := float64(unattributed()-otherBefore) / span
		used := float64(cpuTime()-before)/span - other
		t.Logf("%s: %d containers with a limit of %v: %.3f of %.3f CPUs, and %.3f CPUs of other work", when, number, limit, used, want, other)
		if used > (1-tolerance)*want && used < (1+tolerance)*want && other < maxOther*want {
			return
		}
	}
	t.Errorf("%s: %d containers and their helpers do not use %.3f CPUs", when, number, want)
}
