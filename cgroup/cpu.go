package cgroup

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// cpuState holds the values of the cpu controller of a group, in the kernel's units.
type cpuState struct {
	cfsBandwidth
	weight int64 // cpu.shares or cpu.weight
}

// cfsBandwidth holds the values of the kernel's CFS bandwidth control for a group, in microseconds.
type cfsBandwidth struct {
	quota  int64 // CPU time per period; noQuota: no limit
	period int64
	burst  int64
}

const noQuota = -1

// exceeds reports whether b has a higher ratio of quota to period than c.
func (b cfsBandwidth) exceeds(c cfsBandwidth) bool {
	switch {
	case c.quota == noQuota:
		return false
	case b.quota == noQuota:
		return true
	}
	return product(b.quota, c.period) > product(c.quota, b.period)
}

// product multiplies a quota and a period. The product cannot overflow, because Linux accepts only quotas below 2^44 us and periods of
// up to 1 s.
func product(quota, period int64) uint64 { return uint64(quota) * uint64(period) }

// readCPU reads the group's values of the cpu controller.
func (h *hierarchy) readCPU(dir string) (cpuState, error) {
	if h.v2 {
		return readCPUV2(dir)
	}
	return readCPUV1(dir)
}

// readBandwidth is like readCPU, but does not read the weight.
func (h *hierarchy) readBandwidth(dir string) (cfsBandwidth, error) {
	if h.v2 {
		return readBandwidthV2(dir)
	}
	return readBandwidthV1(dir)
}

// setCPU writes the values of next that differ from the present values.
func (h *hierarchy) setCPU(dir string, next cpuState) error {
	now, err := h.readCPU(dir)
	if err != nil {
		return err
	}
	set := setBandwidthV1
	if h.v2 {
		set = setBandwidthV2
	}
	if err := set(dir, now.cfsBandwidth, next.cfsBandwidth); err != nil {
		return err
	}
	if next.weight != now.weight {
		return h.writeWeight(dir, next.weight)
	}
	return nil
}

// Weights: the default on the scale of Settings.Weight, and the default, minimum and maximum of cpu.shares (v1) and cpu.weight (v2).
const (
	defaultWeight = 1000

	defaultShares, minShares, maxShares   = 1024, 2, 262144
	defaultWeightV2, minWeight, maxWeight = 100, 1, 10000
)

// kernelWeight converts a weight from the scale of Settings.Weight to the scale of the kernel's file.
func (h *hierarchy) kernelWeight(weight int) int64 {
	if weight == 0 {
		weight = defaultWeight
	}
	if h.v2 {
		return scale(weight, defaultWeightV2, minWeight, maxWeight)
	}
	return scale(weight, defaultShares, minShares, maxShares)
}

func scale(weight int, normal, minValue, maxValue int64) int64 {
	weight = min(weight, defaultWeight*int(maxValue)) // so that the product does not overflow
	return min(max((int64(weight)*normal+defaultWeight/2)/defaultWeight, minValue), maxValue)
}

// weightOf converts a weight from the scale of the kernel's file to the scale of Settings.Weight.
func (h *hierarchy) weightOf(kernel int64) int {
	normal := int64(defaultShares)
	if h.v2 {
		normal = defaultWeightV2
	}
	return int((kernel*defaultWeight + normal/2) / normal)
}

// SameWeight reports whether the kernel stores the same value for two weights. The kernel's scale is coarser: on v2, a step is 10 units of
// Settings.Weight.
func (t *Tree) SameWeight(a, b int) bool { return t.cpu.kernelWeight(a) == t.cpu.kernelWeight(b) }

func (h *hierarchy) writeWeight(dir string, weight int64) error {
	if h.v2 {
		return writeInt(dir, "cpu.weight", weight)
	}
	return writeInt(dir, "cpu.shares", weight)
}

// SetQuota changes the quota of a group until the caller restores it; 0 removes the quota. The burst becomes the lower of burst and quota,
// because Linux refuses a quota below the burst. The period does not change. On v1, a lower quota also lowers the quotas of nested groups
// that exceed it. A higher quota also raises the quotas of nested groups that equal the former quota. SetQuota does not change the systemd
// unit: the unit keeps the quota to which the caller later returns. Cgroup v1 refuses a quota that exceeds the quota of an ancestor
// (EINVAL).
func (g *Group) SetQuota(quota, burst time.Duration) error {
	if g.err != nil {
		return g.err
	}
	h, dir := g.tree.cpu, g.dir(g.tree.cpu)
	now, err := h.readBandwidth(dir)
	if err != nil {
		return g.wrap(err)
	}
	next := now
	next.quota, next.burst = noQuota, burst.Microseconds()
	if quota > 0 {
		next.quota, next.burst = quota.Microseconds(), min(burst, quota).Microseconds()
	}
	if h.v2 {
		return g.wrap(setBandwidthV2(dir, now, next))
	}
	return g.wrap(g.quotaCause(setBandwidthV1(dir, now, next), next))
}

