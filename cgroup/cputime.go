package cgroup

import (
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPULimits are the values of the cpu controller for a group whose cpuset Candor does not set, such as a pod's group from the
// kubelet.
type CPULimits struct {
	Quota  time.Duration // per Period; 0: none
	Period time.Duration
	Weight int64 // cpu.shares or cpu.weight, as the kernel has it
}

// CPULimits reads a group's.
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

// SetCPULimits sets the quota and weight of a group; its period stays. Nested groups do not change, so v1 refuses (EINVAL) a quota
// below a nested quota. If systemd manages Candor's groups, the unit of a slice is updated first: its properties own the files. The
// unit's quota is rounded up, the file has the exact quota.
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

// setCPUTimeV2 writes the files after systemd has written them, since the group can be a unit.
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

// Fingerprint returns a text that changes when another program writes the group's quota or weight, or creates or removes a group in
// it. It is for frequent checks: reading all values costs several times as much.
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
	text.WriteString(strconv.FormatUint(uint64(st.Nlink), 10)) // a folder more for each group in it
	for _, file := range files {
		content, err := read(dir, file)
		if err != nil {
			return "", g.wrap(err)
		}
		text.WriteString(" " + string(content))
	}
	return text.String(), nil
}

// PodWeight turns a weight (1000 is a CPU's worth) into the kernel's on the kubelet's scale, on which the
// groups of other pods have theirs: 1024 cpu.shares a CPU, which on v2 are only 39 of cpu.weight, both rounded down
// (MilliCPUToShares and getCPUWeight in pkg/kubelet/cm of Kubernetes 1.37).
func (t *Tree) PodWeight(weight int) int64 {
	weight = min(weight, defaultWeight*maxShares) // so that the product fits
	shares := min(max(int64(weight)*defaultShares/defaultWeight, minShares), maxShares)
	if !t.cpu.v2 {
		return shares
	}
	return minWeight + (shares-minShares)*(maxWeight-minWeight)/(maxShares-minShares)
}

// Members returns the names of the groups directly below a group, and the number of processes in the group itself.
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

// The functions below read groups of any owner. They only need the right to read.

// Bandwidth returns a group's quota per period, and its burst; zeros without a quota, or if the cpu controller does not have the
// group.
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
