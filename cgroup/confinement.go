package cgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/cputext"
)

// A Confinement is a change of one value, in a file of the kernel or in a property of systemd. To confine foreign processes to CPUs
// outside Candor's groups, Candor makes all the changes that Tree.Confinements returns.
type Confinement struct {
	Kind   ConfinementKind `json:"kind"`
	At     string          `json:"at"`     // path of the changed group below the mount point, or for ConfineUnit the name of a unit
	Before string          `json:"before"` // former value; "" if there was none
	After  string          `json:"after"`  // value that confines
}

// A ConfinementKind is the file or property that a Confinement changes.
type ConfinementKind string

// Kinds of confinements.
const (
	ConfineCPUs        ConfinementKind = "cpuset.cpus"           // a group's CPUs
	ConfineToPartition ConfinementKind = "cpuset.cpus.partition" // v2: "root" takes the group's CPUs away from all other groups
	ConfineProcesses   ConfinementKind = "processes"             // v1: CPUs of a new group, to which the processes of the root group move
	ConfineUnit        ConfinementKind = "AllowedCPUs"           // AllowedCPUs of a systemd unit
)

// Confinements returns the changes that confine foreign processes to the CPUs of keep. It does not make the changes, and omits
// values that are set already. The caller makes the changes in the returned order, and undoes them in the reverse order. The
// argument all holds the CPUs of the machine, including offline CPUs.
//
// On v2 Candor's parent group becomes a partition. On v1 every other group loses the CPUs that are not in keep, and the processes of the
// root group move to a new group. With the systemd driver, the changes are properties of units, because systemd writes the kernel's files
// itself.
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

// rootEffective returns the effective CPUs of the root group. On v2 it adds the CPUs of Candor's partition, which the kernel has taken
// from the root group.
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

// addConfinement appends a change to the list, unless the present value is the wanted value (after) already.
func (t *Tree) addConfinement(list []Confinement, kind ConfinementKind, at, after string) ([]Confinement, error) {
	f := Confinement{Kind: kind, At: at, After: after}
	before, err := t.ReadConfinement(f)
	if err != nil || before == after {
		return list, err
	}
	f.Before = before
	return append(list, f), nil
}

// ReadConfinement returns the present value in the file or property that f changes; "" if the group does not exist.
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
		return "member", err // an invalid partition acts as a member
	}
	return string(content), err
}

// SetConfinement writes a value to the file or property that f changes: f.After to confine, f.Before to undo. It returns no error if the
// value is set already, or if the undo finds that the group was removed meanwhile.
func (t *Tree) SetConfinement(f Confinement, value string) error {
	now, err := t.ReadConfinement(f)
	if err != nil {
		return err
	}
	// Confine the processes of the root group again: new processes can have started there since the last time.
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
		return nil // the removal of the group has undone the change
	}
	return err
}

// writeCPUs writes a group's CPUs. "" means the CPUs of the group's parent. If the group has processes, the kernel can refuse an empty
// list; then writeCPUs writes all possible CPUs of the machine, which has the same effect.
func (t *Tree) writeCPUs(dir, value string) error {
	err := write(dir, cpusFile, value+"\n") // with a newline, because write(2) of 0 bytes changes nothing
	if value != "" || !errors.Is(err, unix.ENOSPC) {
		return err
	}
	all, err := t.possibleCPUs()
	if err != nil {
		return err
	}
	return t.writeSet(dir, cpusFile, all)
}

// possibleCPUs returns the CPUs that the machine can have.
func (t *Tree) possibleCPUs() (cpuset.Set, error) {
	return t.readSet(filepath.Dir(t.proc)+"/sys/devices/system/cpu", "possible")
}

// confinementDir returns the folder of the group that f changes. It returns an error for an invalid confinement, because callers also
// read confinements from a file.
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

// topGroup returns the path of the top-level group, directly below the root group, that contains Candor's parent group. If the
// parent group is directly below the root group, topGroup returns the parent group's path.
func (t *Tree) topGroup() string {
	path := strings.TrimPrefix(t.cpuset.parent, t.cpuset.mount+"/")
	top, _, _ := strings.Cut(path, "/")
	return "/" + top
}

// otherGroups returns the paths of the groups directly below the root group, except topGroup.
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

