package cgroup

import (
	"math"

	systemd "github.com/coreos/go-systemd/v22/dbus"

	"github.com/candor-project/candor/internal/errline"
)

// setScopeMemory sets the limits of a scope. The unit gets them first, because systemd writes the files again when it is
// reloaded.
func (g *Group) setScopeMemory(h *hierarchy, next MemoryLimits) (undo func() error, err error) {
	dir := g.dir(h)
	before, err := readMemoryLimitsV2(dir)
	if err != nil {
		return nil, err
	}
	next = next.wholePages()
	undo = func() error {
		now, err := readMemoryLimitsV2(dir)
		if isGone(err) {
			return nil
		}
		if err == nil {
			err = g.changeScopeMemory(h, now, before)
		}
		if err != nil {
			return undoError(err)
		}
		return nil
	}
	if err := g.changeScopeMemory(h, before, next); err != nil {
		return nil, errline.Join(err, undo())
	}
	return undo, nil
}

// changeScopeMemory changes the limits of a scope: first in the unit, and then in the files.
func (g *Group) changeScopeMemory(h *hierarchy, now, next MemoryLimits) error {
	dir := g.dir(h)
	if now == next {
		return nil
	}
	if err := prepareMemoryLimitsV2(dir, now, next); err != nil { // systemd does not check the use
		return err
	}
	if err := g.tree.setProperties(g.base, memoryProperties(next)); err != nil {
		return err
	}
	now, err := readMemoryLimitsV2(dir)
	if err != nil {
		return err
	}
	return h.writeMemoryLimits(dir, now, next)
}

// memoryProperties returns the properties of a unit with limits.
func memoryProperties(l MemoryLimits) []systemd.Property {
	size := func(n int64) uint64 {
		if n == NoMemoryLimit {
			return math.MaxUint64 // systemd's infinity
		}
		return uint64(n)
	}
	return []systemd.Property{property("MemoryMax", size(l.Memory)), property("MemorySwapMax", size(l.Swap))}
}
