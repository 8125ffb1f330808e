package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/cputext"
)

// A Confinement is a value, of the kernel or of systemd, that confines foreign processes to CPUs outside Candor's groups.
// Tree.Confinements returns all values for a confinement. At is the path of a group below the mount point, or a unit.
type Confinement struct {
	Kind   ConfinementKind `json:"kind"`
	At     string          `json:"at"`
	Before string          `json:"before"` // former value; "" if there was none
	After  string          `json:"after"`
}

// A ConfinementKind is the kind of a Confinement's value.
type ConfinementKind string

const (
	ConfineCPUs        ConfinementKind = "cpuset.cpus"           // a group's CPUs
	ConfineToPartition ConfinementKind = "cpuset.cpus.partition" // v2: "root" takes the group's CPUs away from all other groups
	ConfineProcesses   ConfinementKind = "processes"             // v1: CPUs of a new group for the processes that are in none
	ConfineUnit        ConfinementKind = "AllowedCPUs"           // a unit of systemd's
)

// Confinements returns the values that confine foreign processes to the CPUs of keep, in the order in which they must be set; undo
// uses the reverse order. all are the CPUs of the machine, including offline CPUs. It omits values that are set already, and
// changes nothing.
//
// On v2 Candor's parent group becomes a partition. On v1 every other group shrinks, and the processes of the root get a group of
// their own. If systemd manages the tree, its units are changed, since systemd writes the kernel's files itself.
func (t *Tree) Confinements(keep, all cpuset.Set) ([]Confinement, error) {
	if ownCPUs := all.Minus(keep); ownCPUs.IsEmpty() {
		return nil, fmt.Errorf("cannot reserve %s: the machine has %s, and Candor needs one; reserve fewer", cputext.CPUs(keep), cputext.CPUs(all))
	}
	if have, err := t.rootEffective(); err != nil {
		return nil, err
	} else if !keep.Overlaps(&have) {
		return nil, fmt.Errorf("cannot reserve %s: online are %s; reserve one of these", cputext.CPUs(keep), cputext.CPUs(have))
	}
	switch {
	case t.driver == Systemd:
		return t.confinementsSystemd(keep)
	case t.cpuset.v2:
		return t.confinementsV2(keep, all)
	default:
		return t.confinementsV1(keep)
	}
}

// rootEffective returns the CPUs of processes outside all groups, together with the CPUs of Candor's partition.
func (t *Tree) rootEffective() (cpuset.Set, error) {
	h := t.cpuset
	if ok, _ := isGroup(h.mount); !ok || h.root != "/" {
		return cpuset.Set{}, errors.New("only a part of the machine's groups is visible here; confine foreign processes from the host, not in a container")
	}
	have, err := t.readEffective(h.mount, cpusFile)
	if err != nil || !h.v2 {
		return have, err
	}
	ownCPUs, err := t.readEffective(h.parent, cpusFile)
	if errors.Is(err, fs.ErrNotExist) {
		return have, nil
	}
	return have.Union(ownCPUs), err
}

// addConfinement adds a value that has to change.
func (t *Tree) addConfinement(list []Confinement, kind ConfinementKind, at, after string) ([]Confinement, error) {
	f := Confinement{Kind: kind, At: at, After: after}
	before, err := t.ReadConfinement(f)
	if err != nil || before == after {
		return list, err
	}
	f.Before = before
	return append(list, f), nil
}

// ReadConfinement returns the value that holds now; "" for a group that is not there.
func (t *Tree) ReadConfinement(f Confinement) (string, error) {
	if f.Kind == ConfineUnit {
		return t.unitCPUs(f.At)
	}
	dir, err := t.confinementDir(f)
	if err != nil {
		return "", err
	}
	file := cpusFile
	if f.Kind == ConfineToPartition {
		file = string(ConfineToPartition)
	}
	content, err := read(dir, file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && f.Kind == ConfineToPartition:
		return "member", nil
	case isGone(err):
		return "", nil
	case f.Kind == ConfineToPartition && bytes.Contains(content, []byte("invalid")):
		return "member", err // a group without CPUs of its own has no other kind
	}
	return string(content), err
}

