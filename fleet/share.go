package fleet

import "math/bits"

// maxResources bounds the further resources of a fleet.
const maxResources = 15

// shareBits is the resolution of the mean free share: two nodes with the same share have the same figure, regardless of their sizes.
const shareBits = 48

// A weigher converts the free resources of nodes with a capacity into the mean free share over the resources: the sum of free amounts times
// weights, divided by whole. A resource with capacity 0 does not count.
type weigher struct {
	cpu     int64
	weights []int64 // of the further resources
	common  int64   // weight of a whole resource, or slightly more
	whole   int64
}

// wholeBits bounds the weighted sums: below 1<<wholeBits.
const wholeBits = 58

// newWeigher finds whole numbers for the weights: with the least common multiple
// of the capacities they are exact. Where that is too large for the sums, a share is
// counted in 2^-54ths.
func newWeigher(cpu int64, capacity []int64) weigher {
	count, common, exact := int64(1), cpu, true
	for _, c := range capacity {
		if c > 0 {
			count++
			common, exact = lcm(common, c, exact)
		}
	}
	if !exact || common > (1<<wholeBits)/count {
		common = 1 << (wholeBits - 4) // there are 1<<4 resources at most
	}
	common *= (1 << wholeBits) / count / common // the keys of the index have the upper bits
	w := weigher{cpu: common / cpu, weights: make([]int64, len(capacity)), common: common, whole: common * count}
	for i, c := range capacity {
		if c > 0 {
			w.weights[i] = common / c
		}
	}
	return w
}

// lcm returns the least common multiple of two numbers, and whether it is that: below 1<<wholeBits.
func lcm(a, b int64, exact bool) (int64, bool) {
	if !exact {
		return 1, false
	}
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	high, low := bits.Mul64(uint64(a/x), uint64(b))
	if high > 0 || low >= 1<<wholeBits {
		return 1, false
	}
	return int64(low), true
}

// weigh returns the weighted sum of amounts.
func (w *weigher) weigh(cpu int64, amounts []int64) int64 {
	sum := cpu * w.cpu
	for i, amount := range amounts {
		sum += amount * w.weights[i]
	}
	return sum
}

// share converts a weighted sum of free resources into the mean share, in units of 2^-shareBits, rounded down.
func (w *weigher) share(sum int64) uint64 {
	high, low := bits.Mul64(uint64(sum), 1<<shareBits)
	share, _ := bits.Div64(high, low, uint64(w.whole))
	return share
}
