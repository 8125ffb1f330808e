package cgroup

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/errline"
)

// Files of the memory controller on v2. Above memory.high the kernel slows processes down and reclaims their memory. So a group whose
// memory.high is lower than its memory.max does not use more than memory.high for long.
var (
	maxV2  = limitFiles{"memory.max", "memory.current"}
	highV2 = limitFiles{"memory.high", "memory.current"}
	swapV2 = limitFiles{"memory.swap.max", "memory.swap.current"}
)

// statKeysV2 has the keys of memory.stat (memory_stats in mm/memcontrol.c).
var statKeysV2 = map[string]memoryKey{
	"anon":               func(r *memoryRecord) *int64 { return &r.Anon },
	"file":               func(r *memoryRecord) *int64 { return &r.File },
	"shmem":              func(r *memoryRecord) *int64 { return &r.Shmem },
	"swapcached":         func(r *memoryRecord) *int64 { return &r.SwapCached },
	"file_mapped":        func(r *memoryRecord) *int64 { return &r.Mapped },
	"file_dirty":         func(r *memoryRecord) *int64 { return &r.Dirty },
	"file_writeback":     func(r *memoryRecord) *int64 { return &r.Writeback },
	"anon_thp":           func(r *memoryRecord) *int64 { return &r.AnonHuge },
	"shmem_thp":          func(r *memoryRecord) *int64 { return &r.ShmemHuge },
	"file_thp":           func(r *memoryRecord) *int64 { return &r.FileHuge },
	"inactive_anon":      func(r *memoryRecord) *int64 { return &r.InactiveAnon },
	"active_anon":        func(r *memoryRecord) *int64 { return &r.ActiveAnon },
	"inactive_file":      func(r *memoryRecord) *int64 { return &r.InactiveFile },
	"active_file":        func(r *memoryRecord) *int64 { return &r.ActiveFile },
	"unevictable":        func(r *memoryRecord) *int64 { return &r.Unevictable },
	"slab_reclaimable":   func(r *memoryRecord) *int64 { return &r.SlabReclaimable },
	"slab_unreclaimable": func(r *memoryRecord) *int64 { return &r.SlabUnreclaimable },
	"kernel_stack":       func(r *memoryRecord) *int64 { return &r.KernelStack },
	"pagetables":         func(r *memoryRecord) *int64 { return &r.PageTables },
	"sec_pagetables":     func(r *memoryRecord) *int64 { return &r.SecPageTables },
	"percpu":             func(r *memoryRecord) *int64 { return &r.Percpu },
	"vmalloc":            func(r *memoryRecord) *int64 { return &r.Vmalloc },
	"zswap":              func(r *memoryRecord) *int64 { return &r.Zswap },
	"zswapped":           func(r *memoryRecord) *int64 { return &r.Zswapped },
}

func (r memoryReader) readV2(path string) (m Memory, err error) {
	stat, err := r.open.readMemoryStat(r.mount+path, statKeysV2)
	if isGone(err) {
		m.IsUncounted = true
		path, stat, err = r.nearestV2(path)
	}
	if err == nil && !m.IsUncounted {
		err = r.readUseV2(filepath.Join(r.mount, path), path == "/", &m)
		m.Stat = stat.MemoryStat
	}
	if err != nil {
		return m, err
	}
	swap, err := r.readLimits(path, swapV2, nil, 0)
	if err != nil {
		return m, err
	}
	high, err := r.readLimits(path, highV2, &stat.MemoryStat, 0)
	if err != nil {
		return m, err
	}
	// memory.max is the last file: if it is there, the group was there during all reads.
	limits, err := r.readLimits(path, maxV2, &stat.MemoryStat, 0)
	if err != nil {
		return m, err
	}
	m.Bound, m.Free, m.Available = limits.bound, limits.room, min(limits.available, high.available)
	if high.bound.Limit < limits.bound.Limit {
		m.Bound, m.Free = high.bound, high.room
	}
	m.SwapLimit, m.SwapFree = swap.bound.Limit, swap.lowest
	return m, nil
}

// readUseV2 reads the use of the group in dir. The machine's root group has no files for it.
func (r memoryReader) readUseV2(dir string, isRoot bool, m *Memory) (err error) {
	if m.Usage, err = r.open.readBytes(dir, maxV2.usage); err != nil && !(isGone(err) && isRoot) {
		return err
	}
	if m.SwapUsage, err = r.open.readBytes(dir, swapV2.usage); isGone(err) { // or the kernel has no swap
		err = nil
	}
	return err
}

