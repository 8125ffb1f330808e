package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
)

// An Allocation is a request for the CPUs of a container.
type Allocation struct {
	hybrid.Request // its ID is the name of the container and of its cgroup
	spec.Spec
	Engine Engine // for Admit and Sync: the engine's container; Allocate uses only its Name
	// Hint, if not nil, holds the CPUs that a scheduler has planned for the container. Only Admit uses it.
	Hint *hybrid.Hint
	// EngineRequest, if not nil, holds the CPU settings that the engine requested. If it is nil, the settings follow from the limit and the
	// guarantee, with the kubelet's conversion.
	EngineRequest *EngineRequest
	// Memory, if not nil, holds the memory limits. Allocate sets them for a program that waits (PID). The runtimes of engines set
	// the limits of their containers, so that Admit and Sync only use them for the view.
	Memory *MemoryRequest
	// PID is a process that waits to become the container's first process. Allocate moves it into the container's
	// cgroup, and kills it if the allocation fails halfway. If PID is 0, the caller creates the cgroup later, and the
	// grant is pending until then. For Sync, PID is the first running process, or 0 if it is unknown.
	PID int
	// Deadline, if not 0, limits the time that a grant can stay pending.
	Deadline time.Duration
}

// ErrPopulated means that processes of the container still run.
var ErrPopulated = errors.New("processes still run")

// ErrBadSpec means that the caller's request is invalid.
var ErrBadSpec = errors.New("bad request")

// Check reports an error if an allocation is invalid on every machine. The error wraps ErrBadSpec.
func (a *Allocation) Check() error {
	err := cgroup.CheckName(a.ID)
	if err == nil {
		err = a.Spec.Check()
	}
	if err == nil {
		err = checkQuota(a.Limit, a.Period)
	}
	if err == nil {
		err = spec.CheckBurst(a.Burst, a.Limit, a.Period)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadSpec, err)
	}
	return nil
}

// checkQuota refuses a limit whose quota per period is below the kernel's minimum.
func checkQuota(limit hybrid.Milli, period time.Duration) error {
	if minLimit := hybrid.Milli((1000*bandwidth.MinQuota + period - 1) / period); limit != 0 && limit < minLimit {
		return fmt.Errorf("limit %v: must be at least %[3]v with a period of %[2]v", limit, period, minLimit)
	}
	return nil
}

