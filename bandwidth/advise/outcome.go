package advise

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/internal/quantile"
)

// An Option is a way to allocate CPUs to a container.
type Option struct {
	bandwidth.Bandwidth
	// Sensitive, if not 0, is the number of exclusive CPUs of a sensitive container. The option then has no bandwidth.
	// The container sees only these CPUs, so it has at most this number of threads.
	Sensitive int
}

// CPUs returns the CPUs that the option reserves on a node.
func (o Option) CPUs() float64 {
	if o.Sensitive > 0 {
		return float64(o.Sensitive)
	}
	return o.Limit()
}

// An Outcome is the result of replaying a Demand under an Option. The delay of a step's work is the difference between
// its completion times with the option and without a limit. Percentiles and means of delays are weighted by work.
type Outcome struct {
	Option
	Periods   uint64        // periods in which a container had work; for several containers the mean
	Throttled float64       // share of throttled periods
	P50, P99  time.Duration // percentiles of the delay
	Mean      time.Duration // mean delay
	// Overrun is the longest uninterrupted time in which the container used more than its limit. Other containers can have to
	// wait that long for a CPU.
	Overrun time.Duration
	Unmet   bool // some work was not done a minute after the end of the recording
}

// Try replays the demand under an option. The caller must have called Prepare.
func (d *Demand) Try(o Option) Outcome {
	out := Outcome{Option: o}
	cpus, threads := d.CPUs, d.CPUs
	if o.Sensitive > 0 {
		cpus, threads = o.Sensitive, o.Sensitive
	}
	c := newChain(max(d.Hops, 1), cpus, o.Bandwidth)
	delays := quantile.Bins{Least: 1e-5}
	sum, all, n := 0.0, 0.0, 0
	unfinished := d.replay(c, threads, func(at, work time.Duration) {
		late := max(at-d.done[n], 0).Seconds()
		delays.Add(late, work.Seconds())
		sum += late * work.Seconds()
		all += work.Seconds()
		n++
	}, out.trackOverrun(d.Step))
	out.Unmet = unfinished > 0
	for _, h := range c {
		stat := h.Stat(0)
		out.Periods += stat.Periods
		out.Throttled += float64(stat.Throttled)
	}
	out.Throttled /= float64(max(out.Periods, 1))
	out.Periods /= uint64(len(c))
	out.Mean = seconds(sum / all)
	out.P50, out.P99 = seconds(delays.Quantile(0.5)), seconds(delays.Quantile(0.99))
	return out
}

// phase returns the phase of the period edges of a container in a chain. In the kernel, the
// phases of containers are random and independent. Evenly spread phases represent them without chance.
func phase(period time.Duration, hop int) time.Duration {
	const golden = 0.6180339887
	_, part := math.Modf(0.5 + golden*float64(hop))
	return time.Duration(part * float64(period))
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(10 * time.Microsecond)
}

// trackOverrun returns a function that updates Overrun from the CPU time used in each step.
func (o *Outcome) trackOverrun(step time.Duration) func(used time.Duration) {
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

// Options returns the options to compare. First come bandwidths with ascending limits, from the mean to the maximum of the
// demand: each limit with every period, without and with a burst. Then come sensitive containers with ascending numbers of
// CPUs.
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
	for n := min(int(math.Ceil(d.Mean())), d.MaxThreads()); n <= d.MaxThreads(); n++ {
		all = append(all, Option{Sensitive: n})
	}
	return all
}

// limits returns limits in milli-CPU, from the mean to the maximum of the demand, with equal ratios between neighbors.
func (d *Demand) limits() []int {
	const steps = 9
	high := float64(d.MaxThreads())
	low := min(max(d.Mean(), 0.02), high)
	var list []int
	for i := range steps {
		v := 1000 * low * math.Pow(high/low, float64(i)/(steps-1))
		step := 10. // round up to common limits, such as 50m, 240m or 1300m
		if v > 1000 {
			step = 100
		}
		list = append(list, min(int(math.Ceil(v/step)*step), d.MaxThreads()*1000))
	}
	return slices.Compact(list)
}

// TryAll replays the demand under each of the options, in parallel on all CPUs of this machine.
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

// Cheapest returns the outcome that meets the target and reserves the fewest CPUs. Among outcomes with the same number of
// CPUs it prefers the shortest overrun, then the smallest burst, then the shortest period. If no outcome meets the target,
// ok is false, and Cheapest returns the outcome that is nearest to the target.
func Cheapest(outcomes []Outcome, target Target) (best Outcome, ok bool) {
	best = slices.MinFunc(outcomes, func(a, b Outcome) int {
		return cmp.Or(
			cmp.Compare(target.excess(a), target.excess(b)),
			cmp.Compare(a.CPUs(), b.CPUs()),
			cmp.Compare(a.Overrun, b.Overrun),
			cmp.Compare(a.Burst, b.Burst),
			cmp.Compare(a.Period, b.Period),
		)
	})
	return best, target.excess(best) == 0
}
