package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/view"
)

// A MemoryRequest holds the requested limits of a container's memory.
type MemoryRequest struct {
	cgroup.MemoryLimits
	// IsSwapOptional reports that the limit of swap is a default: a kernel without such limits is no error.
	IsSwapOptional bool
}

// NewMemoryRequest returns the request in the resources of an OCI specification, or nil if there is no limit. limit is
// memory.limit in bytes. memsw is memory.swap, the limit of memory and swap together in bytes. For both, 0 and less is no limit.
// The files of cgroup v2 in unified take precedence. A memory.high below memory.max is the limit, as in the container's view.
func NewMemoryRequest(limit, memsw int64, unified map[string]string) *MemoryRequest {
	const none = cgroup.NoMemoryLimit
	value := func(file string, unset int64) int64 {
		text := strings.TrimSpace(unified[file])
		if text == "max" {
			return none
		}
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
			return n
		}
		return unset
	}
	memory, swap := int64(none), int64(none)
	if limit > 0 {
		memory = limit
	}
	if limit > 0 && memsw > 0 {
		swap = max(memsw-limit, 0)
	}
	memory = min(value("memory.max", memory), value("memory.high", none))
	if memory == none {
		return nil
	}
	return &MemoryRequest{MemoryLimits: cgroup.MemoryLimits{Memory: memory, Swap: value("memory.swap.max", swap)}}
}

// CheckMemory returns an error for limits that this machine does not accept for a container of Candor. The error wraps
// ErrBadSpec.
func CheckMemory(r *MemoryRequest) error {
	machine, err := view.ReadMachineMemory()
	if err != nil {
		return err
	}
	if r.Memory < cgroup.MinMemoryLimit || r.Memory > machine.Total {
		return fmt.Errorf("%w: memory limit of %d bytes: must be 4 MiB (4m) to %d MiB (%[3]dm), the memory of this machine", ErrBadSpec, r.Memory, machine.Total>>20)
	}
	return nil
}

// resolveView removes the files with memory from the view of an allocation if neither the container nor its pod has a memory
// limit below the machine's memory: such a container uses the machine's files. The limit of a cgroup above the pod, such as the
// kubelet's limit of all pods, does not count.
func (h *Host) resolveView(a *Allocation) error {
	if !a.View.HasMemory() {
		return nil
	}
	machine, err := view.ReadMachineMemory()
	if err != nil {
		return err
	}
	limit := h.podMemory(&a.Engine)
	if a.Memory != nil {
		limit = min(limit, a.Memory.Memory)
	}
	if limit >= machine.Total || !h.tree.HasMemory() {
		a.View = a.View.WithoutMemory()
	}
	return nil
}

// podMemory returns the memory limit of a container's pod in bytes, or cgroup.NoMemoryLimit if there is none or it cannot be
// read.
func (h *Host) podMemory(e *Engine) int64 {
	path := e.PodGroup()
	if path == "" {
		return cgroup.NoMemoryLimit
	}
	limits, err := h.tree.EngineGroup(e.Pod, path).MemoryLimits()
	if err != nil {
		return cgroup.NoMemoryLimit
	}
	return limits.Memory
}

// limitMemory sets the memory limits of a program that this operation starts. The runtimes of engines set the limits of their
// containers.
func (op *operation) limitMemory() error {
	n, a := op.newcomer, op.starting
	if n == nil || n.pid == 0 || a == nil || a.Memory == nil || op.groups[n.name] == nil {
		return nil
	}
	group := op.groups[n.name]
	undo, err := group.AddMemory(n.pid)
	if err != nil {
		return memoryError(err)
	}
	op.undoMemory = undo
	limits := a.Memory.MemoryLimits
	_, err = group.SetMemoryLimits(limits)
	if errors.Is(err, cgroup.ErrNoSwapLimit) && a.Memory.IsSwapOptional {
		limits.Swap = cgroup.NoMemoryLimit
		_, err = group.SetMemoryLimits(limits)
	}
	return memoryError(err)
}