// Allocate gives a container its CPUs, or changes nothing. The error is a *hybrid.Refusal if the allocator refuses the container.
func (h *Host) Allocate(ctx context.Context, a Allocation) (*Grant, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	if err := checkKernelBurst(a.Burst); err != nil {
		return nil, err
	}
	if a.PID != 0 && a.Memory != nil {
		if err := CheckMemory(a.Memory); err != nil {
			return nil, err
		}
	}
	if err := h.resolveView(&a); err != nil {
		return nil, err
	}
	creator, err := state.OwnProcess()
	if err != nil {
		return nil, err
	}
	g := &Grant{Spec: a.Spec, Engine: Engine{Name: a.Engine.Name}, State: Pending, Creator: creator, Since: state.SinceBoot()}
	g.Request = a.Request
	if a.Deadline > 0 {
		g.Deadline = g.Since + a.Deadline
	}
	if a.PID != 0 {
		g.State, g.Deadline = Running, 0
		if g.Main, err = state.ProcessOf(a.PID); err != nil {
			return nil, err
		}
	}
	err = h.operate(ctx, func(op *operation) error {
		op.subject, op.starting = a.ID, &a
		err := op.withRollback(func() error {
			if err := op.placeWithin(g, nil); err != nil {
				return err
			}
			return op.saveEngineRequest(g, a.EngineRequest)
		})
		if err != nil {
			return nameRefusal(err, g)
		}
		op.info[a.ID] = g
		if a.PID != 0 {
			op.newcomer = &newcomer{a.ID, a.PID}
		}
		g.OnResize, err = op.store.HideCommand(a.ID, a.OnResize)
		return err
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Release ends a container's grant. With kill, it first kills the container's processes. Without kill, it returns ErrPopulated if processes
// still run. It refuses to kill a container of an engine, and to release an engine's container that runs (ErrEngineOwned).
func (h *Host) Release(ctx context.Context, name string, kill bool) error {
	isKilled := false
	if kill {
		var err error
		if isKilled, err = h.kill(ctx, name); err != nil {
			return err
		}
	}
	return h.operate(ctx, func(op *operation) error {
		if slices.Contains(op.ended, name) { // the container had ended, and this operation has reaped it
			return nil
		}
		if op.info[name] == nil {
			if isKilled { // its candor run has already released it
				return nil
			}
			return unknownContainer(name)
		}
		op.subject = name
		return op.release(name, kill)
	})
}

// kill kills the processes of a container before Release starts its operation. An operation holds the lock, so processes that
// hang in the kernel or are frozen must not delay it. First, kill runs a separate operation, which refuses an unknown name and
// invalid options.
func (h *Host) kill(ctx context.Context, name string) (isKilled bool, err error) {
	var running *cgroup.Group
	shown := name
	err = h.operate(ctx, func(op *operation) error {
		k := op.groups[name]
		switch {
		case slices.Contains(op.ended, name):
			isKilled = true
		case op.info[name] == nil:
			return unknownContainer(name)
		case k != nil && k.populated && k.isEngineOwned():
			return engineOwnedError(op.displayName(name))
		case k != nil && k.populated:
			running, shown = k.Group, op.displayName(name)
		}
		return nil
	})
	if err != nil || running == nil {
		return isKilled, err
	}
	if err := running.Kill(syscall.SIGKILL); err != nil && !errors.Is(err, cgroup.ErrNoGroup) {
		return false, fmt.Errorf("cannot kill %s: %w", shown, err)
	}
	return true, nil
}

// ErrEngineOwned means that a container engine creates and ends the container, so that Release does not end it.
var ErrEngineOwned = errors.New("belongs to a container engine")

// engineOwnedError returns the error of Release for a container that only its engine may end. The error wraps ErrBadSpec,
// ErrEngineOwned and ErrPopulated.
func engineOwnedError(name string) error {
	return fmt.Errorf("%w: %s %w, and its %w; end the container with its engine (docker stop, kubectl delete pod)", ErrBadSpec, name, ErrEngineOwned, ErrPopulated)
}

// ReleaseOwn ends a grant that this process has created. If another process has already released the grant, there is no error. If the
// program was not started, ReleaseOwn also undoes Candor's changes of the ancestors of the container's cgroup.
func (h *Host) ReleaseOwn(ctx context.Context, name string, started bool) error {
	self, err := state.OwnProcess()
	if err != nil {
		return err
	}
	isInUse, err := h.operateIfInUse(ctx, scope{}, func(op *operation) error {
		op.notStarted = !started
		if g := op.info[name]; g == nil || g.Creator != self {
			return nil
		}
		op.subject = name
		return op.release(name, false)
	})
	if err == nil && !isInUse {
		err = h.removeLeftover(name)
	}
	return err
}

// ReleaseEnded releases a container that its OCI runtime has deleted. Unlike Release, it creates no state if there is
// none.
func (h *Host) ReleaseEnded(ctx context.Context, name string) error {
	isInUse, err := h.operateIfInUse(ctx, scope{}, func(op *operation) error {
		if op.info[name] == nil {
			return nil
		}
		op.subject = name
		return op.release(name, false)
	})
	if err == nil && !isInUse {
		err = h.removeLeftover(name)
	}
	return err
}

func (op *operation) release(name string, kill bool) error {
	switch g := op.groups[name]; {
	case g == nil:
	case g.isEngineOwned() && (kill || g.populated):
		return engineOwnedError(op.displayName(name))
	case kill:
		end := op.tree.SetDeadline(time.Now().Add(time.Second)) // kill has already ended most processes, without the lock
		err := g.End()
		op.tree.SetDeadline(end)
		if err != nil {
			return fmt.Errorf("cannot kill %s: %w", op.displayName(name), err)
		}
		delete(op.groups, name)
	case g.populated:
		pids, _ := g.Processes()
		return fmt.Errorf("%s: %w: %s", op.displayName(name), ErrPopulated, listPIDs(pids))
	}
	return op.end(name)
}

// Resize gives a container a new limit and guarantee, or changes nothing. A guarantee of 0 means the container's
// explicit guarantee, or the limit if it has none. Resize returns the grants before and after.
func (h *Host) Resize(ctx context.Context, name string, limit, guarantee hybrid.Milli) (before, after *Grant, err error) {
	return h.resize(ctx, name, "", limit, guarantee)
}

// resize resizes the container with the given cgroup. If cgroup is "", the name alone identifies the container.
func (h *Host) resize(ctx context.Context, name, cgroup string, limit, guarantee hybrid.Milli) (before, after *Grant, err error) {
	err = h.operateOn(ctx, scope{name: name}, func(op *operation) error {
		g := op.info[name]
		if g == nil || cgroup != "" && g.Engine.Cgroup != cgroup {
			return unknownContainer(name)
		}
		if err := checkQuota(limit, g.Period); err != nil {
			return fmt.Errorf("%s: %w: %w", g.DisplayName(), ErrBadSpec, err)
		}
		if err := op.resizeWithin(g, limit, cmp.Or(guarantee, g.Guarantee)); err != nil {
			return nameRefusal(err, g)
		}
		op.resized = name
		previous, current := *g, *g
		current.Grant, _ = op.node.Grant(name)
		current.Immovable = previous.Immovable
		before, after = &previous, &current
		return nil
	})
	return before, after, err
}

// resizeNode gives a container a new limit in op.node.
func (op *operation) resizeNode(g *Grant, limit, guarantee hybrid.Milli) error {
	if g.Class == hybrid.Sensitive && !op.avoid.IsEmpty() {
		return op.resizeAround(g.ID, limit, guarantee)
	}
	plan, err := op.node.PlanResize(g.ID, limit, guarantee)
	if err != nil {
		return err
	}
	return op.node.Commit(plan)
}

func unknownContainer(name string) error {
	return unknownBecause(name, "no container has that name; candor ps lists them")
}

// unknownBecause refuses a name that no grant has, and gives the reason.
func unknownBecause(name, why string) error {
	return &hybrid.Refusal{ID: name, Kind: hybrid.ErrUnknownID, Text: why}
}

// Reconcile compares the grants of all containers with the kernel's settings. It reaps ended containers, repairs settings, and
// replans grants that no longer fit after a change of the options.
func (h *Host) Reconcile(ctx context.Context) error {
	return h.operate(ctx, func(op *operation) error {
		op.everyPod = true
		return op.logUnusable()
	})
}

// ReapplyAfterEngineWrite writes a container's grant again after its engine has written the cgroup, for example for an update of the
// container. It does not report the engine's settings as drift.
func (h *Host) ReapplyAfterEngineWrite(ctx context.Context, name string) error {
	return h.operateOn(ctx, scope{name: name}, func(op *operation) error {
		op.rewritten = name
		return nil
	})
}

// WithGrantLocked calls the function do with a container's grant, while it holds the lock. It is meant for callers that write the
// container's cgroup beside Candor, as an OCI runtime does at an update. All cgroups match their grants before do is called, and Candor
// restores the granted settings afterwards. The error comes from Candor's own work, before or after the call of do.
func (h *Host) WithGrantLocked(ctx context.Context, name string, do func(*Grant)) error {
	isDone := false
	return h.operate(ctx, func(op *operation) error {
		if op.info[name] == nil {
			return unknownContainer(name)
		}
		op.subject = name
		if err := op.finish(); err != nil {
			return err
		}
		for _, g := range op.grants() {
			if g.ID == name && !isDone { // an operation can be retried
				isDone = true
				current := *g
				do(&current)
			}
		}
		var err error
		if op.groups, err = op.observe(); err != nil {
			return err
		}
		op.observeEngines()
		op.assumeUnreadable()
		return nil
	})
}

// BundleDir returns the directory from which a runtime creates a container. The container's creator fills this
// directory after the container has got its grant or its preserved CPUs.
func (h *Host) BundleDir(name string) string { return filepath.Join(h.store.Dir, "bundles", name) }

// SweepBundles removes the bundles of containers that do not exist, for example after a creator was killed.
func (h *Host) SweepBundles(ctx context.Context) error {
	_, err := h.operateIfInUse(ctx, scope{}, func(op *operation) error {
		entries, err := os.ReadDir(op.BundleDir(""))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, entry := range entries {
			if op.info[entry.Name()] != nil {
				continue
			}
			if p, ok := op.store.LoadPreserved(entry.Name()); ok && p.By.Alive() {
				continue
			}
			if err := os.RemoveAll(op.BundleDir(entry.Name())); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// RunningBundles returns the IDs of the running containers that an OCI runtime of Candor has created. The engine and the real
// runtime call the candor program for such a container until it has ended. The method takes no lock and changes nothing.
func (h *Host) RunningBundles() (ids []string, err error) {
	entries, err := os.ReadDir(h.BundleDir(""))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var grants map[string]*Grant // nil for a broken state
	saved, err := h.store.Load()
	switch {
	case err == nil:
		grants = state.ByName(saved.Grants)
	case !errors.As(err, new(*state.BrokenError)):
		return nil, err
	}
	for _, entry := range entries {
		runs, err := h.runsBundle(entry.Name(), grants[entry.Name()])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		if runs {
			ids = append(ids, entry.Name())
		}
	}
	return ids, nil
}

// runsBundle reports whether the container of a bundle runs. A nil grant means that the state has no such container.
func (h *Host) runsBundle(id string, g *Grant) (bool, error) {
	if p, ok := h.store.LoadPreserved(id); ok && p.By.Alive() {
		return true, nil
	}
	if g == nil {
		g = new(Grant)
		g.ID = id
		h.store.LoadRequest(g) // names the cgroup of the engine
	}
	if g.State == Pending && g.Creator.Alive() {
		return true, nil
	}
	runs, err := h.groupOf(g).Populated()
	if isGoneError(err) {
		return false, nil
	}
	return runs, err
}
