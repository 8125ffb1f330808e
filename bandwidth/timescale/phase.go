package timescale

import (
	"math"
	"time"
)

// A Phase is a time in which a group's mean use was about constant and differed from the phases before and after.
type Phase struct {
	From, To time.Duration // since the recording's start
	Mean     float64       // CPUs
}

// Criteria of phases. Five parts explain at most half of the variance of noise.
const (
	levelWindow  = time.Second
	minLevels    = 20   // minimum number of levels of a recording with phases
	partDivisor  = 10   // a phase has at minLength 1/partDivisor of the recording
	maxPhases    = 5    // with more phases, the recording counts as a single phase
	minExplained = 0.8  // minimum share of the variance that the phases' means explain
	minRatio     = 1.5  // minimum ratio of the means of neighbors
	minStep      = 0.02 // minimum difference of the means of neighbors, in CPUs
)

// Phases returns a group's phases. It returns nil if there is only a single phase.
func (g *Group) Phases() []Phase {
	if g.levels == nil || len(g.levels.means) < minLevels {
		return nil
	}
	means := g.levels.means
	for n := 2; n <= maxPhases; n++ {
		ends, rest := splitPhases(means, n)
		if rest > (1-minExplained)*spreadOf(means) {
			continue
		}
		phases := g.phases(ends)
		for i := 1; i < len(phases); i++ {
			low, high := min(phases[i-1].Mean, phases[i].Mean), max(phases[i-1].Mean, phases[i].Mean)
			if high < minRatio*low || high-low < minStep {
				return nil
			}
		}
		return phases
	}
	return nil
}

func (g *Group) phases(ends []int) (list []Phase) {
	step := time.Duration(g.levels.windowsPerMean) * levelWindow
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

// spreadOf returns the sum of the squared distances from the mean.
func spreadOf(values []float64) (sum float64) {
	mean := meanOf(values)
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return sum
}

// splitPhases divides values into n contiguous parts with the smallest squared distances from the parts' means. It returns
// the ends of the parts, and the sum of the squared distances.
func splitPhases(values []float64, n int) (ends []int, rest float64) {
	minLength := max(len(values)/partDivisor, 1)
	sums, squares := make([]float64, len(values)+1), make([]float64, len(values)+1)
	for i, v := range values {
		sums[i+1], squares[i+1] = sums[i]+v, squares[i]+v*v
	}
	spread := func(from, to int) float64 {
		sum := sums[to] - sums[from]
		return max(squares[to]-squares[from]-sum*sum/float64(to-from), 0)
	}
	best := make([]float64, len(values)+1) // smallest sum for the values up to an index, with the present number of parts
	for to := range best {
		best[to] = math.Inf(1)
		if to >= minLength {
			best[to] = spread(0, to)
		}
	}
	from := make([][]int, n) // start of the last part, by number of parts and index
	for part := 1; part < n; part++ {
		next := make([]float64, len(best))
		from[part] = make([]int, len(best))
		for to := range next {
			next[to] = math.Inf(1)
			for at := minLength; at <= to-minLength; at++ {
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

// levels hold the use over time as a bounded number of means, each over the same number of windows.
type levels struct {
	means          []float64
	windowsPerMean int64
	filled         int64 // windows in the current mean
	sum            float64
}

const maxLevels = 128

// push appends n windows.
func (l *levels) push(cpus float64, n int64) {
	for n > 0 {
		take := min(n, l.windowsPerMean-l.filled)
		l.sum += cpus * float64(take)
		l.filled += take
		n -= take
		if l.filled < l.windowsPerMean {
			return
		}
		l.means = append(l.means, l.sum/float64(l.windowsPerMean))
		l.sum, l.filled = 0, 0
		if len(l.means) == maxLevels {
			for i := range maxLevels / 2 {
				l.means[i] = (l.means[2*i] + l.means[2*i+1]) / 2
			}
			l.means = l.means[:maxLevels/2]
			l.windowsPerMean *= 2
		}
	}
}
