package cgroup

import (
	"time"
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

// SameWeight reports whether the kernel stores the same value for two weights. The kernel's steps are coarser: multiples of 10 on v2.
func (t *Tree) SameWeight(a, b int) bool { return t.cpu.kernelWeight(a) == t.cpu.kernelWeight(b) }

func (h *hierarchy) writeWeight(dir string, weight int64) error {
	if h.v2 {
		return writeInt(dir, "cpu.weight", weight)
	}
	return writeInt(dir, "cpu.shares", weight)
}

// SetQuota changes the quota of a group for a short time; 0 removes the quota. The burst becomes the lower of burst and quota, because
// Linux refuses a quota below the burst. The period does not change. On v1, a lower quota also lowers nested groups that exceed it, and a
// higher quota also raises nested groups that have the whole former quota. SetQuota does not change the systemd unit: the unit keeps the
// quota to which the caller later returns. Cgroup v1 refuses a quota above the quota of a group above (EINVAL).
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
