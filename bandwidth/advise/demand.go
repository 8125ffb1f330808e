// Package advise recommends a CPU limit for a recorded program. It replays a recording under many bandwidths in the
// model of package bandwidth, and compares the results.
//
// A Demand is the CPU time that the program needed, step by step. Demand.Options lists the bandwidths to compare, and
// Demand.TryAll computes an Outcome for each. Cheapest selects the outcome that meets a Target with the smallest
// limit. A Report holds the advice for a group, and a Node computes how many containers fit on a node. Package advise
// does not change any limit.
package advise

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/candor-project/candor/bandwidth"
)

// A Demand is the CPU time that a program needed, step by step.
type Demand struct {
	Step      time.Duration
	CPUs      int             // of the machine
	Hops      int             // number of containers that handle each request in turn, each with this demand; the answer returns through all of them; 0 means 1
	Work      []time.Duration // CPU time that is requested in each step
	Threads   []uint16        // threads that can use it at once
	done      []time.Duration // completion time of each step with work, without a limit
	isDamaged bool            // a step has more use than any machine can have
}

// Bounds of a recording for advice.
const (
	MaxStep  = 100 * time.Millisecond
	maxSteps = 1 << 25 // almost four days at 10 ms
)

// ErrUnfit means that a recording does not suffice for advice: it is too coarse, too long, or without use.
var ErrUnfit = errors.New("no advice from this recording")

// NewDemand returns an empty demand with a length of the steps, for a machine with a number of CPUs.
func NewDemand(step time.Duration, cpus int) (*Demand, error) {
	if step > MaxStep {
		return nil, fmt.Errorf("%w: its interval is %v; must be %v or shorter", ErrUnfit, step, MaxStep)
	}
	return &Demand{Step: step, CPUs: cpus}, nil
}

// maxCPUs is more than the CPUs of any machine.
const maxCPUs = 1 << 16

// Add appends n steps with that many CPUs used in each. Prepare returns an error if a damaged file has impossible
// values.
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

// Prepare computes the threads of the work, and its completion times without a limit.
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

// The kernel charges at its ticks. The use in two steps of 10 ms has an error of up to this number of CPUs.
const tickNoise = 0.25

// findThreads sets the threads of each step to the maximum number of CPUs used at once in the preceding tenth of a
// second.
func (d *Demand) findThreads() {
	d.Threads = make([]uint16, len(d.Work))
	pair := int(max(20*time.Millisecond/d.Step, 1))
	reach := int(max(100*time.Millisecond/d.Step, 1))
	used := make([]float64, len(d.Work)) // CPUs used in the pair of steps that ends here
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

// replay runs the demand on a chain of containers, with a maximum number of threads in each. It calls done for each
// step with work when its answer returns. If used is not nil, replay calls it for each step with the CPU time that
// the first container used. It returns the number of steps whose work was not done in time.
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

// maxTail is the time after the recording's end in which work can still complete. Later work counts as done at its
// end.
const maxTail = time.Minute

// Works returns the number of steps with work. It requires Prepare.
func (d *Demand) Works() int { return len(d.done) }

// Mean returns the mean demand in CPUs.
func (d *Demand) Mean() float64 {
	total := 0.0 // the sum can overflow a Duration
	for _, w := range d.Work {
		total += float64(w)
	}
	return total / float64(d.Step) / float64(max(1, len(d.Work)))
}

// Most returns the maximum number of CPUs that the demand can use at once.
func (d *Demand) Most() int {
	maxCount := 1
	for _, n := range d.Threads {
		maxCount = max(maxCount, int(n))
	}
	return min(maxCount, d.CPUs)
}
