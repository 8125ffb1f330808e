package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/procfs"
)

// othersSuffixV1 ends the name of the new group to which the processes of the root group move. The name begins with topGroup.
const othersSuffixV1 = "-others"

// confinementsV1 returns the changes of Confinements on v1. The first changes shrink the other groups from the bottom up, because
// v1 refuses to take a CPU from a group while a child has the CPU. The last change moves the processes of the root group to a new
// group, because the CPUs of the root group cannot be changed.
func (t *Tree) confinementsV1(keep cpuset.Set) ([]Confinement, error) {
	groups, err := t.otherGroups()
	if err != nil {
		return nil, err
	}
	othersGroup := t.topGroup() + othersSuffixV1
	var list []Confinement
	for _, group := range groups {
		if group == othersGroup {
			continue
		}
		if list, err = t.shrinkV1(list, group, keep); err != nil {
			return nil, err
		}
	}
	have, err := t.readEffective(t.cpuset.mount, cpusFile)
	if err != nil {
		return nil, err
	}
	f := Confinement{Kind: ConfineProcesses, At: othersGroup, After: keep.Intersect(have).String()}
	if f.Before, err = t.ReadConfinement(f); err != nil {
		return nil, err
	}
	hasMovable, err := anyProcess(t.cpuset.mount, isMovable)
	if err != nil {
		return nil, err
	}
	if f.Before != f.After || hasMovable {
		list = append(list, f)
	}
	return list, nil
}

// shrinkV1 appends the changes that remove all CPUs except the set keep from a group and its nested groups. Nested groups come first. A
// group that would lose all its CPUs gets the whole set keep.
func (t *Tree) shrinkV1(list []Confinement, group string, keep cpuset.Set) ([]Confinement, error) {
	nested, err := subgroups(t.cpuset.mount + group)
	if err != nil {
		return list, err
	}
	now, err := t.readSet(t.cpuset.mount+group, cpusFile)
	if err != nil || now.IsEmpty() {
		return list, err // an empty cpuset is not set up yet, and has no processes
	}
	remaining := now.Intersect(keep)
	if remaining.IsEmpty() {
		remaining = keep
	}
	for _, dir := range nested {
		if list, err = t.shrinkV1(list, strings.TrimPrefix(dir, t.cpuset.mount), remaining); err != nil {
			return list, err
		}
	}
	return t.addConfinement(list, ConfineCPUs, group, remaining.String())
}

// confineProcessesV1 creates the group in dir with some CPUs, and moves the processes of the root group to it. If cpus is "", it moves the
// processes back and removes the group.
func (t *Tree) confineProcessesV1(dir, cpus string) error {
	root := t.cpuset.mount
	if cpus == "" {
		if err := moveAll(dir, root); err != nil {
			return err
		}
		return os.Remove(dir)
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := t.inheritCpusetV1(dir); err != nil {
		return err
	}
	if err := write(dir, cpusFile, cpus); err != nil {
		return err
	}
	return moveAll(root, dir)
}

// moveAll moves the processes of a group to another group until no movable process remains. Kernel threads stay: some are bound to their
// CPU or memory node, and the kernel refuses to move others.
func moveAll(source, target string) error {
	var failed error
	for range 100 { // each pass leaves fewer processes: children of moved processes start in the target
		pids, err := processesIn(source)
		if err != nil {
			return err
		}
		moved := 0
		failed = nil
		for _, pid := range pids {
			if !isMovable(pid) {
				continue
			}
			switch err := attach(target, pid); {
			case err == nil:
				moved++
			case !errors.Is(err, unix.ESRCH):
				failed = fmt.Errorf("process %d: %w", pid, err)
			}
		}
		if moved == 0 {
			return failed
		}
	}
	return errline.Join(fmt.Errorf("%s: processes start faster than they can be moved", source), failed)
}

// isMovable reports whether a process can be moved: it is not a kernel thread, has not ended, and has an ID in this PID namespace.
func isMovable(pid int) bool {
	stat, err := procfs.ReadStat(pid)
	return err == nil && !stat.IsKernelThread()
}

// confinementsV2 returns the changes of Confinements on v2. They make Candor's parent group a partition. The kernel then takes the CPUs of
// the partition from the root group, from every other group and from kernel threads that are not bound to a CPU. It refuses the
// partition while the cpuset.cpus of another group contains one of these CPUs, so the changes shrink such groups first.
func (t *Tree) confinementsV2(keep, all cpuset.Set) ([]Confinement, error) {
	ownGroup := t.topGroup()
	if t.cpuset.mount+ownGroup != t.cpuset.parent {
		return nil, fmt.Errorf("cgroup %s: only a group directly below the root can be a partition", t.cpuset.parent)
	}
	groups, err := t.otherGroups()
	if err != nil {
		return nil, err
	}
	var list []Confinement
	for _, group := range groups {
		cpus, err := t.readSet(t.cpuset.mount+group, cpusFile)
		if errors.Is(err, fs.ErrNotExist) { // the group lacks the controller
			continue
		}
		if err != nil {
			return nil, err
		}
		if cpus.IsEmpty() || cpus.SubsetOf(&keep) {
			continue
		}
		remaining := cpus.Intersect(keep)
		if remaining.IsEmpty() {
			remaining = keep
		}
		if list, err = t.addConfinement(list, ConfineCPUs, group, remaining.String()); err != nil {
			return nil, err
		}
	}
	if list, err = t.addConfinement(list, ConfineCPUs, ownGroup, all.Minus(keep).String()); err != nil {
		return nil, err
	}
	return t.addConfinement(list, ConfineToPartition, ownGroup, "root")
}

// setPartition changes the partition type of a group. The kernel accepts the write in any case. Afterwards the file shows whether
// the partition is valid, and the reason if it is not.
func setPartition(dir, value string) error {
	const file = string(ConfineToPartition)
	if err := write(dir, file, value); err != nil {
		return err
	}
	current, err := read(dir, file)
	if err != nil || string(current) == value {
		return err
	}
	reason := strings.TrimPrefix(string(current), value+" invalid")
	return fmt.Errorf("%s/%s: the kernel refuses the partition:%s", dir, file, reason)
}