// memoryError adds ErrBadSpec and the next step to the error of a limit that this machine cannot set.
func memoryError(err error) error {
	switch {
	case errors.Is(err, cgroup.ErrNoMemory):
		return fmt.Errorf("%w: %w; candor doctor --check cgroup-memory finds the cause", ErrBadSpec, err)
	case errors.Is(err, cgroup.ErrMemoryInUse):
		return fmt.Errorf("%w: %w; use a higher limit", ErrBadSpec, err)
	case errors.Is(err, cgroup.ErrNoSwapLimit): // the error has the next step
		return fmt.Errorf("%w: %w", ErrBadSpec, err)
	}
	return err
}

// ResizeMemory gives a program of candor run a new memory limit, or changes nothing. The limit of its swap stays if swap is nil.
// undo restores the former limits, unless the limits have changed again since then.
func (h *Host) ResizeMemory(ctx context.Context, name string, memory int64, swap *int64) (before, after cgroup.MemoryLimits, undo func() error, err error) {
	err = h.operateOn(ctx, scope{name: name}, func(op *operation) error {
		g, k := op.info[name], op.groups[name]
		switch {
		case g == nil:
			return unknownContainer(name)
		case k == nil || k.isEngineOwned() || op.hasBundle(name):
			return fmt.Errorf("%w: %s %w; change its memory with its engine (docker update --memory, kubectl)", ErrBadSpec, g.DisplayName(), ErrEngineOwned)
		}
		before, err = k.MemoryLimits()
		if err != nil && !isGoneError(err) && !errors.Is(err, cgroup.ErrNoMemory) {
			return err
		}
		if err != nil || before.Memory == cgroup.NoMemoryLimit {
			return fmt.Errorf("%w: %s was started without a memory limit; start it with --memory", ErrBadSpec, name)
		}
		after = cgroup.MemoryLimits{Memory: memory, Swap: before.Swap}
		if swap != nil {
			after.Swap = *swap
		}
		op.rewritten = name
		restore, err := k.SetMemoryLimits(after)
		if err != nil {
			return memoryError(err)
		}
		set, err := k.MemoryLimits() // as the kernel has rounded them
		if err != nil {
			return errline.Join(err, restore())
		}
		undo = func() error { return h.restoreMemory(context.WithoutCancel(ctx), name, set, restore) }
		return nil
	})
	if err != nil && undo != nil {
		err = errline.Join(err, undo())
	}
	return before, after, undo, err
}

// restoreMemory undoes a change of a program's memory limits, if they are still those that the change has set.
func (h *Host) restoreMemory(ctx context.Context, name string, set cgroup.MemoryLimits, restore func() error) error {
	return h.operateOn(ctx, scope{name: name}, func(op *operation) error {
		k := op.groups[name]
		if k == nil { // the program has ended
			return nil
		}
		now, err := k.MemoryLimits()
		if err != nil || now != set {
			return unlessGone(err)
		}
		op.rewritten = name
		return restore()
	})
}

// hasBundle reports whether an OCI runtime of Candor has created a container.
func (h *Host) hasBundle(name string) bool {
	_, err := os.Lstat(h.BundleDir(name))
	return err == nil
}

// MemoryOf reads the memory of a container. The error is cgroup.ErrNoGroup or cgroup.ErrNoMemory if there is none to read.
func (h *Host) MemoryOf(g *Grant) (cgroup.Memory, error) {
	return h.tree.ReadMemory(cmp.Or(g.Engine.Cgroup, g.ID))
}

// MemoryLimitOf returns the lowest memory limit of a container's cgroup and the cgroups above it in bytes, or
// cgroup.NoMemoryLimit if there is none or it cannot be read.
func (h *Host) MemoryLimitOf(g *Grant) int64 {
	m, err := h.MemoryOf(g)
	if err != nil {
		return cgroup.NoMemoryLimit
	}
	return m.Bound.Limit
}