// nearestV2 returns the nearest ancestor of the group at path that has the memory controller, and its memory.stat. The error is ErrNoMemory
// if no group has the controller.
func (r memoryReader) nearestV2(path string) (nearest string, stat memoryRecord, err error) {
	if _, err := read(r.mount+path, "cgroup.controllers"); err != nil {
		return path, stat, err // the group is missing
	}
	for path != "/" {
		path = filepath.Dir(path)
		if stat, err = r.open.readMemoryStat(r.mount+path, statKeysV2); !isGone(err) {
			return path, stat, err
		}
	}
	return path, stat, ErrNoMemory
}

func readMemoryLimitsV2(dir string) (l MemoryLimits, err error) {
	if l.Memory, err = readBytes(dir, maxV2.limit); err != nil {
		return l, err
	}
	l.Swap, err = readBytes(dir, swapV2.limit)
	if isGone(err) { // the kernel has no swap
		l.Swap, err = NoMemoryLimit, nil
	}
	return l, err
}

// writeMemoryLimitsV2 writes the limits that differ. If a group uses more memory than a new limit, the kernel kills its processes.
// Therefore writeMemoryLimitsV2 reclaims the memory first, and returns ErrMemoryInUse if the group still uses more. A process that
// allocates memory between the check and the write can still be killed.
func writeMemoryLimitsV2(dir string, now, next MemoryLimits) error {
	if err := prepareMemoryLimitsV2(dir, now, next); err != nil {
		return err
	}
	if err := writeBytes(dir, maxV2.limit, now.Memory, next.Memory, "max"); err != nil {
		return err
	}
	return writeBytes(dir, swapV2.limit, now.Swap, next.Swap, "max")
}

// prepareMemoryLimitsV2 returns an error for limits that the kernel does not have or that the group exceeds, after a reclaim.
func prepareMemoryLimitsV2(dir string, now, next MemoryLimits) error {
	if unix.Access(filepath.Join(dir, swapV2.limit), unix.F_OK) == unix.ENOENT && next.Swap != now.Swap {
		return fmt.Errorf("%w (no %s); use no swap limit", ErrNoSwapLimit, swapV2.limit)
	}
	if next.Memory < now.Memory {
		return reclaimV2(dir, next)
	}
	return nil
}

// reclaimV2 reclaims the memory that the group in dir uses beyond a limit.
func reclaimV2(dir string, next MemoryLimits) error {
	usage, err := readBytes(dir, maxV2.usage)
	if err != nil || usage <= next.Memory {
		return err
	}
	_ = writeInt(dir, "memory.reclaim", usage-next.Memory) // EAGAIN: not enough memory to reclaim; missing before Linux 5.19
	if usage, err = readBytes(dir, maxV2.usage); err != nil || usage <= next.Memory {
		return err
	}
	return memoryInUse(usage, next, nil)
}

// enableMemoryV2 enables the memory controller from the mount point down to Candor's parent group.
func (g *Group) enableMemoryV2(h *hierarchy) (undo func() error, err error) {
	var dirs []string
	undo = func() error { return disableMemoryV2(dirs) }
	dir := h.mount
	for part := range strings.SplitSeq(h.parent[len(h.mount)+1:]+"/", "/") {
		enabled, err := enableControllersV2(dir, []string{"memory"})
		switch {
		case errors.Is(err, unix.EBUSY):
			err = processesError(err)
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
			err = fmt.Errorf("%w below %s: %w", ErrNoMemory, dir, err)
		}
		if err != nil {
			return nil, errline.Join(err, undo())
		}
		if len(enabled) > 0 {
			dirs = append(dirs, dir)
		}
		dir += "/" + part
	}
	return undo, nil
}

// disableMemoryV2 disables the memory controller for the children of each group in dirs. The controller stays enabled if a child
// has limits, because the kernel would drop these limits, or if a child has enabled the controller for its own children (EBUSY).
// Each group in dirs is an ancestor of the next group in dirs.
func disableMemoryV2(dirs []string) error {
	var errs []error
	for _, dir := range slices.Backward(dirs) {
		if hasMemoryLimitsV2(dir) {
			continue
		}
		if err := write(dir, subtreeFile, "-memory"); err != nil && !isGone(err) && !errors.Is(err, unix.EBUSY) {
			errs = append(errs, undoError(err))
		}
	}
	return errline.Join(errs...)
}

// hasMemoryLimitsV2 reports whether a group directly below dir has a setting of the memory controller.
func hasMemoryLimitsV2(dir string) bool {
	groups, err := subgroups(dir)
	for _, group := range groups {
		for file, unset := range map[string]int64{
			maxV2.limit: NoMemoryLimit, highV2.limit: NoMemoryLimit, swapV2.limit: NoMemoryLimit, "memory.min": 0, "memory.low": 0,
		} {
			if limit, missing := readBytes(group, file); missing == nil && limit != unset {
				return true
			}
		}
	}
	return err != nil
}