// SetConfinement sets the Before or After of a confinement. A value that is set already, or a group that was removed meanwhile, is no
// error.
func (t *Tree) SetConfinement(f Confinement, value string) error {
	now, err := t.ReadConfinement(f)
	if err != nil {
		return err
	}
	// The processes of a root are never complete: new processes can have arrived.
	again := f.Kind == ConfineProcesses && value == f.After
	if now == value && !again {
		return nil
	}
	if f.Kind == ConfineUnit {
		return t.setUnitCPUs(f.At, value)
	}
	dir, err := t.confinementDir(f)
	if err != nil {
		return err
	}
	if dir == t.cpuset.parent && value == f.After {
		if _, err := t.makeParent(); err != nil {
			return err
		}
	}
	switch f.Kind {
	case ConfineToPartition:
		err = setPartition(dir, value)
	case ConfineProcesses:
		err = t.confineProcessesV1(dir, value)
	default:
		err = t.writeCPUs(dir, value)
	}
	if isGone(err) && value == f.Before {
		return nil // its CPUs went with it
	}
	return err
}

// writeCPUs writes a group's CPUs. "" is "as the group above"; where the kernel refuses that, since the
// group has processes, all CPUs mean the same.
func (t *Tree) writeCPUs(dir, value string) error {
	err := write(dir, cpusFile, value+"\n") // the newline: an empty write would be none
	if value != "" || !errors.Is(err, unix.ENOSPC) {
		return err
	}
	all, err := t.readSet(filepath.Dir(t.proc)+"/sys/devices/system/cpu", "possible")
	if err != nil {
		return err
	}
	return t.writeSet(dir, cpusFile, all)
}

// confinementDir returns the directory of a confinement in the kernel's files. Confinements also come from a file, so an invalid
// confinement is refused.
func (t *Tree) confinementDir(f Confinement) (string, error) {
	kinds := []ConfinementKind{ConfineCPUs, ConfineToPartition, ConfineProcesses}
	if !slices.Contains(kinds, f.Kind) {
		return "", fmt.Errorf("confinement %.40q: must be %s, %s, %s or %s", f.Kind, ConfineCPUs, ConfineToPartition, ConfineProcesses, ConfineUnit)
	}
	if !strings.HasPrefix(f.At, "/") || f.At == "/" || f.At != filepath.Clean(f.At) || strings.ContainsRune(f.At, 0) {
		return "", fmt.Errorf("confinement %s: %.80q is not the path of a group", f.Kind, f.At)
	}
	return t.cpuset.mount + f.At, nil
}

// topGroup is the group directly below the root that Candor's parent is, or is in.
func (t *Tree) topGroup() string {
	path := strings.TrimPrefix(t.cpuset.parent, t.cpuset.mount+"/")
	top, _, _ := strings.Cut(path, "/")
	return "/" + top
}

// otherGroups are the paths of the groups directly below the root without Candor's.
func (t *Tree) otherGroups() ([]string, error) {
	dirs, err := subgroups(t.cpuset.mount)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, dir := range dirs {
		if path := "/" + filepath.Base(dir); path != t.topGroup() {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// ConfinementAnnotations returns the limits of the confinement on this machine.
func (t *Tree) ConfinementAnnotations() []string {
	const boot = "this lasts until the next boot; run candor setup host again then"
	switch {
	case t.driver == Systemd:
		return []string{boot, "kernel threads are not confined, nor are slices that are created later beside these"}
	case t.cpuset.v2:
		return []string{boot, "kernel threads that are bound to a CPU stay there"}
	default:
		return []string{boot, "kernel threads are not confined, nor are groups that are created later beside these"}
	}
}
