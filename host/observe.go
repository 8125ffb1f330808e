package host

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
)

// A group holds the settings of a container's cgroup, as read from the kernel or assumed.
type group struct {
	*cgroup.Group
	settings  cgroup.Settings
	populated bool
	engine    Engine // engine that owns the cgroup; zero: Candor
	isAssumed bool   // the cgroup was not read; its grant supplied all fields
	grant     *Grant // the grant that supplied the fields
	// unreadable, if not nil, is the error of reading the cgroup's files. The settings are assumptions then
	// (assumeUnreadable).
	unreadable error
}

// observe reads the existing cgroups of Candor. It removes incomplete cgroups without processes: a candor process that
// was killed while creating or removing a cgroup leaves them on cgroup v1, where each hierarchy has its own directory.
func (h *Host) observe() (map[string]*group, error) {
	names, err := h.tree.Groups()
	if err != nil {
		return nil, err
	}
	groups := make(map[string]*group, len(names))
	for _, name := range names {
		g, err := h.readGroup(name)
		if errors.Is(err, fs.ErrNotExist) && !g.populated {
			before := h.tree.SetDeadline(time.Now().Add(brief))
			err = g.Remove()
			h.tree.SetDeadline(before)
			g = nil
		}
		if errors.Is(err, cgroup.ErrNoGroup) || err == nil && g == nil {
			continue // the cgroup has been removed meanwhile
		}
		if err != nil {
			g = &group{Group: h.tree.Group(name), populated: true, unreadable: err}
		}
		groups[name] = g
	}
	return groups, nil
}

// readGroup reads a cgroup.
func (h *Host) readGroup(name string) (*group, error) { return readSettings(h.tree.Group(name)) }

// readSettings reads whether a cgroup has processes, and its settings. On an error the group holds the fields read so
// far.
func readSettings(kernel *cgroup.Group) (*group, error) {
	g := &group{Group: kernel}
	var err error
	if g.populated, err = g.Populated(); err == nil {
		g.settings, err = g.Settings()
	}
	return g, err
}

// hasEnded reports whether a container has ended. populated reports whether its cgroup has processes. A container of Candor
// without processes has not ended while its creator lives, because the creator can still start processes.
func hasEnded(g *Grant, populated bool) bool {
	switch {
	case populated || g.State == Held:
		return false
	case g.Engine.Cgroup != "":
		return hasEndedInEngine(g)
	case g.State == Pending && g.Deadline != 0 && state.SinceBoot() > g.Deadline:
		return true
	default:
		return !g.Creator.Alive()
	}
}

// An operation for a container does not read the cgroups of all other containers. With hundreds of containers, these reads would
// take most of the operation's time, and the start of the container waits for the operation. The operation assumes that the other
// running containers have their granted settings.
//
// If the container gets exclusive CPUs, the operation checks the CPUs of the other containers too, because no other container may
// run on these CPUs. An operation on all containers, such as Reconcile, also checks all other settings, and whether containers
// have ended.

// A scope selects the containers that an operation serves: the container with the given name and, if pod is set, all containers of the pod.
// The zero value selects all containers.
type scope struct{ name, pod string }

// operateOn runs an operation like operate, but only on the containers in a scope.
func (h *Host) operateOn(ctx context.Context, s scope, change func(*operation) error) error {
	return h.reportLate(outsideViews(func() error { return h.runLocked(ctx, s, h.createLock, change) }))
}

// createLock takes the lock of the state, and creates the state if there is none.
func (h *Host) createLock(ctx context.Context) (*lock, error) {
	if err := h.store.Prepare(); err != nil {
		return nil, err
	}
	return takeLock(ctx, h.store.LockFile(), h.lockTimeout)
}

// operateIfInUse runs an operation like operateOn, but only on an existing state. It serves processes that remain from the time before a
// GiveBack, such as candor run processes whose programs still run: their operations must not adopt containers again. isInUse is false if
// there is no state, or if a GiveBack has begun.
func (h *Host) operateIfInUse(ctx context.Context, s scope, change func(*operation) error) (isInUse bool, err error) {
	if !h.planOnly && !h.store.IsInUse() {
		return false, nil
	}
	hasLock := true
	take := func(ctx context.Context) (*lock, error) {
		lock, err := takeExistingLock(ctx, h.store.LockFile(), h.lockTimeout)
		if errors.Is(err, fs.ErrNotExist) {
			hasLock = false
		}
		return lock, err
	}
	if h.planOnly {
		take = h.createLock
	}
	err = h.reportLate(outsideViews(func() error { return h.runLocked(ctx, s, take, change) }))
	if !hasLock || errors.Is(err, ErrGivingBack) {
		return false, nil
	}
	return true, err
}