// A Bound is the quota of a group, and thus an upper bound for the CPU time of every group nested in the group.
type Bound struct {
	Path          string // path of the group below the mount point; "/" can be the root of a container's cgroup namespace
	Quota, Period time.Duration
}

// Bound returns the tightest bound among a group and its ancestors, or a zero Bound if none of them has a quota. The error for a missing
// group is ErrNoGroup.
func (t *Tree) Bound(path string) (Bound, error) {
	if err := t.checkExists(path); err != nil {
		return Bound{}, err
	}
	bounds, err := t.boundsFrom(path)
	return Tightest(bounds), err
}

// Above returns the tightest bound among a group's ancestors, or a zero Bound if none of them has a quota.
func (g *Group) Above() (Bound, error) {
	bounds, err := g.BoundsAbove()
	return Tightest(bounds), err
}

// BoundsAbove returns the quotas of a group's ancestors, the parent first. Neither the group nor its ancestors need exist. BoundsAbove
// omits groups outside this process's cgroup namespace, because they are not visible.
func (g *Group) BoundsAbove() ([]Bound, error) {
	if g.err != nil {
		return nil, g.err
	}
	return g.tree.boundsFrom(filepath.Dir(g.Path()))
}

// BoundsOfParent returns the quotas of Candor's parent group and of its ancestors, the parent group first.
func (t *Tree) BoundsOfParent() ([]Bound, error) { return t.boundsFrom(t.cpu.pathOf(t.cpu.parent)) }

// Path returns the path of the group, relative to the mount point of the cpu controller.
func (g *Group) Path() string { return g.tree.cpu.pathOf(g.dir(g.tree.cpu)) }

// Tightest returns the bound with the lowest ratio of quota to period, the first of several equal bounds. For an empty list it returns a
// zero Bound.
func Tightest(bounds []Bound) (tightest Bound) {
	for _, b := range bounds {
		if tightest.Quota == 0 || tightest.cfsBandwidth().exceeds(b.cfsBandwidth()) {
			tightest = b
		}
	}
	return tightest
}

func (b Bound) cfsBandwidth() cfsBandwidth {
	return cfsBandwidth{quota: b.Quota.Microseconds(), period: b.Period.Microseconds()}
}

// boundsFrom returns the quotas of the group at path and of its ancestors, the group itself first.
func (t *Tree) boundsFrom(path string) (bounds []Bound, err error) {
	for ; ; path = filepath.Dir(path) {
		b, err := t.cpu.readBandwidth(filepath.Join(t.cpu.mount, path))
		switch {
		case isGone(err): // the group does not exist yet; or on v2 lacks the controller, or is the root group of the machine
		case err != nil:
			return nil, fmt.Errorf("cgroup %s: %w", path, err)
		case b.quota != noQuota:
			bounds = append(bounds, Bound{path, time.Duration(b.quota) * time.Microsecond, time.Duration(b.period) * time.Microsecond})
		}
		if path == "/" {
			return bounds, nil
		}
	}
}

// quotaCause adds the cause to an error of cgroup v1 that refuses a quota (EINVAL): an ancestor group has a lower quota than the
// wanted quota. It returns other errors unchanged, and also this error if no ancestor has a lower quota.
func (g *Group) quotaCause(refusal error, wanted cfsBandwidth) error {
	if g.tree.cpu.v2 || !errors.Is(refusal, unix.EINVAL) {
		return refusal
	}
	above, err := g.Above()
	if err != nil || above.Quota == 0 || wanted.quota == noQuota || !wanted.exceeds(above.cfsBandwidth()) {
		return refusal
	}
	return fmt.Errorf("a quota of %d us per %d us is more than group %s has, %v per %v; raise the quota of that group, or ask for less: %w",
		wanted.quota, wanted.period, above.Path, above.Quota, above.Period, refusal)
}

// A WeightScale converts the cpu.shares of an OCI configuration to the cpu.weight of cgroup v2, as a container runtime does. The runtimes
// of different versions convert differently.
type WeightScale string

// Weight scales.
const (
	// LinearWeights maps 2 to 1, 1024 to 39 and 262144 to 10000 on a line, as runc and crun did first.
	LinearWeights WeightScale = "linear"
	// QuadraticWeights maps 2 to 1, 1024 to 100 and 262144 to 10000; the logarithm of the weight is a quadratic function of the
	// logarithm of the shares (ConvertCPUSharesToCgroupV2Value in opencontainers/cgroups 0.0.7).
	QuadraticWeights WeightScale = "quadratic"
)

// Weight returns the cpu.weight for cpu.shares. Shares of 0 mean that no shares are set, and give the kernel's default.
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

// RuntimeWeight returns the value that a runtime with this scale writes for a container with the given shares: to cpu.weight on v2, to
// cpu.shares on v1. Shares of 0 mean that no shares are set, and give the kernel's default. On v1 the scale does not matter.
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
