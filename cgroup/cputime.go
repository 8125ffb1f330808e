package cgroup

import (
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPULimits are the quota and the weight of a group. They are for groups whose cpuset Candor does not set, such as the group that the
// kubelet creates for a pod.
type CPULimits struct {
	Quota  time.Duration // CPU time per Period; 0: no limit
	Period time.Duration
	Weight int64 // content of cpu.shares or cpu.weight, not on the scale of Settings.Weight
}

// CPULimits reads the CPU limits of the group from the kernel's files.
func (g *Group) CPULimits() (CPULimits, error) {
	if g.err != nil {
		return CPULimits{}, g.err
	}
	now, err := g.tree.cpu.readCPU(g.dir(g.tree.cpu))
	if err != nil {
		return CPULimits{}, g.wrap(err)
	}
	t := CPULimits{Period: time.Duration(now.period) * time.Microsecond, Weight: now.weight}
	if now.quota != noQuota {
		t.Quota = time.Duration(now.quota) * time.Microsecond
	}
	return t, nil
}

// SetCPULimits sets the quota and weight of a group; the period does not change. Nested groups do not change either, so v1 refuses a
// quota below the quota of a nested group (EINVAL). With the systemd driver on v2, SetCPULimits updates the unit of the group first,
// because systemd writes the unit's properties to the files. The unit gets the quota rounded up to systemd's step, and the file gets the
// exact quota.
func (g *Group) SetCPULimits(next CPULimits) error {
	if g.err != nil {
		return g.err
	}
	h, dir := g.tree.cpu, g.dir(g.tree.cpu)
	now, err := h.readCPU(dir)
	if err != nil {
		return g.wrap(err)
	}
	wanted := now
	wanted.quota, wanted.weight = noQuota, next.Weight
	if next.Quota != 0 {
		wanted.quota = next.Quota.Microseconds()
	}
	if h.v2 {
		return g.wrap(g.setCPUTimeV2(now, wanted))
	}
	err = changeV1(dir, quotaV1, now.quota, wanted.quota)
	if err == nil && wanted.weight != now.weight {
		err = h.writeWeight(dir, wanted.weight)
	}
	return g.wrap(err)
}

// setCPUTimeV2 writes the kernel's files. If the group is a unit, setCPUTimeV2 first updates the unit and waits until systemd has written
// the files.
func (g *Group) setCPUTimeV2(now, wanted cpuState) error {
	if g.tree.bus != nil && g.isUnit() {
		rounded := now // the values that systemd has written
		rounded.cfsBandwidth = roundForSystemd(now.cfsBandwidth)
		if err := g.updateUnit(state{cpuState: rounded}, state{cpuState: wanted}); err != nil {
			return err
		}
		if err := g.tree.bus.flush(); err != nil {
			return err
		}
	}
	return g.tree.cpu.setCPU(g.dir(g.tree.cpu), wanted)
}

// Fingerprint returns a text that changes when another program writes the group's quota or weight, or creates or removes a child of the
// group. It is for frequent checks, because reading all values costs several times as much.
func (g *Group) Fingerprint() (string, error) {
	if g.err != nil {
		return "", g.err
	}
	dir, files := g.dir(g.tree.cpu), []string{quotaV1, "cpu.shares"}
	if g.tree.cpu.v2 {
		files = []string{"cpu.max", "cpu.weight"}
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return "", g.wrap(&fs.PathError{Op: "stat", Path: dir, Err: err})
	}
	var text strings.Builder
	// Each child group adds a link to the directory, so the link count changes with the number of children.
	text.WriteString(strconv.FormatUint(uint64(st.Nlink), 10)) //nolint:unconvert // uint32 on arm64
	for _, file := range files {
		content, err := read(dir, file)
		if err != nil {
			return "", g.wrap(err)
		}
		text.WriteString(" " + string(content))
	}
	return text.String(), nil
}

// PodWeight converts a weight on a scale of 1000 per requested CPU to the value that the kubelet writes for a pod with this request. The
// value is 1024 cpu.shares per CPU, or 39 cpu.weight per CPU on v2, both rounded down. Candor uses this scale for pods, because the groups
// of other pods have weights on this scale. (Source: MilliCPUToShares and getCPUWeight in pkg/kubelet/cm of Kubernetes 1.37.)
func (t *Tree) PodWeight(weight int) int64 {
	weight = min(weight, defaultWeight*maxShares) // so that the product does not overflow
	shares := min(max(int64(weight)*defaultShares/defaultWeight, minShares), maxShares)
	if !t.cpu.v2 {
		return shares
	}
	return minWeight + (shares-minShares)*(maxWeight-minWeight)/(maxShares-minShares)
}

// Members returns the names of the group's children, and the number of processes directly in the group. Processes of nested groups do not
// count.
func (g *Group) Members() (nested []string, processes int, err error) {
	if g.err != nil {
		return nil, 0, g.err
	}
	dir := g.dir(g.tree.cpu)
	dirs, err := subgroups(dir)
	if err != nil {
		return nil, 0, g.wrap(err)
	}
	for _, d := range dirs {
		nested = append(nested, filepath.Base(d))
	}
	err = visitProcesses(dir, func(int) (more bool) { processes++; return true })
	return nested, processes, g.wrap(err)
}

// Bandwidth returns the group's quota, period and burst. It returns zeros if the group has no quota, does not exist or lacks the cpu
// controller.
func (g *Group) Bandwidth() (quota, period, burst time.Duration, err error) {
	if g.err != nil {
		return 0, 0, 0, g.err
	}
	b, err := g.tree.cpu.readBandwidth(g.dir(g.tree.cpu))
	switch {
	case isGone(err) || err == nil && b.quota == noQuota:
		return 0, 0, 0, nil
	case err != nil:
		return 0, 0, 0, g.wrap(err)
	}
	micros := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	return micros(b.quota), micros(b.period), micros(b.burst), nil
}
