package cgroup

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Files of the memory controller on v1. memsw is the sum of memory and swap.
var (
	memoryV1 = limitFiles{"memory.limit_in_bytes", "memory.usage_in_bytes"}
	memswV1  = limitFiles{"memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"}
)

// statKeysV1 has the keys of memory.stat that count the group with its nested groups. "total_cache" and "total_rss" are the kernel's
// NR_FILE_PAGES and NR_ANON_MAPPED (memcg1_stats in mm/memcontrol-v1.c).
var statKeysV1 = map[string]memoryKey{
	"total_cache":               func(r *memoryRecord) *int64 { return &r.File },
	"total_rss":                 func(r *memoryRecord) *int64 { return &r.Anon },
	"total_rss_huge":            func(r *memoryRecord) *int64 { return &r.AnonHuge },
	"total_shmem":               func(r *memoryRecord) *int64 { return &r.Shmem },
	"total_mapped_file":         func(r *memoryRecord) *int64 { return &r.Mapped },
	"total_dirty":               func(r *memoryRecord) *int64 { return &r.Dirty },
	"total_writeback":           func(r *memoryRecord) *int64 { return &r.Writeback },
	"total_swap":                func(r *memoryRecord) *int64 { return &r.swap },
	"total_swapcached":          func(r *memoryRecord) *int64 { return &r.SwapCached },
	"total_inactive_anon":       func(r *memoryRecord) *int64 { return &r.InactiveAnon },
	"total_active_anon":         func(r *memoryRecord) *int64 { return &r.ActiveAnon },
	"total_inactive_file":       func(r *memoryRecord) *int64 { return &r.InactiveFile },
	"total_active_file":         func(r *memoryRecord) *int64 { return &r.ActiveFile },
	"total_unevictable":         func(r *memoryRecord) *int64 { return &r.Unevictable },
	"hierarchical_memory_limit": func(r *memoryRecord) *int64 { return &r.memoryLimit },
	"hierarchical_memsw_limit":  func(r *memoryRecord) *int64 { return &r.memswLimit },
}

func (r memoryReader) readV1(path string) (m Memory, err error) {
	dir := r.mount + path
	stat, err := r.open.readMemoryStat(dir, statKeysV1)
	if err != nil {
		return m, err
	}
	m.Stat, m.SwapUsage = stat.MemoryStat, stat.swap
	if m.Usage, err = r.open.readBytes(dir, memoryV1.usage); err != nil {
		return m, err
	}
	if m.Bound, m.Free, err = r.lowestLimit(path, memoryV1, stat.memoryLimit); err != nil {
		return m, err
	}
	// If memory.stat has a lower limit, it is the limit of an ancestor that the mount or the cgroup namespace hides.
	if stat.memoryLimit != 0 && stat.memoryLimit < m.Bound.Limit {
		m.Bound = MemoryBound{File: memoryStat, Limit: stat.memoryLimit}
		m.Free = min(m.Free, max(stat.memoryLimit-m.Usage, 0))
	}
	both, freeOfBoth, err := r.lowestLimit(path, memswV1, stat.memswLimit)
	if err != nil {
		return m, err
	}
	m.Free = min(m.Free, freeOfBoth) // new memory also counts against the limit of the sum of memory and swap
	m.SwapLimit, m.SwapFree = NoMemoryLimit, NoMemoryLimit
	if stat.memswLimit != 0 {
		both.Limit = min(both.Limit, stat.memswLimit)
	}
	if both.Limit != NoMemoryLimit {
		m.SwapLimit = max(both.Limit-m.Bound.Limit, 0)
		m.SwapFree = max(m.SwapLimit-m.SwapUsage, 0)
	}
	return m, nil
}

func readMemoryLimitsV1(dir string) (l MemoryLimits, err error) {
	if l.Memory, err = readBytes(dir, memoryV1.limit); err != nil {
		return l, err
	}
	both, err := readBytes(dir, memswV1.limit)
	l.Swap = NoMemoryLimit
	switch {
	case isGone(err): // swapaccount=0
		return l, nil
	case err == nil && both != NoMemoryLimit:
		l.Swap = max(both-l.Memory, 0)
	}
	return l, err
}

// memsw returns the limit of the sum of memory and swap.
func (l MemoryLimits) memsw() int64 {
	if l.Memory == NoMemoryLimit || l.Swap >= NoMemoryLimit-l.Memory {
		return NoMemoryLimit
	}
	return l.Memory + l.Swap
}

// writeMemoryLimitsV1 writes the limits that differ. At any moment, the kernel refuses a memory limit above the limit of memory and swap.
// Therefore writeMemoryLimitsV1 raises the limit of the sum first, and lowers it last.
func writeMemoryLimitsV1(dir string, now, next MemoryLimits) error {
	memory := func() error { return writeBytes(dir, memoryV1.limit, now.Memory, next.Memory, "-1") }
	both := func() error {
		err := writeBytes(dir, memswV1.limit, now.memsw(), next.memsw(), "-1")
		if isGone(err) {
			return fmt.Errorf("%w (%w); start it with swapaccount=1, or use no swap limit", ErrNoSwapLimit, err)
		}
		return err
	}
	first, second := memory, both
	if next.memsw() > now.memsw() {
		first, second = both, memory
	}
	err := first()
	if err == nil {
		err = second()
	}
	if errors.Is(err, unix.EBUSY) { // the kernel tried to reclaim the memory
		usage, _ := readBytes(dir, memoryV1.usage)
		return memoryInUse(usage, next, err)
	}
	return err
}

// memoryInUse returns an ErrMemoryInUse with the sizes. cause is the kernel's refusal, or nil.
func memoryInUse(usage int64, next MemoryLimits, cause error) error {
	err := fmt.Errorf("limit of %d bytes: %w (%d bytes)", next.Memory, ErrMemoryInUse, usage)
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// wholePages rounds a size in bytes down to whole pages.
func wholePages(size int64) int64 {
	if size == NoMemoryLimit {
		return size
	}
	return size &^ int64(os.Getpagesize()-1)
}
