package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/errline"
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
	limits, memsw := noLimits, noLimits
	if stat.memoryLimit != NoMemoryLimit {
		if limits, err = r.readLimits(path, memoryV1, &m.Stat, stat.memoryLimit); err != nil {
			return m, err
		}
	}
	// If memory.stat has a lower limit, it is the limit of an ancestor that the mount or the cgroup namespace hides.
	if stat.memoryLimit != 0 && stat.memoryLimit < limits.bound.Limit {
		_ = limits.add(MemoryBound{File: memoryStat, Limit: stat.memoryLimit}, m.Usage, func() (int64, error) { return m.Stat.reclaimable(), nil })
	}
	if stat.memswLimit != 0 && stat.memswLimit != NoMemoryLimit { // 0: the kernel does not count swap (swapaccount=0)
		if memsw, err = r.readLimits(path, memswV1, &m.Stat, stat.memswLimit); err != nil {
			return m, err
		}
	}
	// New memory also counts against the limit of the sum of memory and swap.
	m.Bound, m.Free, m.Available = limits.bound, min(limits.room, memsw.room), min(limits.available, memsw.available)
	m.SwapLimit, m.SwapFree = NoMemoryLimit, NoMemoryLimit
	limit := memsw.bound.Limit
	if stat.memswLimit != 0 {
		limit = min(limit, stat.memswLimit)
	}
	if limit != NoMemoryLimit {
		m.SwapLimit = max(limit-m.Bound.Limit, 0)
		m.SwapFree = min(max(m.SwapLimit-m.SwapUsage, 0), memsw.lowest)
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
	if unix.Access(filepath.Join(dir, memswV1.limit), unix.F_OK) == unix.ENOENT && next.memsw() != now.memsw() && next.Swap != NoMemoryLimit {
		return fmt.Errorf("%w (no %s); start it with swapaccount=1, or use no swap limit", ErrNoSwapLimit, memswV1.limit)
	}
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
		files := memoryV1
		if refused := (*WriteError)(nil); errors.As(err, &refused) && filepath.Base(refused.File) == memswV1.limit {
			files, next.Memory = memswV1, next.memsw()
		}
		usage, _ := readBytes(dir, files.usage)
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

func (l MemoryLimits) wholePages() MemoryLimits {
	return MemoryLimits{wholePages(l.Memory), wholePages(l.Swap)}
}

// wholePages rounds a size in bytes down to whole pages.
func wholePages(size int64) int64 {
	if size == NoMemoryLimit {
		return size
	}
	return size &^ int64(os.Getpagesize()-1)
}

// enterMemoryV1 creates the folders of Candor's parent group and of the group in the hierarchy of the memory controller, and
// moves the process to the group.
func (g *Group) enterMemoryV1(h *hierarchy, pid int) (undo func() error, err error) {
	var done steps
	dir := g.dir(h)
	dirs := []string{dir}
	for above := filepath.Dir(dir); above != h.mount; above = filepath.Dir(above) {
		dirs = append(dirs, above)
	}
	for _, dir := range slices.Backward(dirs) {
		err := makeDir(dir)
		if err == nil {
			done = append(done, step{dir: dir})
		} else if !errors.Is(err, fs.ErrExist) {
			return nil, errline.Join(err, done.run())
		}
	}
	if pid == 0 {
		return done.run, nil
	}
	hierarchies := []*hierarchy{h}
	origin, err := g.tree.groupDirsIn(hierarchies, pid)
	if err == nil {
		err = attach(dir, pid)
	}
	if err != nil {
		return nil, errline.Join(err, done.run())
	}
	return func() error {
		err := attach(origin[0], pid)
		if isEnded(err) {
			err = nil
		}
		return errline.Join(err, done.run())
	}, nil
}
