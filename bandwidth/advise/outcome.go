package advise

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/internal/bins"
)

// An Option is a way to give a container its CPUs.
type Option struct {
	bandwidth.Bandwidth
	// Sensitive is the number of whole CPUs that the container has to itself, and sees;
	// then there is no bandwidth. Its threads are as many at most.
	Sensitive int
}

// CPUs is what the option reserves of a node.
func (o Option) CPUs() float64 {
	if o.Sensitive > 0 {
		return float64(o.Sensitive)
	}
	return o.Limit()
}

// An Outcome is what the demand meets under an option.
type Outcome struct {
	Option
	Throttled float64       // share of the periods
	P50, P99  time.Duration // delay of the work against no limit: of half of it at most, of 99 % at most
	// Overrun is the longest time for which the container used more than its limit without a break: so
	// long a neighbour may have had to wait.
	Overrun time.Duration
	Unmet   bool // some work was not done a minute after the end
}

// Try replays the demand under an option.
func (d *Demand) Try(o Option) Outcome {
	out := Outcome{Option: o}
	cpus, threads := d.CPUs, d.CPUs
	if o.Sensitive > 0 {
		cpus, threads = o.Sensitive, o.Sensitive
	}
	s := bandwidth.New(bandwidth.Linux, cpus, bandwidth.Setting{Bandwidth: o.Bandwidth, Rested: true, Phase: o.Period / 2})
	delays := bins.Bins{Least: 1e-5}
	works := d.works()
	n := 0
	d.replay(s, threads, func(at time.Duration) {
		delays.Add(max(at-d.done[n], 0).Seconds(), works[n].Seconds())
		n++
	}, out.watch(d.Step))
	for end := s.Now(); n < len(works); n++ {
		out.Unmet = true
		delays.Add((end - d.done[n]).Seconds(), works[n].Seconds())
	}
	if stat := s.Stat(0); stat.Periods > 0 {
		out.Throttled = float64(stat.Throttled) / float64(stat.Periods)
	}
	out.P50, out.P99 = seconds(delays.Quantile(0.5)), seconds(delays.Quantile(0.99))
	return out
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(10 * time.Microsecond)
}

// works are the steps' CPU times without those that have none.
func (d *Demand) works() []time.Duration {
	return slices.DeleteFunc(slices.Clone(d.Work), func(w time.Duration) bool { return w == 0 })
}

// watch finds the longest overrun.
func (o *Outcome) watch(step time.Duration) func(used time.Duration) {
	allowed := time.Duration(math.MaxInt64)
	if o.Quota > 0 {
		allowed = time.Duration(o.Limit()*float64(step)) + time.Microsecond
	}
	run := time.Duration(0)
	return func(used time.Duration) {
		run += step
		if used <= allowed {
			run = 0
		}
		o.Overrun = max(o.Overrun, run)
	}
}

// Options are the bandwidths to compare: limits from the demand's mean to what it can use at once, each with these
// periods, without and with a burst; and the whole CPUs of a sensitive container. Limits in ascending order.
func (d *Demand) Options(periods []time.Duration) []Option {
	var all []Option
	for _, milli := range d.limits() {
		for _, period := range periods {
			quota := period * time.Duration(milli) / 1000
			if quota < time.Millisecond {
				continue
			}
			for _, burst := range []time.Duration{0, quota} {
				all = append(all, Option{Bandwidth: bandwidth.Bandwidth{Quota: quota, Period: period, Burst: burst}})
			}
		}
	}
	for n := min(int(math.Ceil(d.Mean())), d.Most()); n <= d.Most(); n++ {
		all = append(all, Option{Sensitive: n})
	}
	return all
}

// limits are some between the least and the most that make sense, evenly spread by their ratio, in milli-CPU.
func (d *Demand) limits() []int {
	const most = 9
	high := float64(d.Most())
	low := min(max(d.Mean(), 0.02), high)
	var list []int
	for i := range most {
		v := 1000 * low * math.Pow(high/low, float64(i)/(most-1))
		step := 10. // as people write limits: 50m, 240m, 1300m
		if v > 1000 {
			step = 100
		}
		list = append(list, min(int(math.Ceil(v/step)*step), d.Most()*1000))
	}
	return slices.Compact(list)
}

// TryAll replays the demand under each of the options, on all CPUs of this machine.
func (d *Demand) TryAll(options []Option) []Outcome {
	outcomes := make([]Outcome, len(options))
	next := make(chan int)
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for i := range next {
				outcomes[i] = d.Try(options[i])
			}
		})
	}
	for i := range options {
		next <- i
	}
	close(next)
	all.Wait()
	return outcomes
}

// Cheapest returns the outcome that meets the target and reserves least; of those with equal limits the one with the
// shortest overrun, then the shortest burst and period. Where none meets it ok is false, and the outcome is the nearest.
func Cheapest(outcomes []Outcome, target Target) (best Outcome, ok bool) {
	best = slices.MinFunc(outcomes, func(a, b Outcome) int {
		return cmp.Or(
			cmp.Compare(target.misses(a), target.misses(b)),
			cmp.Compare(a.CPUs(), b.CPUs()),
			cmp.Compare(a.Overrun, b.Overrun),
			cmp.Compare(a.Burst, b.Burst),
			cmp.Compare(a.Period, b.Period),
		)
	})
	return best, target.misses(best) == 0
}
