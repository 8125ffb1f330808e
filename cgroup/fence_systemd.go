package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	systemd "github.com/coreos/go-systemd/v22/dbus"

	"github.com/candor-project/candor/cpuset"
)

// The units directly below the root that every machine has, or may have later.
var topUnits = []string{"init.scope", "system.slice", "user.slice", "machine.slice"}

// fencesSystemd gives every other unit directly below the root AllowedCPUs=, until
// the next boot. Groups there that are no units' are written to.
func (t *Tree) fencesSystemd(keep cpuset.Set) ([]Fence, error) {
	groups, err := t.otherGroups()
	if err != nil {
		return nil, err
	}
	units := slices.Clone(topUnits)
	var fences []Fence
	for _, group := range groups {
		switch name := group[1:]; {
		case unitType(name) != "":
			units = append(units, name)
		case filepath.Ext(name) == ".mount", filepath.Ext(name) == ".swap":
			// has no processes
		default:
			if fences, err = t.fence(fences, FenceCPUs, group, keep.String()); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(units)
	for _, unit := range slices.Compact(units) {
		if "/"+unit == t.topGroup() {
			continue
		}
		if fences, err = t.fence(fences, FenceUnit, unit, keep.String()); err != nil {
			return nil, err
		}
	}
	return fences, nil
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
		p, err := conn.GetUnitTypePropertyContext(ctx, unit, unitType(unit), string(FenceUnit))
		if err != nil {
			return err
		}
		return p.Value.Store(&mask)
	})
	if err != nil {
		return "", fmt.Errorf("ask systemd for %s of %s: %w", FenceUnit, unit, err)
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

// setUnitCPUs sets AllowedCPUs until the next boot; "" takes it away. systemd writes the
// kernel's file some time later: a fence stands when that has happened.
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
		return conn.SetUnitPropertiesContext(ctx, unit, true, property(string(FenceUnit), mask))
	})
	if err != nil {
		return fmt.Errorf("set %s of %s: %w", FenceUnit, unit, err)
	}
	wait := newWait(removeTimeout)
	for {
		now, err := readSet(filepath.Join(t.cpuset.mount, unit), cpusFile)
		if errors.Is(err, fs.ErrNotExist) || err == nil && now == set {
			return nil
		}
		if err != nil {
			return err
		}
		if !wait.more() {
			return fmt.Errorf("%s: systemd has taken %s=%s, but its group has %s", unit, FenceUnit, value, now)
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
