package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/candor-project/candor/cpuset"
)

// confinementsV2 makes Candor's parent a partition: its CPUs are then taken from the root, and with it from
// every other group, from processes in no group and from kernel threads that are not bound.
// The kernel refuses that while another group names some of them.
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
		if errors.Is(err, fs.ErrNotExist) { // without the controller
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

// setPartition changes the partition type of a group. The kernel accepts the write in any case, and reports the result and the
// reason afterwards.
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
