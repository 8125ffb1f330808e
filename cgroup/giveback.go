package cgroup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
)

// CPUSettings are the settings of a group's cpu controller.
type CPUSettings struct {
	CPULimits
	Burst time.Duration
}

// CPUSettings reads the present settings of the group.
func (g *Group) CPUSettings() (s CPUSettings, err error) {
	if g.err != nil {
		return s, g.err
	}
	now, err := g.tree.cpu.readCPU(g.dir(g.tree.cpu))
	if err != nil {
		return s, g.wrap(err)
	}
	return newCPUSettings(now), nil
}

func newCPUSettings(now cpuState) (s CPUSettings) {
	s.Period, s.Burst = time.Duration(now.period)*time.Microsecond, time.Duration(now.burst)*time.Microsecond
	s.Weight = now.weight
	if now.quota != noQuota {
		s.Quota = time.Duration(now.quota) * time.Microsecond
	}
	return s
}

func (s CPUSettings) kernel() (k cpuState) {
	k.quota, k.period, k.burst, k.weight = noQuota, s.Period.Microseconds(), s.Burst.Microseconds(), s.Weight
	if s.Quota != 0 {
		k.quota = s.Quota.Microseconds()
	}
	return k
}

// IsConfined reports whether the group has fewer CPUs, or fewer memory nodes, than its parent.
func (g *Group) IsConfined() (cpus, mems bool, err error) {
	if g.err != nil {
		return false, false, g.err
	}
	if cpus, err = g.isConfined(cpusFile); err == nil {
		mems, err = g.isConfined(memsFile)
	}
	return cpus, mems, g.wrap(err)
}

// EffectiveAbove returns the CPUs and memory nodes that processes in the group's parent can use.
func (g *Group) EffectiveAbove() (cpus, mems cpuset.Set, err error) {
	if g.err != nil {
		return cpus, mems, g.err
	}
	cpus, mems, err = g.tree.readEffectiveSets(g.parentDir())
	return cpus, mems, g.wrap(err)
}

func (g *Group) isConfined(file string) (bool, error) {
	dir := g.dir(g.tree.cpuset)
	now, err := g.tree.readSet(dir, file)
	if err != nil || g.tree.cpuset.v2 && now.IsEmpty() {
		return false, err
	}
	above, err := g.tree.readEffective(filepath.Dir(dir), file)
	return !above.SubsetOf(&now), err
}

// lacksPossibleCPUs reports whether the group on v2 has a list of CPUs without some possible CPU of the machine. Even if the
// group has all CPUs of its parent now, it would not get a CPU that the parent gets later.
func (g *Group) lacksPossibleCPUs() (bool, error) {
	if !g.tree.cpuset.v2 {
		return false, nil
	}
	now, err := g.tree.readSet(g.dir(g.tree.cpuset), cpusFile)
	if err != nil || now.IsEmpty() {
		return false, g.wrap(err)
	}
	possible, err := g.tree.possibleCPUs()
	return !possible.SubsetOf(&now), g.wrap(err)
}

// GiveBack gives a group the settings of its engine, and the CPUs and memory nodes of its parent. It writes only values that differ. If
// systemd has created the group, the properties of the unit change first, because systemd writes them to the kernel's files at each reload.
// A second call completes a call that was interrupted at any point.
//
// On v2 the list of CPUs becomes empty, as without Candor. If the kernel refuses that for a group with processes, the list has all possible
// CPUs of the machine, with the same effect.
func (g *Group) GiveBack(s CPUSettings) error {
	if g.err != nil {
		return g.err
	}
	now, err := g.state()
	if err != nil {
		return g.wrap(err)
	}
	next := s.kernel()
	if idle, err := readInt(g.dir(g.tree.cpu), "cpu.idle"); err == nil && idle == 1 {
		next.weight = now.weight // the kernel refuses a weight for an idle group
	}
	cpus, mems, err := g.IsConfined()
	if err == nil && !cpus {
		cpus, err = g.lacksPossibleCPUs()
	}
	if err != nil {
		return err
	}
	if cpus || mems || next != now.cpuState {
		err = g.giveBackUnit(next)
	}
	if err == nil && mems {
		err = g.inherit(memsFile)
	}
	if err == nil && cpus {
		err = g.inherit(cpusFile)
	}
	if err == nil {
		err = g.quotaCause(g.tree.cpu.setCPU(g.dir(g.tree.cpu), next), next.cfsBandwidth)
	}
	return g.wrap(err)
}

// HasUnreachableUnit reports whether the group can belong to a systemd unit whose properties this process cannot change, for example in a
// pod without systemd's bus. At its next reload, systemd then writes the former settings again.
func (g *Group) HasUnreachableUnit() bool { return g.tree.bus == nil && g.isUnit() }

// giveBackUnit resets the properties of the group's systemd unit, if there is a unit, and waits until systemd has written the files.
func (g *Group) giveBackUnit(next cpuState) error {
	t, unit := g.tree, g.base
	if g.path != "" {
		unit = filepath.Base(g.path)
	}
	if t.bus == nil || !g.usesSystemd() && !g.isUnit() {
		return nil
	}
	next.cfsBandwidth = roundForSystemd(next.cfsBandwidth)
	props := append([]systemd.Property{property("AllowedCPUs", []byte{}), property("AllowedMemoryNodes", []byte{})},
		properties(state{cpuState: cpuState{weight: math.MinInt64}}, state{cpuState: next})...)
	err := t.bus.call(func(ctx context.Context, conn *systemd.Conn) error {
		return conn.SetUnitPropertiesContext(ctx, unit, true, props...)
	})
	if isUnitError(err, "NoSuchUnit") {
		return nil
	}
	if err == nil {
		err = t.bus.flush()
	}
	return err
}

// inherit gives the group and its nested groups the CPUs or memory nodes of the group's parent. On v2 it changes the nested groups before
// the group. After an interruption, a second call thus still finds the unchanged nested groups: their set equals the set of the group.
func (g *Group) inherit(file string) error {
	t, dir := g.tree, g.dir(g.tree.cpuset)
	now, err := t.readSet(dir, file)
	if err != nil {
		return err
	}
	above, err := t.readEffective(filepath.Dir(dir), file)
	if err != nil {
		return err
	}
	if !t.cpuset.v2 {
		return t.moveTo(dir, file, now, above)
	}
	m := nestedMoveV2{tree: t, file: file, old: now, next: above, remainingGroups: maxQuickGroups}
	if err := m.moveBelow(dir); err != nil {
		return err
	}
	if file == cpusFile {
		return t.writeCPUs(dir, "")
	}
	if err = write(dir, file, "\n"); errors.Is(err, unix.ENOSPC) {
		err = t.writeSet(dir, file, above)
	}
	return err
}

// RemoveAnnotation removes the text that SetAnnotation stored, if there is one.
func (g *Group) RemoveAnnotation() error {
	if g.err != nil {
		return g.err
	}
	return annotationMark.remove(g.dir(g.tree.cpu))
}

// remove removes the mark of the group in dir. It does nothing if the group or the mark does not exist.
func (m mark) remove(dir string) error {
	for _, name := range m {
		switch err := unix.Removexattr(dir, name); err {
		case nil, unix.ENODATA, unix.ENOENT, unix.ENODEV, unix.EOPNOTSUPP, unix.EPERM, unix.EACCES:
		default:
			return fmt.Errorf("cgroup %s: remove %s: %w", dir, name, err)
		}
	}
	return nil
}
