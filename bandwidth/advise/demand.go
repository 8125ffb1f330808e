// Package advise finds the CPU limit that a recorded program needs: it replays what
// was recorded under many bandwidths, in the model, and compares what that costs.
package advise

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/candor-project/candor/bandwidth"
)

// A Demand is the CPU time that a program wanted, step by step.
type Demand struct {
	Step    time.Duration
	CPUs    int             // of the machine
	Hops    int             // containers that the work passes, one after the other, and its answer on the way back, each with this demand; 0 is 1
	Work    []time.Duration // CPU time that came up in each step
	Threads []uint16        // that could use it at once
	done    []time.Duration // when the work of each step with work is done without a limit
	wrong   bool            // a step had what no machine has
}

// What a recording must be for advice.
const (
	MaxStep  = 100 * time.Millisecond
	maxSteps = 1 << 25 // almost four days at 10 ms
)

// ErrUnfit is a recording that gives no advice: too coarse, too long, or nothing was used.
var ErrUnfit = errors.New("no advice from this recording")

// NewDemand begins a demand in steps of that length, for a machine with some CPUs.
func NewDemand(step time.Duration, cpus int) (*Demand, error) {
	if step > MaxStep {
		return nil, fmt.Errorf("%w: it has a reading every %v; want %v or finer", ErrUnfit, step, MaxStep)
	}
	return &Demand{Step: step, CPUs: cpus}, nil
}

// mostCPUs is more than any machine has.
const mostCPUs = 1 << 16

// Add appends n steps in each of which that many CPUs were used. What no machine can use, from a file that is wrong,
// is refused by Prepare.
func (d *Demand) Add(cpus float64, n int64) {
	if !(cpus >= 0 && cpus < mostCPUs) {
		d.wrong = true
		return
	}
	work := time.Duration(cpus * float64(d.Step))
	for range min(n, maxSteps+1-int64(len(d.Work))) {
		d.Work = append(d.Work, work)
	}
}

// Prepare says how many threads the work has, and when it is done without a limit.
func (d *Demand) Prepare() error {
	switch {
	case d.wrong:
		return fmt.Errorf("%w: it has steps of less than 0 CPUs, or of more than %d: it is damaged", ErrUnfit, mostCPUs)
	case len(d.Work) > maxSteps:
		return fmt.Errorf("%w: it has more than %d steps of %v; record less, or with a longer --interval", ErrUnfit, maxSteps, d.Step)
	case d.Mean() == 0:
		return fmt.Errorf("%w: nothing was used", ErrUnfit)
	}
	d.findThreads()
	d.done = nil
	free := newChain(max(d.Hops, 1), d.CPUs, bandwidth.Bandwidth{})
	if d.replay(free, d.CPUs, func(at, _ time.Duration) { d.done = append(d.done, at) }, nil) > 0 {
		return fmt.Errorf("%w: %d CPUs are not enough for it: %v after its end some work is not done; want more", ErrUnfit, d.CPUs, patience)
	}
	return nil
}

// The kernel counts at its ticks: two steps of 10 ms together show how many CPUs were used, give or take this much.
const tickNoise = 0.25

// findThreads takes as many threads for a step as CPUs were used at once within the tenth of a second until then.
func (d *Demand) findThreads() {
	d.Threads = make([]uint16, len(d.Work))
	pair := int(max(20*time.Millisecond/d.Step, 1))
	reach := int(max(100*time.Millisecond/d.Step, 1))
	used := make([]float64, len(d.Work)) // CPUs in the steps until this one that make a pair
	sum := time.Duration(0)
	for i, w := range d.Work {
		sum += w
		if i >= pair {
			sum -= d.Work[i-pair]
		}
		used[i] = float64(sum) / float64(d.Step) / float64(min(i+1, pair))
	}
	for i := range d.Threads {
		most := 0.0
		for _, u := range used[max(0, i-reach+1) : min(i+pair, len(used)-1)+1] {
			most = max(most, u)
		}
		d.Threads[i] = uint16(min(max(math.Ceil(most-tickNoise), 1), math.MaxUint16))
	}
}

// replay lets a chain of containers have the demand, with that many threads at most in each. done is called for each step that has
// work, when its answer is back; used, if there is one, with the CPU time that the first container used in each step. It
// returns how much work was not done in time.
func (d *Demand) replay(c chain, threads int, done func(at, work time.Duration), used func(time.Duration)) (unmet int) {
	step, asked := 0, 0
	answered := func(at time.Duration) {
		for d.Work[step] == 0 {
			step++
		}
		done(at, d.Work[step])
		step++
		asked--
	}
	now, before := time.Duration(0), time.Duration(0)
	for i, w := range d.Work {
		if w > 0 {
			c.add(now, w, min(int(d.Threads[i]), threads))
			asked++
		}
		now += d.Step
		c.run(now, answered)
		if used != nil {
			total := c[0].Stat(0).Usage
			used(total - before)
			before = total
		}
	}
	for end := now + patience; asked > 0 && now < end; {
		now += d.Step
		c.run(now, answered)
	}
	unmet = asked
	for asked > 0 {
		answered(now)
	}
	return unmet
}

// patience is how long after the recording's end work may still be done; what is done later counts as done then.
const patience = time.Minute

// Works is how many steps have work, after Prepare.
func (d *Demand) Works() int { return len(d.done) }

// Mean is the mean of the CPUs wanted.
func (d *Demand) Mean() float64 {
	total := 0.0 // a sum of durations may be more than a duration holds
	for _, w := range d.Work {
		total += float64(w)
	}
	return total / float64(d.Step) / float64(max(1, len(d.Work)))
}

// Most is how many CPUs the demand could use at once.
func (d *Demand) Most() int {
	most := 1
	for _, n := range d.Threads {
		most = max(most, int(n))
	}
	return min(most, d.CPUs)
}
