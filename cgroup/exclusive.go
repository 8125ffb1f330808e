package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/candor-project/candor/cpuset"
)

// A Reservation is the set of CPUs that are exclusive to a foreign group: the kernel does not allow these CPUs in the group's siblings.
// (Not to be confused with CPUs that Candor reserves for a container.)
type Reservation struct {
	Path string // path of the group below the mount point of the cpuset controller
	CPUs cpuset.Set
}

// Reservations returns the CPUs that Candor's groups cannot have because they are exclusive to foreign groups. On v1 these groups have
// cpuset.cpu_exclusive; on v2 they are partitions (cpuset.cpus.partition). Reservations reads the siblings of Candor's parent group and
// of each group above the parent group.
func (t *Tree) Reservations() ([]Reservation, error) {
	h := t.cpuset
	var all []Reservation
	for dir := h.parent; dir != h.mount; dir = filepath.Dir(dir) {
		read := t.partitionsV2
		if !h.v2 {
			read = func(dir string) ([]Reservation, error) { return t.exclusivesV1(dir, cpusFile) }
		}
		found, err := read(dir)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			r.Path = h.pathOf(r.Path)
			all = append(all, r)
		}
	}
	return all, nil
}

// siblings returns the folders of the siblings of the group in dir. The group need not exist.
func siblings(dir string) ([]string, error) {
	all, err := subgroups(filepath.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return slices.DeleteFunc(all, func(other string) bool { return other == dir }), err
}

// partitionsV2 returns the CPUs of the siblings of a group that are valid partitions. Path is the folder of the sibling.
func (t *Tree) partitionsV2(dir string) (found []Reservation, err error) {
	groups, err := siblings(dir)
	for _, other := range groups {
		kind, err := read(other, string(ConfineToPartition))
		if isGone(err) || err == nil && string(kind) != "root" && string(kind) != "isolated" { // not "root invalid (…)" either
			continue
		}
		var cpus cpuset.Set
		if err == nil {
			cpus, err = t.readSet(other, "cpuset.cpus.exclusive.effective") // includes the CPUs of nested partitions
		}
		if errors.Is(err, fs.ErrNotExist) { // Linux before 6.7
			cpus, err = t.readEffective(other, cpusFile)
		}
		if err != nil && !isGone(err) {
			return nil, err
		}
		if !cpus.IsEmpty() {
			found = append(found, Reservation{other, cpus})
		}
	}
	return found, err
}

// exclusiveFlags maps the file of a resource to the v1 file that makes the group's part of the resource exclusive. A write that would give
// a sibling a part of an exclusive resource fails with EINVAL (validate_change in kernel/cgroup/cpuset.c).
var exclusiveFlags = map[string]string{cpusFile: "cpuset.cpu_exclusive", memsFile: "cpuset.mem_exclusive"}

// exclusivesV1 returns the exclusive CPUs, or for memsFile the exclusive memory nodes, of the siblings of a group. Path is the folder of
// the sibling.
func (t *Tree) exclusivesV1(dir, file string) (found []Reservation, err error) {
	groups, err := siblings(dir)
	for _, other := range groups {
		flag, err := readInt(other, exclusiveFlags[file])
		var set cpuset.Set
		if err == nil && flag != 0 {
			set, err = t.readSet(other, file)
		}
		if err != nil && !isGone(err) {
			return nil, err
		}
		if !set.IsEmpty() {
			found = append(found, Reservation{other, set})
		}
	}
	return found, err
}

// excludeReservedV1 returns the part of a resource that the group in dir can have: the set of the group above without the exclusive sets of
// siblings. above is the set of the group above, and now is the group's present set.
func (t *Tree) excludeReservedV1(dir, file string, above, now cpuset.Set) (cpuset.Set, error) {
	if above.SubsetOf(&now) { // the group has everything, so no sibling can have an exclusive part
		return above, nil
	}
	exclusives, err := t.exclusivesV1(dir, file)
	if err != nil {
		return above, err
	}
	remaining := above
	for _, r := range exclusives {
		remaining = remaining.Minus(r.CPUs)
	}
	if remaining.IsEmpty() && !above.IsEmpty() {
		return remaining, fmt.Errorf("cgroup %s: %s: %w: all of %s is exclusive to %s (%s=1); clear that flag, or give it fewer",
			dir, file, ErrUnavailable, above, strings.Join(reservedPaths(exclusives), ", "), exclusiveFlags[file])
	}
	return remaining, nil
}

func reservedPaths(reservations []Reservation) (dirs []string) {
	for _, r := range reservations {
		dirs = append(dirs, r.Path)
	}
	return dirs
}
