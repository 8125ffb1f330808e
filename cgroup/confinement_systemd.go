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

// confinementsSystemd gives every other unit directly below the root (system.slice, user.slice,
// init.scope, …) AllowedCPUs=, until the next boot. Groups there that are no units' are written to.
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
			continue // has no processes
		}
		if list, err = t.addConfinement(list, kind, at, keep.String()); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// unitType is D-Bus' word for units that can have processes.
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

// unitCPUs is a unit's AllowedCPUs; "" if it has none of its own.
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

// setUnitCPUs sets AllowedCPUs until the next boot; "" takes it away.
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

// finishUnitCPUs writes the kernel's file as well: systemd does it some time later, after it has
// given the group the controller; that the kernel refuses to take CPUs away from a group with processes it does not mind.
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
			return err // not running, or without the controller
		}
		if !wait.next() {
			return fmt.Errorf("%s: systemd has accepted %s=%s, but the group has no cpuset", unit, ConfineUnit, set)
		}
	}
}

// callUnit is a call about a unit of a name that can be in a plan.
func (t *Tree) callUnit(unit string, do func(context.Context, *systemd.Conn) error) error {
	if unitType(unit) == "" || strings.ContainsAny(unit, "/\x00") {
		return fmt.Errorf("%.80q is not the name of a slice, scope or service", unit)
	}
	if t.bus == nil {
		return errors.New("systemd does not manage Candor's groups here")
	}
	return t.bus.call(do)
}
