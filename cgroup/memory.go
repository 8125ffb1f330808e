package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/errline"
)

// NoMemoryLimit means that a group has no limit of its memory or swap.
const NoMemoryLimit = math.MaxInt64

var (
	// ErrNoMemory means that the kernel, or the group, does not offer the memory controller.
	ErrNoMemory = errors.New("no memory controller")
	// ErrNoSwapLimit means that the kernel does not limit the swap of groups: it has no swap, or was started with swapaccount=0.
	ErrNoSwapLimit = errors.New("the kernel does not limit swap")
	// ErrMemoryInUse means that the processes of a group use more memory than a limit, and that the kernel cannot reclaim the excess.
	ErrMemoryInUse = errors.New("the group uses more memory")
)

// A Memory is the memory of a group and its nested groups: the limits that apply to the group, and its use. Sizes are in bytes.
//
// The kernel updates the counters in batches for each CPU, and this package reads several files. So the parts of Stat can add up to more
// than Usage.
type Memory struct {
	Bound MemoryBound // lowest memory limit among the group and its ancestors
	// Free is the memory that the group of Bound can still allocate before the kernel reclaims the group's memory. It is
	// NoMemoryLimit if there is no limit.
	Free int64
	// Available is the memory that the group can still allocate without swap, when the kernel reclaims page cache and slabs. It
	// is the lowest sum of (limit - use) and reclaimable memory among the group and its ancestors that have a limit, or
	// NoMemoryLimit if there is no limit.
	Available int64
	Usage     int64 // memory in use, including page cache and kernel memory
	// IsUncounted reports that a group of v2 does not have the memory controller. The kernel then counts the group's memory in
	// the nearest ancestor that has the controller. The limits are those of this ancestor. Usage, SwapUsage and Stat are 0,
	// because the group's part is unknown.
	IsUncounted bool

	// SwapLimit is the swap that the group can use in addition to its memory, or NoMemoryLimit. It can be more than the machine has.
	SwapLimit int64
	SwapFree  int64 // swap that the group can still use under SwapLimit, or NoMemoryLimit
	SwapUsage int64

	Stat MemoryStat
}

// A MemoryBound is the memory limit of a group, and thus an upper bound for the memory of every group nested in the group.
type MemoryBound struct {
	// Path is the path of the group below the mount point. It is "" if there is no limit, or if the kernel does not show the group:
	// then hierarchical_memory_limit in memory.stat of v1 has the limit.
	Path  string
	File  string // kernel file that has the limit: memory.limit_in_bytes or memory.stat on v1, memory.max or memory.high on v2
	Limit int64  // NoMemoryLimit: no limit
}

// A MemoryStat holds the parts of a group's memory in bytes, from the kernel's memory.stat. The names of the kernel's counters are in
// include/linux/mmzone.h. Parts that this version of cgroup does not count are 0: v1 does not count slabs, kernel stacks, page tables and
// per-CPU memory separately.
type MemoryStat struct {
	Anon       int64 // NR_ANON_MAPPED
	File       int64 // NR_FILE_PAGES: page cache with Shmem and SwapCached
	Shmem      int64 // NR_SHMEM
	SwapCached int64 // NR_SWAPCACHE
	Mapped     int64 // NR_FILE_MAPPED
	Dirty      int64 // NR_FILE_DIRTY
	Writeback  int64 // NR_WRITEBACK

	ActiveAnon, InactiveAnon, ActiveFile, InactiveFile, Unevictable int64 // LRU lists; Shmem is on the lists of anonymous memory

	AnonHuge, ShmemHuge, FileHuge int64 // parts of Anon, Shmem and File in transparent huge pages

	SlabReclaimable, SlabUnreclaimable, KernelStack, PageTables, SecPageTables, Percpu, Vmalloc int64

	Zswap, Zswapped int64 // compressed size and original size of the pages in zswap
}

