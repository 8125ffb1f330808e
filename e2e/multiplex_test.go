package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/bandwidth"
)

// A crowd is a number of instances of a program on two CPUs. Each instance has two threads that compute for a
// while at the same time. The instances compute at different times. The limits of four instances add up to
// the two CPUs.
type crowd struct {
	instances int
	bandwidth.Bandwidth
	always bool // not only when there is time for many rounds
}

const (
	crowdThreads = 2
	crowdWork    = 60 * ms // of a thread in a burst
	crowdTimes   = 10
)

var half = bandwidth.Bandwidth{Quota: 50 * ms, Period: 100 * ms}

var crowds = []crowd{
	{1, half, false}, {2, half, false}, {4, half, true},
	{1, bandwidth.Bandwidth{}, false}, {2, bandwidth.Bandwidth{}, false}, {4, bandwidth.Bandwidth{}, true},
}

func (c crowd) String() string {
	if c.Quota == 0 {
		return fmt.Sprintf("%d without limits", c.instances)
	}
	return fmt.Sprintf("%d, each %v per %v", c.instances, c.Quota, c.Period)
}

// every returns the interval between the bursts of an instance.
func (crowd) every(instance int) time.Duration { return 400*ms + time.Duration(instance)*37*ms }

// A burst is a planned burst of an instance.
type burst struct {
	at       time.Duration
	instance int
}

// due returns the bursts of all instances in the order of time, from the start times of the instances.
func (c crowd) due(starts []time.Duration) (all []burst) {
	for i, start := range starts {
		for n := range crowdTimes {
			all = append(all, burst{start + c.every(i)/2 + time.Duration(n)*c.every(i), i})
		}
	}
	slices.SortFunc(all, func(a, b burst) int { return int(a.at - b.at) })
	return all
}

// predict runs the instances in the model. It returns the mean duration of a burst in ms, and the mean number
// of its throttled periods.
func (c crowd) predict(starts []time.Duration, cpus int) (took, throttled float64) {
	var settings []bandwidth.Setting
	for i := range starts {
		settings = append(settings, bandwidth.Setting{Bandwidth: c.Bandwidth, Phase: time.Duration(i) * 27 * ms})
	}
	s := bandwidth.New(bandwidth.Linux, cpus, settings...)
	begun := make([][]time.Duration, len(starts))
	for i := range starts {
		s.SetThreads(i, crowdThreads)
		s.Follow(i, func(at time.Duration) {
			took += 1000 * (at - begun[i][0]).Seconds()
			begun[i] = begun[i][1:]
		})
	}
	for _, b := range c.due(starts) {
		s.Run(b.at)
		begun[b.instance] = append(begun[b.instance], b.at)
		s.Add(b.instance, crowdThreads*crowdWork)
	}
	s.Run(s.Now() + time.Minute)
	bursts := float64(len(starts) * crowdTimes)
	for i := range starts {
		throttled += float64(s.Stat(i).Throttled) / bursts
	}
	return took / bursts, throttled
}

// A crowded is the measured result of the bursts.
type crowded struct {
	took, throttled, foreign float64
	starts                   []time.Duration
}

// measure runs the instances on this kernel.
func (c crowd) measure(t *testing.T) (r crowded) {
	l := newLab(t)
	cpus := l.usable.Lowest(2)
	var groups []string
	var programs []*tenant
	for i := range c.instances {
		name := fmt.Sprint("program-", i)
		groups = append(groups, name)
		programs = append(programs, l.confine(name, c.Bandwidth, cpus, "bursts", strconv.Itoa(crowdThreads), "work", crowdWork.String(), c.every(i).String(), strconv.Itoa(crowdTimes)))
		r.starts = append(r.starts, monotonic())
	}
	before, began := l.used([][]string{groups}, cpus), monotonic()
	bursts := float64(c.instances * crowdTimes)
	for _, p := range programs {
		for range crowdTimes {
			var took, used float64
			if _, err := fmt.Sscan(p.line(t), &took, &used); err != nil {
				t.Fatal(err)
			}
			r.took += took / 1e6 / bursts
		}
	}
	after := l.used([][]string{groups}, cpus)
	others := (after.all - before.all) - (after.kind[0] - before.kind[0])
	r.foreign = max(others.Seconds()/(monotonic()-began).Seconds()/float64(cpus.Count()), 0)
	for _, name := range groups {
		stat, err := l.tree.Group(name).Stat()
		if err != nil {
			t.Fatal(err)
		}
		r.throttled += float64(stat.Throttled) / bursts
	}
	for i := range r.starts {
		r.starts[len(r.starts)-1-i] -= r.starts[0]
	}
	return r
}

// TestMultiplexing compares the model of several instances on the same CPUs, with and without limits, with
// the measurement on this kernel. TestThrottling describes how to run all cases and print a table.
func TestMultiplexing(t *testing.T) {
	rounds, all := throttlingRounds(t)
	if !all {
		rounds = 1
	}
	table := inTurns(t, crowds, rounds, all)
	t.Logf("of one burst, measured / predicted: median of up to %d rounds (lowest to highest)\n%s", rounds, table)
}

func (c crowd) isAlways() bool { return c.always }

func (c crowd) judge(t *testing.T, table *strings.Builder, got []crowded) (wrong []string) {
	took, throttled := c.predict(got[0].starts, 2)
	return judge(t, table, c.String(), usual, valuesOf(got, func(r crowded) float64 { return r.foreign }), []compared{
		{"a burst, ms", took, 20, valuesOf(got, func(r crowded) float64 { return r.took })},
		{"throttled periods", throttled, 0.6, valuesOf(got, func(r crowded) float64 { return r.throttled })},
	})
}
