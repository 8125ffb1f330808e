package timescale

import (
	"math"
	"time"
)

// A Phase is a part of a recording in which the mean use of a group was about constant, and differed from the use in the
// phases before and after.
type Phase struct {
	From, To time.Duration // times since the start of the recording
	Mean     float64       // mean use in CPUs
}

// Criteria of phases. A recording is divided into phases only if the phases' means explain most of the variance of the
// levels (see type levels). For comparison, five parts explain at most half of the variance of random noise.
const (
	levelWindow  = time.Second // window length from which levels are computed
	minLevels    = 20          // minimum number of levels of a recording with phases
	partDivisor  = 10          // a phase has at least 1/partDivisor of the recording
	maxPhases    = 5           // a recording that needs more phases counts as a single phase
	minExplained = 0.8         // minimum share of the variance that the phases' means explain
	minRatio     = 1.5         // minimum ratio of the means of adjacent phases
	minStep      = 0.02        // minimum difference of the means of adjacent phases, in CPUs
)

// Phases divides the recording into the smallest number of phases whose means explain enough of the variance (minExplained). It
// returns nil if the whole recording is a single phase, or if two adjacent phases differ too little.
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

// phases returns the phases that end at the given indexes of levels.
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

// spreadOf returns the sum of the squared differences between the values and their mean.
func spreadOf(values []float64) (sum float64) {
	mean := meanOf(values)
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return sum
}

// splitPhases divides values into n contiguous parts with the smallest sum of squared differences between the values and
// the means of their parts. It returns the ends of the parts, and this sum. The algorithm is dynamic programming over the
// number of parts.
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
	best := make([]float64, len(values)+1) // smallest sum for the values before an index, with the present number of parts
	for to := range best {
		best[to] = math.Inf(1)
		if to >= minLength {
			best[to] = spread(0, to)
		}
	}
	from := make([][]int, n) // start of the last part, by number of parts minus 1 and by index
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

// levels hold the use of a group over time as fewer than maxLevels means (levels), each over the same number of windows.
type levels struct {
	means          []float64 // CPUs
	windowsPerMean int64
	filled         int64   // number of windows in the current mean
	sum            float64 // sum of the CPUs used in these windows
}

const maxLevels = 128

// push appends n windows with the same number of CPUs used. When l.means has maxLevels values,
// push replaces each pair of values by its mean, and from then on a value covers twice as many windows.
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
