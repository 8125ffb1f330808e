package cgroup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	systemd "github.com/coreos/go-systemd/v22/dbus"

	"github.com/candor-project/candor/cpuset"
)

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