// A memoryRecord holds the parsed values of a memory.stat file.
type memoryRecord struct {
	MemoryStat
	swap int64 // v1; on v2 memory.swap.current has the value
	// Lowest limits among the group and its ancestors, on v1. 0: the file does not have the key.
	memoryLimit, memswLimit int64
}

// A memoryKey returns the field of a memoryRecord that holds the value of a key in memory.stat.
type memoryKey func(*memoryRecord) *int64

// parseMemoryStat parses the content of a memory.stat file. It skips unknown keys, because new kernels add keys.
func parseMemoryStat(content []byte, keys map[string]memoryKey) (r memoryRecord, err error) {
	for line := range bytes.Lines(content) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		key, value, _ := bytes.Cut(line, []byte(" "))
		field, ok := keys[string(key)]
		if !ok {
			continue
		}
		n, err := parseBytes(value)
		if err != nil {
			return memoryRecord{}, parseError(line)
		}
		*field(&r) = n
	}
	return r, nil
}

// parseBytes parses a size in bytes. "max", and a size that stands for no limit on v1, is NoMemoryLimit.
func parseBytes(text []byte) (int64, error) {
	if string(text) == "max" {
		return NoMemoryLimit, nil
	}
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return 0, err
	}
	// v1 shows the largest number of pages (PAGE_COUNTER_MAX), in bytes: MaxInt64, rounded down to the page size.
	const largest = 1 << 62
	if n >= largest {
		return NoMemoryLimit, nil
	}
	return int64(n), nil
}

// readBytes reads a file with a size in bytes.
func readBytes(dir, file string) (int64, error) { return new(openFiles).readBytes(dir, file) }

// readBytes is like the function readBytes, with the cache.
func (o *openFiles) readBytes(dir, file string) (int64, error) {
	content, err := o.read(dir, file)
	if err != nil {
		return 0, err
	}
	n, err := parseBytes(content)
	if err != nil {
		return 0, badContent(dir, file, content)
	}
	return n, nil
}

// memoryStat is the file that has the fields of a MemoryStat.
const memoryStat = "memory.stat"

// readMemoryStat reads memory.stat with the cache.
func (o *openFiles) readMemoryStat(dir string, keys map[string]memoryKey) (memoryRecord, error) {
	content, err := o.readSized(dir, memoryStat, 4096)
	if err != nil {
		return memoryRecord{}, err
	}
	stat, err := parseMemoryStat(content, keys)
	if err != nil {
		return stat, fmt.Errorf("read %s/%s: %w", dir, memoryStat, err)
	}
	return stat, nil
}

// A memoryReader reads the memory of the groups of a hierarchy.
type memoryReader struct {
	*hierarchy
	open      *openFiles
	reclaimed *reclaimCache // nil: read each time
}

// A reclaimCache holds the reclaimable memory of groups for reclaimAge. A group with a limit above many containers, such as the
// kubelet's group of all pods, is large, and the kernel takes long to write its memory.stat.
type reclaimCache struct {
	mutex sync.Mutex
	dirs  map[string]reclaimedMemory
}

type reclaimedMemory struct {
	size int64
	at   time.Time
}

const reclaimAge = time.Second

