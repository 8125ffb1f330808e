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

// A Reservation is CPUs that a foreign group has for itself: the kernel gives them to no group beside it.
type Reservation struct {
	Path string // of the group, from the mount point of the cpuset controller on
	CPUs cpuset.Set
}

// Reservations returns the CPUs that foreign groups have for themselves and that Candor's groups cannot be given:
// on v1 groups with cpuset.cpu_exclusive, on v2 partitions (cpuset.cpus.partition). It reads the groups beside
// Candor's parent and beside each group above it.
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

// siblings returns the folders of the groups beside a group, which need not exist.
func siblings(dir string) ([]string, error) {
	all, err := subgroups(filepath.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return slices.DeleteFunc(all, func(other string) bool { return other == dir }), err
}

// partitionsV2 returns the folders and CPUs of the partitions beside a group.
func (t *Tree) partitionsV2(dir string) (found []Reservation, err error) {
	groups, err := siblings(dir)
	for _, other := range groups {
		kind, err := read(other, string(ConfineToPartition))
		if isGone(err) || err == nil && string(kind) != "root" && string(kind) != "isolated" { // also "root invalid (…)"
			continue
		}
		var cpus cpuset.Set
		if err == nil {
			cpus, err = t.readSet(other, "cpuset.cpus.exclusive.effective") // with the CPUs of partitions nested in it
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

// exclusiveFlags are the v1 files that make a group's CPUs or memory nodes exclusive: the kernel returns EINVAL for a sibling that
// is given some of them (validate_change in kernel/cgroup/cpuset.c).
var exclusiveFlags = map[string]string{cpusFile: "cpuset.cpu_exclusive", memsFile: "cpuset.mem_exclusive"}

// exclusivesV1 returns the folders and CPUs, or memory nodes, of the exclusive groups beside a group.
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

// excludeReservedV1 returns the part of a resource of the group above that a group can have: all of it except the parts of
// exclusive groups beside it. now is the present set of the group. A group that has everything has no exclusive group
// beside it, since the kernel keeps the two apart at any moment.
func (t *Tree) excludeReservedV1(dir, file string, above, now cpuset.Set) (cpuset.Set, error) {
	if above.SubsetOf(&now) {
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
