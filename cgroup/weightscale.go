package cgroup

import "math"

// A WeightScale converts the cpu.shares of an OCI configuration to the cpu.weight of cgroup v2, as a container runtime does. The runtimes
// of different versions convert differently.
type WeightScale string

// Weight scales.
const (
	// LinearWeights maps 2 to 1, 1024 to 39 and 262144 to 10000 on a line, as runc and crun did first.
	LinearWeights WeightScale = "linear"
	// QuadraticWeights maps 2 to 1, 1024 to 100 and 262144 to 10000; the exponent is a quadratic function of the logarithm
	// (ConvertCPUSharesToCgroupV2Value in opencontainers/cgroups 0.0.7).
	QuadraticWeights WeightScale = "quadratic"
)

// Weight returns the cpu.weight for cpu.shares. 0 shares are unset and give the kernel's default.
func (s WeightScale) Weight(shares int64) int64 {
	switch {
	case shares == 0:
		return defaultWeightV2
	case shares <= minShares:
		return minWeight
	case shares >= maxShares:
		return maxWeight
	case s == QuadraticWeights:
		l := math.Log2(float64(shares))
		return int64(math.Ceil(math.Pow(10, (l*l+125*l)/612.0-7.0/34.0)))
	default:
		return minWeight + (shares-minShares)*(maxWeight-minWeight)/(maxShares-minShares)
	}
}

// WeightScaleOf returns the scale with which a runtime has converted one of the given cpu.shares to a cpu.weight. ok is false if no scale
// or both scales fit.
func WeightScaleOf(weight int64, shares ...int64) (scale WeightScale, ok bool) {
	fits := func(s WeightScale) (fits bool) {
		for _, n := range shares {
			fits = fits || s.Weight(n) == weight
		}
		return fits
	}
	linear, quadratic := fits(LinearWeights), fits(QuadraticWeights)
	scale = LinearWeights
	if quadratic {
		scale = QuadraticWeights
	}
	return scale, linear != quadratic
}

// RuntimeWeight returns the content of cpu.shares or cpu.weight that a runtime with this scale writes for cpu.shares. 0 shares are unset
// and give the kernel's default. On v1 the scale does not matter.
func (t *Tree) RuntimeWeight(shares int64, scale WeightScale) int64 {
	switch {
	case t.cpu.v2:
		return scale.Weight(shares)
	case shares == 0:
		return defaultShares
	default:
		return min(max(shares, minShares), maxShares)
	}
}

// KernelWeight converts a weight from the scale of Settings.Weight to the content of cpu.shares or cpu.weight.
func (t *Tree) KernelWeight(weight int) int64 { return t.cpu.kernelWeight(weight) }
