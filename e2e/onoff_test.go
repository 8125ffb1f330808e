package e2e

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/bandwidth"
)

// callWork is the CPU time of a call. It is so long that the overhead of the call does not matter.
const callWork = 2 * ms

// A serving is a server under a quota, and its clients.
type serving struct {
	name string
	traffic
	bandwidth.Bandwidth
	always bool // not only when there is time for many rounds
}

var (
	// six clients want 0.5 CPUs in the mean, and up to two at times.
	six = traffic{seed: 7, clients: 6, on: 60 * ms, off: 600 * ms, length: 6 * time.Second}
	// burstier has clients with the same mean. Each burst and each pause is five times as long.
	burstier = traffic{seed: 7, clients: 6, on: 300 * ms, off: 3 * time.Second, length: 18 * time.Second}
	// sixtyFour are as many as the post has; each is on for so short that they want 0.7 CPUs in the mean.
	sixtyFour = traffic{seed: 7, clients: 64, on: 10 * ms, off: 800 * ms, length: 6 * time.Second}
)

var servings = []serving{
	{"server", six, bandwidth.Bandwidth{Quota: 50 * ms, Period: 100 * ms}, true},
	{"server", six, bandwidth.Bandwidth{Quota: 50 * ms, Period: 100 * ms, Burst: 50 * ms}, false},
	{"server", six, bandwidth.Bandwidth{Quota: 75 * ms, Period: 100 * ms}, false},
	{"server", six, bandwidth.Bandwidth{Quota: 100 * ms, Period: 100 * ms}, false},
	{"server", six, bandwidth.Bandwidth{Quota: 25 * ms, Period: 50 * ms}, false},
	{"server", six, bandwidth.Bandwidth{}, false},
	{"burstier clients", burstier, bandwidth.Bandwidth{Quota: 50 * ms, Period: 100 * ms}, false},
	{"burstier clients", burstier, bandwidth.Bandwidth{Quota: 50 * ms, Period: 100 * ms, Burst: 50 * ms}, false},
	{"burstier clients", burstier, bandwidth.Bandwidth{}, false},
	{"64 clients", sixtyFour, bandwidth.Bandwidth{Quota: 75 * ms, Period: 100 * ms}, false},
	{"64 clients", sixtyFour, bandwidth.Bandwidth{Quota: 75 * ms, Period: 100 * ms, Burst: 75 * ms}, false},
	{"64 clients", sixtyFour, bandwidth.Bandwidth{}, false},
}

func (v serving) String() string {
	if v.Quota == 0 {
		return v.name + ", no limit"
	}
	return throttling{program{name: v.name}, v.Bandwidth, false}.String()
}

// A served is the measured result of the calls.
type served struct {
	throttled float64 // periods
	calls     float64
	took      float64 // a call in the mean, ms
	foreign   float64
}

// predict runs the server in the model: a thread for each client that is on, which is busy except between two
// calls. The duration of a call follows from the mean number of clients that are on and from the number of
// calls (Little's law).
func (v serving) predict(cpus int) served {
	type change struct {
		at time.Duration
		by int
	}
	var changes []change
	waiting := time.Duration(0)
	for _, mine := range v.stretches() {
		for _, s := range mine {
			waiting += s.to - s.from
			for at := s.from; at < s.to; at += callWork + v.between {
				changes = append(changes, change{at, 1}, change{min(at+callWork, s.to), -1})
			}
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	s := bandwidth.New(bandwidth.Linux, cpus, bandwidth.Setting{Bandwidth: v.Bandwidth, Phase: v.Period / 2})
	on := 0
	for _, c := range changes {
		s.Run(c.at)
		on += c.by
		s.Drop(0)
		s.SetThreads(0, on)
		if on > 0 {
			s.Add(0, time.Hour)
		}
	}
	s.Run(v.length + time.Second)
	calls := s.Stat(0).Usage.Seconds() / callWork.Seconds()
	return served{throttled: float64(s.Stat(0).Throttled), calls: calls, took: 1000 * waiting.Seconds() / calls}
}

// measure runs the server on this kernel.
func (v serving) measure(t *testing.T) served {
	l := newLab(t)
	cpus := l.usable.Lowest(2)
	socket := filepath.Join(t.TempDir(), "s")
	l.confine("program", v.Bandwidth, cpus, "serve", socket, callWork.String(), strconv.Itoa(v.clients))
	before := l.usedBy(cpus)
	clients := l.confine("clients", bandwidth.Bandwidth{}, cpus, append([]string{"clients", socket}, v.args()...)...)
	var calls, took float64
	if _, err := fmt.Sscan(clients.line(t), &calls, &took); err != nil {
		t.Fatal(err)
	}
	after := l.usedBy(cpus)
	return served{float64(after.Throttled - before.Throttled), calls, took / 1e6 / calls, after.foreign(before)}
}

// withBetween returns the servings with the time of a client between two calls: the part of a call's duration
// without a limit beyond its work. It depends on this machine, not on the limit. Other programs lengthen it,
// so the shorter of two runs counts.
func withBetween(t *testing.T, of []serving) []serving {
	t.Helper()
	all, known := slices.Clone(of), map[traffic]time.Duration{}
	for i := range all {
		tr := all[i].traffic
		between, ok := known[tr]
		if !ok {
			between = callWork
			for range 2 {
				t.Run(all[i].name+" before", func(t *testing.T) {
					took := time.Duration(serving{traffic: tr}.measure(t).took * float64(ms))
					between = min(max(took-callWork, 0), between)
					t.Logf("%v longer than its work", (took - callWork).Round(time.Microsecond))
				})
			}
			known[tr] = between
		}
		all[i].between = between
	}
	return all
}

// TestThrottledServer compares the model of a server under on/off clients with the measurement on this kernel.
// TestThrottling describes how to run all bandwidths and print a table.
func TestThrottledServer(t *testing.T) {
	rounds, all := throttlingRounds(t)
	if !all {
		rounds = 1 // with a hundred bursts in it
	}
	here := slices.DeleteFunc(slices.Clone(servings), func(v serving) bool { return !v.always && !all })
	table := inTurns(t, withBetween(t, here), rounds, all)
	t.Logf("measured / predicted: median of up to %d rounds (lowest to highest)\n%s", rounds, table)
}

func (v serving) isAlways() bool { return v.always }

func (v serving) judge(t *testing.T, table *strings.Builder, got []served) (wrong []string) {
	want := v.predict(2)
	return judge(t, table, v.String(), usual, valuesOf(got, func(s served) float64 { return s.foreign }), []compared{
		{"throttled periods", want.throttled, 3, valuesOf(got, func(s served) float64 { return s.throttled })},
		{"calls", want.calls, 10, valuesOf(got, func(s served) float64 { return s.calls })},
		{"a call, ms", want.took, 0.5, valuesOf(got, func(s served) float64 { return s.took })},
	})
}
