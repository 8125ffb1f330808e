package cgroup

import (
	"time"
)

// cpuState holds the values of the cpu controller of a group, in the kernel's units.
type cpuState struct {
	cfsBandwidth
	weight int64 // cpu.shares or cpu.weight
}

// bandwidth is a CFS bandwidth, in microseconds.
type cfsBandwidth struct {
	quota  int64 // none: -1
	period int64
	burst  int64
}

const noQuota = -1

// exceeds reports whether b allows more CPU time per time than c.
func (b cfsBandwidth) exceeds(c cfsBandwidth) bool {
	switch {
	case c.quota == noQuota:
		return false
	case b.quota == noQuota:
		return true
	}
	return product(b.quota, c.period) > product(c.quota, b.period)
}

// product multiplies a quota and a period. It cannot overflow: Linux takes quotas below 2^44 us and periods of up to 1 s.
func product(quota, period int64) uint64 { return uint64(quota) * uint64(period) }

// readCPU reads the values of a group.
func (h *hierarchy) readCPU(dir string) (cpuState, error) {
	if h.v2 {
		return readCPUV2(dir)
	}
	return readCPUV1(dir)
}

// readBandwidth is readCPU without the weight.
func (h *hierarchy) readBandwidth(dir string) (cfsBandwidth, error) {
	if h.v2 {
		return readBandwidthV2(dir)
	}
	return readBandwidthV1(dir)
}

// setCPU writes the values that differ from the present values.
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

// The kernel's two scales of weight.
const (
	defaultWeight = 1000

	defaultShares, minShares, maxShares   = 1024, 2, 262144
	defaultWeightV2, minWeight, maxWeight = 100, 1, 10000
)

// kernelWeight turns a weight into the kernel's.
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
	weight = min(weight, defaultWeight*int(maxValue)) // so that the product fits
	return min(max((int64(weight)*normal+defaultWeight/2)/defaultWeight, minValue), maxValue)
}

// weightOf turns the kernel's weight back.
func (h *hierarchy) weightOf(kernel int64) int {
	normal := int64(defaultShares)
	if h.v2 {
		normal = defaultWeightV2
	}
	return int((kernel*defaultWeight + normal/2) / normal)
}

// SameWeight reports whether two weights are equal for the kernel, whose steps are coarser: multiples of ten on v2.
func (t *Tree) SameWeight(a, b int) bool { return t.cpu.kernelWeight(a) == t.cpu.kernelWeight(b) }

func (h *hierarchy) writeWeight(dir string, weight int64) error {
	if h.v2 {
		return writeInt(dir, "cpu.weight", weight)
	}
	return writeInt(dir, "cpu.shares", weight)
}

// SetQuota sets another quota for a short time; period and burst stay. Nested groups that had the whole quota follow. The unit of
// systemd keeps the granted quota, to which the group returns. Linux refuses (EINVAL) a quota below the burst, and v1 a quota
// above the quota of a parent.
func (g *Group) SetQuota(quota time.Duration) error {
	if g.err != nil {
		return g.err
	}
	h, dir := g.tree.cpu, g.dir(g.tree.cpu)
	now, err := h.readBandwidth(dir)
	if err != nil {
		return g.wrap(err)
	}
	next := now
	next.quota = quota.Microseconds()
	if h.v2 {
		return g.wrap(setBandwidthV2(dir, now, next))
	}
	return g.wrap(g.quotaCause(setBandwidthV1(dir, now, next), next))
}