// assumedGroup returns the cgroup of a container outside the operation's scope without reading it. It returns nil if the
// operation must read the cgroup: if the container is in the scope, does not run, is bound to memory nodes or has a lease
// (state.Lease). It also returns nil for a container without a pod, because no event reports the end of such a container.
func (op *operation) assumedGroup(g *Grant) *group {
	isClose := op.scope == scope{} || g.ID == op.scope.name || g.Engine.Pod == op.scope.pod
	if isClose || g.State != Running || g.Engine.Pod == "" || g.Mems || g.Lease != (state.Lease{}) {
		return nil
	}
	if k := op.cached.groups[g.ID]; k != nil && k.isAssumed && k.grant == g && k.settings.Mems == op.basis.mems {
		return k
	}
	k := &group{Group: op.tree.EngineGroup(g.ID, g.Engine.Cgroup), populated: true, engine: g.Engine, isAssumed: true, grant: g}
	k.settings = op.settings(g)
	k.settings.Mems = op.basis.mems
	return k
}

// matches reports whether the assumed settings of an unread cgroup equal the wanted settings, except for the memory
// nodes.
func (k *group) matches(wanted cgroup.Settings) bool {
	wanted.Mems = k.settings.Mems
	return k.settings == wanted
}

// assumedCPUs returns the CPUs of all cgroups that have not been read.
func (op *operation) assumedCPUs() (all cpuset.Set) {
	for _, k := range op.groups {
		if k.isAssumed {
			all = all.Union(k.settings.CPUs)
		}
	}
	return all
}

// verifyOthers reads the CPUs of the cgroups with assumed settings, if a container gets exclusive CPUs. It reads a cgroup
// completely if its CPUs differ from the grant. It skips cgroups that the operation writes anyway.
func (op *operation) verifyOthers(grants []*Grant) {
	if g := op.info[op.scope.name]; op.freshCPUs.IsEmpty() && (!op.readsCPUs || g == nil || g.Class != hybrid.Sensitive) {
		return
	}
	for _, g := range grants {
		k := op.groups[g.ID]
		if k == nil || !k.isAssumed || !k.matches(op.settings(g)) {
			continue
		}
		if cpus, err := k.CPUs(); err != nil || cpus != k.settings.CPUs {
			op.reread(g.ID, k)
		}
	}
	op.assumeUnreadable()
}

// readAssumed reads the cgroups that have not been read yet.
func (op *operation) readAssumed() {
	for name, k := range op.groups {
		if k.isAssumed {
			op.reread(name, k)
		}
	}
}

func (op *operation) reread(name string, k *group) {
	delete(op.groups, name)
	op.observeEngine(name, k.engine)
}

// assumeUnreadable gives a cgroup with unreadable files the settings of its grant. As its CPUs it takes the CPUs that its
// processes can use now, or all usable CPUs if these are unknown. Without a grant, the operation ignores the cgroup and makes
// none of its CPUs exclusive.
func (op *operation) assumeUnreadable() {
	for name, k := range op.groups {
		if k.unreadable == nil {
			continue
		}
		g := op.info[name]
		if g == nil {
			op.log.Warn("cannot read a cgroup that is missing from the state", "container", name, "error", k.unreadable)
			delete(op.groups, name)
			op.stuck = append(slices.Clip(op.stuck), &stuckError{name, name, op.effectiveCPUs(k), k.unreadable})
			op.avoid = op.avoid.Union(op.effectiveCPUs(k))
			continue
		}
		k.settings = op.settings(g)
		k.settings.CPUs = op.effectiveCPUs(k)
		op.degrade(name, SettingGroup, g.CPUs, k.unreadable)
	}
}

// effectiveCPUs returns the CPUs that the processes of an unreadable cgroup can use now, or all usable CPUs if these
// are unknown.
func (op *operation) effectiveCPUs(k *group) cpuset.Set {
	if cpus, _, err := k.Effective(); err == nil && !cpus.IsEmpty() {
		return cpus
	}
	return op.basis.usable
}
