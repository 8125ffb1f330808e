package cgroup

import (
	"fmt"
	"path/filepath"
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
		if path, stat, err = r.nearestV2(path); err != nil {
			return m, err
		}
	}
	if err != nil {
		return m, err
	}
	dir := filepath.Join(r.mount, path)
	m.Stat = stat.MemoryStat
	if m.Usage, err = r.open.readBytes(dir, maxV2.usage); err != nil && !isGone(err) { // the root group of the machine has no such file
		return m, err
	}
	if m.SwapUsage, err = r.open.readBytes(dir, swapV2.usage); err != nil && !isGone(err) {
		return m, err
	}
	var free int64
	var high, swap MemoryBound
	if m.Bound, m.Free, err = r.lowestLimit(path, maxV2, 0); err != nil {
		return m, err
	}
	if high, free, err = r.lowestLimit(path, highV2, 0); err != nil {
		return m, err
	}
	m.Free = min(m.Free, free)
	if high.Limit < m.Bound.Limit {
		m.Bound = high
	}
	swap, m.SwapFree, err = r.lowestLimit(path, swapV2, 0)
	m.SwapLimit = swap.Limit
	return m, err
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
	if next.Memory < now.Memory {
		if err := reclaimV2(dir, next); err != nil {
			return err
		}
	}
	if err := writeBytes(dir, maxV2.limit, now.Memory, next.Memory, "max"); err != nil {
		return err
	}
	err := writeBytes(dir, swapV2.limit, now.Swap, next.Swap, "max")
	if isGone(err) {
		return fmt.Errorf("%w (%w); use no swap limit", ErrNoSwapLimit, err)
	}
	return err
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