// A MemoryState is the memory of a container with a limit, and the memory that its view shows. Sizes are in bytes.
type MemoryState struct {
	Limit     int64 // lowest limit of the cgroup and the cgroups above it
	Used      int64 // with page cache
	SwapLimit int64 // cgroup.NoMemoryLimit: none
	Shown     int64 // MemTotal in its view; 0: the view has no memory, or IsUnknown
	IsUnknown bool  // MemTotal in its view cannot be read
	// IsStale reports that no process refreshes the view, so that its other numbers are those of the start or of the last change
	// of the limit. It is false if this user cannot know.
	IsStale bool
}

// memoryState returns the memory of a container, or nil if the container itself has no limit below the machine's memory.
func (h *Host) memoryState(g *Grant) *MemoryState {
	limits, err := h.groupOf(g).MemoryLimits()
	if err != nil {
		return nil
	}
	m, err := h.MemoryOf(g)
	if err != nil {
		return nil
	}
	machine, err := view.ReadMachineMemory()
	if err != nil || limits.Memory >= machine.Total && !g.View.HasMemory() {
		return nil
	}
	s := &MemoryState{Limit: m.Bound.Limit, Used: m.Usage, SwapLimit: m.SwapLimit}
	if !g.View.HasMemory() {
		return s
	}
	dir := h.store.ViewDir(g.ID)
	if s.Shown, err = view.ReadMemTotal(dir); err != nil {
		s.IsUnknown = !errors.Is(err, fs.ErrNotExist)
		return s
	}
	isRefreshed, err := view.IsRefreshed(dir)
	s.IsStale = err == nil && !isRefreshed && g.State == Running
	return s
}

// startMemory returns the memory of a container that starts. If an engine's runtime has not created the cgroup yet, it is the
// requested limit, or the limit of a group above if that is lower.
func (op *operation) startMemory(g *Grant) (cgroup.Memory, error) {
	if g.State != Pending {
		return op.MemoryOf(g)
	}
	path := g.Engine.Cgroup
	if path == "" && op.tree.Driver() == cgroup.Cgroupfs {
		path = op.tree.OCIPath(g.ID)
	}
	const none = cgroup.NoMemoryLimit
	m := cgroup.Memory{Bound: cgroup.MemoryBound{Limit: none}, Free: none, Available: none, SwapLimit: none, SwapFree: none}
	if path = filepath.Dir(path); cgroup.CheckPath(path) == nil {
		parent, err := op.tree.ReadMemory(path)
		if err != nil && !isGoneError(err) && !errors.Is(err, cgroup.ErrNoMemory) { // the runtime enables the controller
			return m, err
		}
		if err == nil {
			parent.Usage, parent.SwapUsage, parent.Stat = 0, 0, cgroup.MemoryStat{}
			m = parent
		}
	}
	requested := cgroup.MemoryLimits{Memory: none, Swap: none}
	if r := op.starting.Memory; r != nil { // nil: the pod has the limit
		requested = r.MemoryLimits
	}
	return limited(m, requested), nil
}

// limited returns the memory of a new cgroup with limits, given the memory of its parent.
func limited(parent cgroup.Memory, limits cgroup.MemoryLimits) cgroup.Memory {
	m := parent
	m.IsUncounted = true                                // the program can also use the memory that the kernel can reclaim in a cgroup above
	limit := limits.Memory &^ int64(os.Getpagesize()-1) // as the kernel rounds it
	if limit < m.Bound.Limit {
		m.Bound, m.Free = cgroup.MemoryBound{Limit: limit}, limit
	}
	m.Available = min(m.Available, limit)
	m.SwapLimit, m.SwapFree = min(m.SwapLimit, limits.Swap), min(m.SwapFree, limits.Swap)
	return m
}