// ConfinementCaveats returns texts for the user on the restrictions of a confinement on this machine.
func (t *Tree) ConfinementCaveats() []string {
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

// confinementsSystemd returns the changes of Confinements for the systemd driver. Every unit directly below the root group
// (system.slice, user.slice, init.scope, …), except Candor's slice, gets AllowedCPUs= until the next boot. A group there that does not
// belong to a unit gets cpuset.cpus.
func (t *Tree) confinementsSystemd(keep cpuset.Set) ([]Confinement, error) {
	groups, err := t.otherGroups()
	if err != nil {
		return nil, err
	}
	var list []Confinement
	for _, group := range groups {
		kind, at := ConfineCPUs, group
		switch unit := group[1:]; {
		case unitType(unit) != "":
			kind, at = ConfineUnit, unit
		case filepath.Ext(unit) == ".mount", filepath.Ext(unit) == ".swap":
			continue // such a unit has no processes
		}
		if list, err = t.addConfinement(list, kind, at, keep.String()); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// unitType returns the D-Bus interface name of a unit's type, such as "Slice", or "" if such units cannot have processes.
func unitType(unit string) string {
	switch filepath.Ext(unit) {
	case ".slice":
		return "Slice"
	case ".scope":
		return "Scope"
	case ".service":
		return "Service"
	}
	return ""
}

// unitCPUs returns the AllowedCPUs of a unit; "" if the property is not set.
func (t *Tree) unitCPUs(unit string) (string, error) {
	var mask []byte
	err := t.callUnit(unit, func(ctx context.Context, conn *systemd.Conn) error {
		p, err := conn.GetUnitTypePropertyContext(ctx, unit, unitType(unit), string(ConfineUnit))
		if err != nil {
			return err
		}
		return p.Value.Store(&mask)
	})
	if err != nil {
		return "", fmt.Errorf("cannot read %s of %s from systemd: %w", ConfineUnit, unit, err)
	}
	var set cpuset.Set
	for i, b := range mask {
		for bit := range 8 {
			if b&(1<<bit) != 0 && i*8+bit < cpuset.Max {
				set.Add(i*8 + bit)
			}
		}
	}
	return set.String(), nil
}

// setUnitCPUs sets the AllowedCPUs of a unit until the next boot. "" resets the property.
func (t *Tree) setUnitCPUs(unit, value string) error {
	set, err := cpuset.Parse(value)
	if err != nil {
		return err
	}
	mask := []byte{}
	if !set.IsEmpty() {
		mask = bitmap(set)
	}
	err = t.callUnit(unit, func(ctx context.Context, conn *systemd.Conn) error {
		return conn.SetUnitPropertiesContext(ctx, unit, true, property(string(ConfineUnit), mask))
	})
	if err != nil {
		return fmt.Errorf("cannot set %s of %s: %w", ConfineUnit, unit, err)
	}
	return t.finishUnitCPUs(unit, set)
}

// finishUnitCPUs writes the CPUs of a unit to the kernel's file as well. systemd writes the file later, after it has enabled the cpuset
// controller for the group, and ignores a refusal by the kernel. finishUnitCPUs waits for the controller and returns the refusal.
func (t *Tree) finishUnitCPUs(unit string, set cpuset.Set) error {
	dir := filepath.Join(t.cpuset.mount, unit)
	wait := newWait(t.remainingTime(removeTimeout))
	for {
		now, err := t.readSet(dir, cpusFile)
		if err == nil && now != set {
			err = t.writeCPUs(dir, set.String())
		}
		if !isGone(err) {
			return err
		}
		if ok, err := isGroup(dir); !ok || err != nil || set.IsEmpty() {
			return err // the unit does not run, or the property was reset
		}
		if !wait.next() {
			return fmt.Errorf("%s: systemd has accepted %s=%s, but the group has no cpuset", unit, ConfineUnit, set)
		}
	}
}

// callUnit makes a call to systemd about a unit. It refuses an invalid name, because the name can come from a file.
func (t *Tree) callUnit(unit string, do func(context.Context, *systemd.Conn) error) error {
	if unitType(unit) == "" || strings.ContainsAny(unit, "/\x00") {
		return fmt.Errorf("%.80q is not the name of a slice, scope or service", unit)
	}
	if t.bus == nil {
		return errors.New("systemd does not manage Candor's groups here")
	}
	return t.bus.call(do)
}
