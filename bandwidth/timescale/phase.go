package timescale

import (
	"math"
	"time"
)

// A Phase is a time in which a group used about equally much on average, other than before and after it.
type Phase struct {
	From, To time.Duration // since the recording's start
	Mean     float64       // CPUs
}

// What makes phases. Noise that is cut into five parts is explained by them to a half at most.
const (
	levelWindow = time.Second
	leastLevels = 20   // in a recording that may have phases
	leastPart   = 10   // a phase has a tenth of the recording at least
	mostPhases  = 5    // or it is called one
	explained   = 0.8  // of the variance, by the phases' means
	leastRatio  = 1.5  // between the means of neighbours
	leastStep   = 0.02 // CPUs between them
)

// Phases are a group's phases; nil where it has only one.
func (g *Group) Phases() []Phase {
	if g.levels == nil || len(g.levels.means) < leastLevels {
		return nil
	}
	means := g.levels.means
	for n := 2; n <= mostPhases; n++ {
		ends, rest := cut(means, n)
		if rest > (1-explained)*spreadOf(means) {
			continue
		}
		phases := g.phases(ends)
		for i := 1; i < len(phases); i++ {
			low, high := min(phases[i-1].Mean, phases[i].Mean), max(phases[i-1].Mean, phases[i].Mean)
			if high < leastRatio*low || high-low < leastStep {
				return nil
			}
		}
		return phases
	}
	return nil
}

func (g *Group) phases(ends []int) (list []Phase) {
	step := time.Duration(g.levels.each) * levelWindow
	from := 0
	for _, end := range ends {
		to := g.From + time.Duration(end)*step
		if end == len(g.levels.means) {
			to = g.To
		}
		list = append(list, Phase{g.From + time.Duration(from)*step, to, meanOf(g.levels.means[from:end])})
		from = end
	}
	return list
}

func meanOf(values []float64) (mean float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	return mean
}

// spreadOf is the sum of the squares of the distances from the mean.
func spreadOf(values []float64) (sum float64) {
	mean := meanOf(values)
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return sum
}

// cut cuts values into n parts, in their order, so that they are nearest to the means of their parts. It returns where the
// parts end, and the spread that is left in them.
func cut(values []float64, n int) (ends []int, rest float64) {
	least := max(len(values)/leastPart, 1)
	sums, squares := make([]float64, len(values)+1), make([]float64, len(values)+1)
	for i, v := range values {
		sums[i+1], squares[i+1] = sums[i]+v, squares[i]+v*v
	}
	spread := func(from, to int) float64 {
		sum := sums[to] - sums[from]
		return max(squares[to]-squares[from]-sum*sum/float64(to-from), 0)
	}
	best := make([]float64, len(values)+1) // of the values until there, in as many parts as by now
	for to := range best {
		best[to] = math.Inf(1)
		if to >= least {
			best[to] = spread(0, to)
		}
	}
	from := make([][]int, n) // where the last of so many parts begins
	for part := 1; part < n; part++ {
		next := make([]float64, len(best))
		from[part] = make([]int, len(best))
		for to := range next {
			next[to] = math.Inf(1)
			for at := least; at <= to-least; at++ {
				if sum := best[at] + spread(at, to); sum < next[to] {
					next[to], from[part][to] = sum, at
				}
			}
		}
		best = next
	}
	ends = make([]int, n)
	for part, to := n-1, len(values); part >= 0; part-- {
		ends[part] = to
		if part > 0 {
			to = from[part][to]
		}
	}
	return ends, best[len(values)]
}

// levels are the use over time in a bounded number of means, each of as many windows as it takes.
type levels struct {
	means  []float64
	each   int64
	filled int64 // windows in the mean that is being made
	sum    float64
}

const maxLevels = 128

// push appends n windows.
func (l *levels) push(cpus float64, n int64) {
	for n > 0 {
		take := min(n, l.each-l.filled)
		l.sum += cpus * float64(take)
		l.filled += take
		n -= take
		if l.filled < l.each {
			return
		}
		l.means = append(l.means, l.sum/float64(l.each))
		l.sum, l.filled = 0, 0
		if len(l.means) == maxLevels {
			for i := range maxLevels / 2 {
				l.means[i] = (l.means[2*i] + l.means[2*i+1]) / 2
			}
			l.means = l.means[:maxLevels/2]
			l.each *= 2
		}
	}
}