// get returns the reclaimable memory of the group in dir, which read reads. Callers that ask at the same moment for the same group wait
// for a single read.
func (c *reclaimCache) get(dir string, read func(dir string) (int64, error)) (int64, error) {
	if c == nil {
		return read(dir)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	now := time.Now()
	if m, ok := c.dirs[dir]; ok && now.Sub(m.at) < reclaimAge {
		return m.size, nil
	}
	size, err := read(dir)
	if err != nil {
		return 0, err
	}
	maps.DeleteFunc(c.dirs, func(_ string, m reclaimedMemory) bool { return now.Sub(m.at) >= reclaimAge })
	if c.dirs == nil {
		c.dirs = map[string]reclaimedMemory{}
	}
	c.dirs[dir] = reclaimedMemory{size, now}
	return size, nil
}

// HasMemory reports whether a hierarchy with the memory controller is mounted.
func (t *Tree) HasMemory() bool { return t.memory != nil }

// ReadMemory reads the memory of a group. group is the name of one of Candor's groups, as for Tree.Group, or the path of a foreign group,
// as for Tree.EngineGroup. The error for a missing group is ErrNoGroup. With KeepMemoryOpen, the memory that the kernel can reclaim in a
// group above the group is up to a second old.
func (t *Tree) ReadMemory(group string) (Memory, error) { return t.readMemory(group, &t.memoryOpen) }

// ReadMemoryOnce is like ReadMemory, for a group that the caller does not read again soon: the group takes no place in the cache of
// KeepMemoryOpen.
func (t *Tree) ReadMemoryOnce(group string) (Memory, error) {
	return t.readMemory(group, new(openFiles))
}

func (t *Tree) readMemory(group string, open *openFiles) (Memory, error) {
	g := t.groupAt(group)
	h, err := g.memoryHierarchy()
	if err != nil {
		return Memory{}, err
	}
	r := memoryReader{hierarchy: h, open: open}
	if t.memoryOpen.isOn() {
		r.reclaimed = &t.reclaimed
	}
	m, err := r.read(h.pathOf(g.dir(h)))
	return m, g.wrapMemory(err)
}

// memoryHierarchy returns the hierarchy of the memory controller, or an error of the group or ErrNoMemory.
func (g *Group) memoryHierarchy() (*hierarchy, error) {
	switch {
	case g.err != nil:
		return nil, g.err
	case g.tree.memory == nil:
		return nil, fmt.Errorf("cgroup %s: %w", g.name, ErrNoMemory)
	}
	return g.tree.memory, nil
}

// wrapMemory adds the group's name to an error of the memory controller. If the group is missing in the hierarchy of this controller, the
// error is ErrNoGroup.
func (g *Group) wrapMemory(err error) error {
	switch {
	case err == nil:
		return nil
	case isGone(err):
		if ok, _ := isGroup(g.dir(g.tree.memory)); !ok {
			err = ErrNoGroup
		}
	}
	return fmt.Errorf("cgroup %s: %w", g.name, err)
}

// read reads the memory of the group at path.
func (r memoryReader) read(path string) (Memory, error) {
	if r.v2 {
		return r.readV2(path)
	}
	return r.readV1(path)
}

// limitFiles names the kernel files of one kind of limit, such as memory.max: the file with a group's limit, and the file with
// its use, both in bytes.
type limitFiles struct{ limit, usage string }

// reclaimable returns the memory that the kernel can reclaim without swap.
func (s *MemoryStat) reclaimable() int64 {
	return addSizes(addSizes(s.ActiveFile, s.InactiveFile), s.SlabReclaimable)
}

// addSizes adds two sizes. The result is NoMemoryLimit if the sum is too large.
func addSizes(a, b int64) int64 {
	if a > NoMemoryLimit-b {
		return NoMemoryLimit
	}
	return a + b
}

// An ancestry is the summary of the limits of a kind (memory, swap, or the sum of both) of a group and its ancestors. Without a
// limit, all sizes are NoMemoryLimit. A difference of a limit and the use is at least 0.
type ancestry struct {
	bound     MemoryBound // lowest limit; of several equal limits, that of the nearest group
	room      int64       // difference of limit and use of the group of bound
	lowest    int64       // lowest difference of limit and use
	available int64       // lowest sum of this difference and the reclaimable memory of the same group
}

var noLimits = ancestry{MemoryBound{Limit: NoMemoryLimit}, NoMemoryLimit, NoMemoryLimit, NoMemoryLimit}

// add adds the limit of a group. It calls reclaimable only if the result can change available: the call can cost the read of a
// file.
func (l *ancestry) add(bound MemoryBound, usage int64, reclaimable func() (int64, error)) error {
	room := max(bound.Limit-usage, 0)
	l.lowest = min(l.lowest, room)
	if bound.Limit < l.bound.Limit {
		l.bound, l.room = bound, room
	}
	if room >= l.available {
		return nil
	}
	more, err := reclaimable()
	l.available = min(l.available, addSizes(room, more))
	return err
}

// readLimits reads the limits of a kind of the group at path and its ancestors. stat has the parts of the group's memory. It is
// nil for limits that do not bound memory. readLimits omits limits below atLeast, which do not apply to the group. On v1, the
// limit of a group without memory.use_hierarchy does not apply to its nested groups.
func (r memoryReader) readLimits(path string, files limitFiles, stat *MemoryStat, atLeast int64) (l ancestry, err error) {
	l = noLimits
	for start := path; path != "/" || r.rootHasLimits; path = filepath.Dir(path) {
		dir := filepath.Join(r.mount, path)
		limit, err := r.open.readBytes(dir, files.limit)
		switch {
		case isGone(err) && (files != maxV2 || path == "/"): // the machine's root group of v2; or the kernel does not limit swap
		case err != nil: // memory.max of v2 is missing only if the group was removed meanwhile
			return l, err
		case limit != NoMemoryLimit && limit >= atLeast:
			usage, err := r.open.readBytes(dir, files.usage)
			if err != nil {
				return l, err
			}
			err = l.add(MemoryBound{path, files.limit, limit}, usage, func() (int64, error) {
				switch {
				case stat == nil:
					return 0, nil
				case path == start:
					return stat.reclaimable(), nil
				default:
					return r.reclaimed.get(dir, r.reclaimable)
				}
			})
			if err != nil {
				return l, err
			}
		}
		if path == "/" {
			break
		}
	}
	return l, nil
}

// reclaimable reads the reclaimable memory of the group in dir.
func (r memoryReader) reclaimable(dir string) (int64, error) {
	keys := statKeysV1
	if r.v2 {
		keys = statKeysV2
	}
	stat, err := r.open.readMemoryStat(dir, keys)
	return stat.reclaimable(), err
}

// MinMemoryLimit is the lowest memory limit in bytes that SetMemoryLimits accepts: 4 MiB. Less memory does not suffice to start a program,
// and the kernel would kill the program of a container at once.
const MinMemoryLimit = 4 << 20

// MemoryLimits are the limits of a group's memory and swap, in bytes. The kernel rounds them down to whole pages.
type MemoryLimits struct {
	Memory int64 // MinMemoryLimit or more, or NoMemoryLimit
	// Swap is the limit of the swap that the group can use in addition to its memory, 0 or more, or NoMemoryLimit. On v1 the kernel limits
	// the sum of memory and swap, so a limit of swap needs a limit of memory there.
	Swap int64
}

func (l MemoryLimits) check(v2 bool) error {
	switch {
	case l.Memory < MinMemoryLimit:
		return fmt.Errorf("memory limit of %d bytes: must be %d (4 MiB) or more", l.Memory, MinMemoryLimit)
	case l.Swap < 0:
		return fmt.Errorf("swap limit of %d bytes: must be 0 or more", l.Swap)
	case l.Swap != NoMemoryLimit && l.Memory == NoMemoryLimit && !v2:
		return errors.New("a swap limit needs a memory limit on cgroup v1, which limits the sum of both")
	}
	return nil
}

// MemoryLimits returns the limits of the group itself. The limits of its ancestors can be lower; see ReadMemory.
func (g *Group) MemoryLimits() (MemoryLimits, error) {
	h, err := g.memoryHierarchy()
	if err != nil {
		return MemoryLimits{}, err
	}
	limits, err := h.readMemoryLimits(g.dir(h))
	return limits, g.wrapMemory(err)
}

// SetMemoryLimits sets the limits of the group's memory and swap. It returns a function that restores the former limits. On an error the
// limits do not change. If the group uses more memory than the limit, and the kernel cannot reclaim the excess, the error is
// ErrMemoryInUse. The error of a swap limit on a kernel without such limits is ErrNoSwapLimit.
//
// SetMemoryLimits does not update the unit of a foreign group: systemd can overwrite the limits of such a group later.
func (g *Group) SetMemoryLimits(next MemoryLimits) (undo func() error, err error) {
	h, err := g.memoryHierarchy()
	if err != nil {
		return nil, err
	}
	if err := next.check(h.v2); err != nil {
		return nil, fmt.Errorf("cgroup %s: %w", g.name, err)
	}
	if g.usesSystemd() {
		undo, err = g.setScopeMemory(h, next)
	} else {
		undo, err = h.setMemoryLimits(g.dir(h), next)
	}
	return undo, g.wrapMemory(err)
}

// readMemoryLimits reads the limits of the group in dir.
func (h *hierarchy) readMemoryLimits(dir string) (MemoryLimits, error) {
	if h.v2 {
		return readMemoryLimitsV2(dir)
	}
	return readMemoryLimitsV1(dir)
}

// setMemoryLimits sets the limits of the group in dir. undo restores the former limits. On an error setMemoryLimits has restored them.
func (h *hierarchy) setMemoryLimits(dir string, next MemoryLimits) (undo func() error, err error) {
	before, err := h.readMemoryLimits(dir)
	if err != nil {
		return nil, err
	}
	if err := h.writeMemoryLimits(dir, before, next); err != nil {
		return nil, errline.Join(err, h.restoreMemoryLimits(dir, before))
	}
	return func() error { return h.restoreMemoryLimits(dir, before) }, nil
}

// restoreMemoryLimits restores former limits of the group in dir. It does nothing if the group is missing.
func (h *hierarchy) restoreMemoryLimits(dir string, before MemoryLimits) error {
	now, err := h.readMemoryLimits(dir)
	if err == nil {
		err = h.writeMemoryLimits(dir, now, before)
	}
	if err != nil && !isGone(err) {
		return undoError(err)
	}
	return nil
}

// writeMemoryLimits writes the limits that differ between now and next. Before the comparison it rounds next down to whole pages,
// as the kernel does.
func (h *hierarchy) writeMemoryLimits(dir string, now, next MemoryLimits) error {
	next = next.wholePages()
	if h.v2 {
		return writeMemoryLimitsV2(dir, now, next)
	}
	return writeMemoryLimitsV1(dir, now, next)
}

// writeBytes writes a size in bytes to a file, or the text in none if the size is NoMemoryLimit. It writes nothing if now equals
// size.
func writeBytes(dir, file string, now, size int64, none string) error {
	switch size {
	case now:
		return nil
	case NoMemoryLimit:
		return write(dir, file, none)
	}
	return writeInt(dir, file, size)
}

// AddMemory gives one of Candor's groups the memory controller, so that SetMemoryLimits can limit the memory of its processes. The group
// must exist. On v1, AddMemory creates the group's folder in the hierarchy of the controller and moves the process pid there; pid 0 means
// no process. On v2, it enables the controller for Candor's groups; the process is in the group already. Memory that the process has
// already allocated still counts in the process's former group.
//
// undo reverts these changes, except for a controller that another group uses. Remove also removes the folder on v1. On an error AddMemory
// has reverted its changes.
func (g *Group) AddMemory(pid int) (undo func() error, err error) {
	h, err := g.memoryHierarchy()
	if err != nil {
		return nil, err
	}
	if err := g.refuseForeign(); err != nil {
		return nil, err
	}
	if h.v2 {
		if unix.Access(g.dir(h), unix.F_OK) != nil {
			return nil, fmt.Errorf("cgroup %s: %w", g.name, ErrNoGroup)
		}
		undo, err = g.enableMemoryV2(h)
	} else {
		undo, err = g.enterMemoryV1(h, pid)
	}
	if err != nil {
		return nil, fmt.Errorf("cgroup %s: no limit of memory: %w", g.name, err)
	}
	return undo, nil
}
