package fleet

import "math/bits"

// maxResources is the maximum number of resources of a fleet besides CPU.
const maxResources = 15

// shareBits is the number of fraction bits of a mean free share. The share is rounded to this number of bits, so that nodes of different
// sizes with the same share have equal values.
const shareBits = 48

// A weigher computes the mean free share of a node over its resources: the sum of free amounts times weights, divided by whole. A resource
// with capacity 0 does not count.
type weigher struct {
	cpu     int64   // weight of a milli-CPU
	weights []int64 // weight of a unit of each further resource
	common  int64   // weighted sum of the whole capacity of one resource, or slightly more
	whole   int64   // weighted sum of the whole capacity of all resources
}

// wholeBits limits weighted sums to at most 1<<wholeBits.
const wholeBits = 58

// newWeigher computes integer weights from the least common multiple of the capacities, so that the sums are exact. If the multiple is too
// large, newWeigher rounds the weights down: the capacity of each resource then has about the same weighted sum.
func newWeigher(cpu int64, capacity []int64) weigher {
	count, common, exact := int64(1), cpu, true
	for _, c := range capacity {
		if c > 0 {
			count++
			common, exact = lcm(common, c, exact)
		}
	}
	if !exact || common > (1<<wholeBits)/count {
		common = 1 << (wholeBits - 4) // because there are at most 1<<4 resources
	}
	common *= (1 << wholeBits) / count / common // scale up to use all wholeBits
	w := weigher{cpu: common / cpu, weights: make([]int64, len(capacity)), common: common, whole: common * count}
	for i, c := range capacity {
		if c > 0 {
			w.weights[i] = common / c
		}
	}
	return w
}

// lcm returns the least common multiple of a and b. It returns false if the multiple is not below 1<<wholeBits, or if exact is false.
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

// weigh returns the weighted sum of cpu and the amounts of the further resources.
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
