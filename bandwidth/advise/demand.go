// Package advise recommends a CPU limit for a recorded program. It replays a recording under many bandwidths in the
// model of package bandwidth, and compares the results.
//
// A Demand holds the CPU time that the program needed in each step, which is an interval of the recording. The work of a
// step is this CPU time. Demand.Options returns the options to compare, such as bandwidths, and Demand.TryAll computes
// an Outcome for each option. Cheapest selects the outcome that meets a Target with the smallest limit. A Report holds
// the advice for a group. A Node computes how many containers fit on a node. Package advise does not change any limit.
package advise

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/candor-project/candor/bandwidth"
)

// A Demand holds the CPU time that a program needed in each step of a recording.
type Demand struct {
	Step time.Duration // length of a step
	CPUs int           // number of CPUs of the machine
	// Hops is the number of containers that handle each request in turn; 0 means 1. Each container has this demand, and
	// the answer returns through all containers.
	Hops      int
	Work      []time.Duration // CPU time that the program needed, by step
	Threads   []uint16        // number of threads that can do the step's work at once, by step
	done      []time.Duration // completion time without a limit, for each step with work
	isDamaged bool            // a step has an impossible CPU time, so the recording is damaged
}

// Bounds of a recording from which a Demand can be computed.
const (
	MaxStep  = 100 * time.Millisecond
	maxSteps = 1 << 25 // almost four days at 10 ms
)

// ErrUnfit means that a recording is not suitable for advice. The recording is damaged, too long or without CPU time, its interval is too
// long, or the replay has too few CPUs.
var ErrUnfit = errors.New("no advice from this recording")

// NewDemand returns a Demand without steps. step is the length of its steps, and cpus the machine's number of CPUs.
func NewDemand(step time.Duration, cpus int) (*Demand, error) {
	if step > MaxStep {
		return nil, fmt.Errorf("%w: its interval is %v; must be %v or shorter", ErrUnfit, step, MaxStep)
	}
	return &Demand{Step: step, CPUs: cpus}, nil
}

// maxCPUs is more than the CPUs of any machine.
const maxCPUs = 1 << 16

// Add appends n steps in which the program used the given mean number of CPUs. Add ignores an impossible value, and Prepare then returns
// an error.
func (d *Demand) Add(cpus float64, n int64) {
	if !(cpus >= 0 && cpus < maxCPUs) {
		d.isDamaged = true
		return
	}
	work := time.Duration(cpus * float64(d.Step))
	for range min(n, maxSteps+1-int64(len(d.Work))) {
		d.Work = append(d.Work, work)
	}
}

// Prepare computes Threads, and the completion time of each step's work without a limit. The caller calls it after the
// last Add.
func (d *Demand) Prepare() error {
	switch {
	case d.isDamaged:
		return fmt.Errorf("%w: it has steps of less than 0 CPUs, or of more than %d: it is damaged", ErrUnfit, maxCPUs)
	case len(d.Work) > maxSteps:
		return fmt.Errorf("%w: it has more than %d steps of %v; record less, or with a longer --interval", ErrUnfit, maxSteps, d.Step)
	case d.Mean() == 0:
		return fmt.Errorf("%w: no CPU time was used", ErrUnfit)
	}
	d.findThreads()
	d.done = nil
	free := newChain(max(d.Hops, 1), d.CPUs, bandwidth.Bandwidth{})
	if d.replay(free, d.CPUs, func(at, _ time.Duration) { d.done = append(d.done, at) }, nil) > 0 {
		return fmt.Errorf("%w: %d CPUs are too few: %v after its end some work is not done; use more CPUs", ErrUnfit, d.CPUs, maxTail)
	}
	return nil
}

// tickNoise is the maximum error of the use measured over two steps of 10 ms, in CPUs. The error arises because the kernel
// charges CPU time at its ticks.
const tickNoise = 0.25

// findThreads estimates the threads of each step: the highest mean use over 20 ms near the step, minus tickNoise, rounded up to
// whole CPUs. The intervals of 20 ms end between 100 ms before and 20 ms after the end of the step.
func (d *Demand) findThreads() {
	d.Threads = make([]uint16, len(d.Work))
	pair := int(max(20*time.Millisecond/d.Step, 1))
	reach := int(max(100*time.Millisecond/d.Step, 1))
	used := make([]float64, len(d.Work)) // mean CPUs used in the 20 ms that end with each step
	sum := time.Duration(0)
	for i, w := range d.Work {
		sum += w
		if i >= pair {
			sum -= d.Work[i-pair]
		}
		used[i] = float64(sum) / float64(d.Step) / float64(min(i+1, pair))
	}
	for i := range d.Threads {
		peak := 0.0
		for _, u := range used[max(0, i-reach+1) : min(i+pair, len(used)-1)+1] {
			peak = max(peak, u)
		}
		d.Threads[i] = uint16(min(max(math.Ceil(peak-tickNoise), 1), math.MaxUint16))
	}
}

// replay runs the demand on a chain of containers, with at most the given number of threads in each container. A step with work is a
// request, and replay calls done when its answer returns. If used is not nil, replay calls it at the end of each step with the CPU time
// that the first container used in the step. replay returns the number of steps whose work was not done when maxTail ended.
func (d *Demand) replay(c chain, threads int, done func(at, work time.Duration), used func(time.Duration)) (unfinished int) {
	step, pending := 0, 0
	onAnswer := func(at time.Duration) {
		for d.Work[step] == 0 {
			step++
		}
		done(at, d.Work[step])
		step++
		pending--
	}
	now, last := time.Duration(0), time.Duration(0)
	for i, w := range d.Work {
		if w > 0 {
			c.add(now, w, min(int(d.Threads[i]), threads))
			pending++
		}
		now += d.Step
		c.run(now, onAnswer)
		if used != nil {
			total := c[0].Stat(0).Usage
			used(total - last)
			last = total
		}
	}
	for end := now + maxTail; pending > 0 && now < end; {
		now += d.Step
		c.run(now, onAnswer)
	}
	unfinished = pending
	for pending > 0 {
		onAnswer(now)
	}
	return unfinished
}

// maxTail is the time after the recording's end in which work can still complete. Unfinished work counts as done at the
// end of this time.
const maxTail = time.Minute

// Span returns the length of the recording.
func (d *Demand) Span() time.Duration { return time.Duration(len(d.Work)) * d.Step }

// BusyWindows returns the number of windows of 100 ms with work.
func (d *Demand) BusyWindows() (n int) {
	for _, used := range d.windows() {
		if used > 0 {
			n++
		}
	}
	return n
}

// Mean returns the mean demand in CPUs.
func (d *Demand) Mean() float64 {
	total := 0.0 // the sum can overflow a Duration
	for _, w := range d.Work {
		total += float64(w)
	}
	return total / float64(d.Step) / float64(max(1, len(d.Work)))
}

// MaxThreads returns the maximum number of CPUs that the demand can use at once.
func (d *Demand) MaxThreads() int {
	maxCount := 1
	for _, n := range d.Threads {
		maxCount = max(maxCount, int(n))
	}
	return min(maxCount, d.CPUs)
}
