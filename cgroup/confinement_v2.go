package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/candor-project/candor/cpuset"
)

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

// setPartition changes the partition type of a group. The kernel accepts the write in any case. Whether the partition is valid, and the
// reason if it is not, are in the file afterwards.
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
