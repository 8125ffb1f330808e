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

// A group is what the kernel has of one of Candor's containers.
type group struct {
	*cgroup.Group
	settings  cgroup.Settings
	populated bool
	engine    Engine // whose group it is; zero: Candor's
	unread    bool   // all of this is what its grant says
	of        *Grant // that grant
	// unreadable, if not nil, is the error of a read of the group's files. The settings are assumptions then
	// (assumeUnreadable).
	unreadable error
}

// observe reads the groups that exist. Half a group, which a candor left that was
// killed in the middle of making or removing it (v1: one folder after the
// other), has no processes and is removed here.
func (h *Host) observe() (map[string]*group, error) {
	names, err := h.tree.Groups()
	if err != nil {
		return nil, err
	}
	groups := make(map[string]*group, len(names))
	for _, name := range names {
		g, err := h.look(name)
		if errors.Is(err, fs.ErrNotExist) && !g.populated {
			before := h.tree.SetDeadline(time.Now().Add(brief))
			err = g.Remove()
			h.tree.SetDeadline(before)
			g = nil
		}
		if errors.Is(err, cgroup.ErrNoGroup) || err == nil && g == nil {
			continue // it went meanwhile
		}
		if err != nil {
			g = &group{Group: h.tree.Group(name), populated: true, unreadable: err}
		}
		groups[name] = g
	}
	return groups, nil
}

// look reads one group.
func (h *Host) look(name string) (*group, error) { return read(h.tree.Group(name)) }

func read(of *cgroup.Group) (*group, error) {
	g := &group{Group: of}
	var err error
	if g.populated, err = g.Populated(); err == nil {
		g.settings, err = g.Settings()
	}
	return g, err
}

// ended reports whether a container is over, by what the kernel shows of it.
// Nothing ends while processes run; a creator that lives may still be about to
// start them.
func ended(g *Grant, populated bool) bool {
	switch {
	case populated || g.State == Held:
		return false
	case g.Engine.Cgroup != "":
		return endedInEngine(g)
	case g.State == Pending && g.Deadline != 0 && state.SinceBoot() > g.Deadline:
		return true
	default:
		return !g.Creator.Alive()
	}
}

// An operation about one container does not read all that the kernel has for every other one: with hundreds of
// containers that is most of its time, and a container waits for it. The others that run are taken to have what they were
// granted. Where the container has CPUs of its own, the operation looks whether the others have theirs, which nobody may
// have got wrong then. Their other settings, and whether they still run, are for the operation that looks at all, such
// as Reconcile.

// about is what an operation is about: a container, or with a pod all of that pod.
type about struct{ name, pod string }

// operateOn is operate for an operation that is about one container.
func (h *Host) operateOn(ctx context.Context, on about, change func(*operation) error) error {
	return h.tellLate(outside(func() error { return h.locked(ctx, on, change) }))
}

// glance returns the group of a container that the operation is not about, unread. For those that are to be
// read it is nil: containers without a pod, whose end nobody tells, and those whose quota is raised.
func (op *operation) glance(g *Grant) *group {
	isClose := op.about == about{} || g.ID == op.about.name || g.Engine.Pod == op.about.pod
	if isClose || g.State != Running || g.Engine.Pod == "" || g.Mems || g.Loan != (state.Loan{}) {
		return nil
	}
	if k := op.left.groups[g.ID]; k != nil && k.unread && k.of == g && k.settings.Mems == op.basis.mems {
		return k
	}
	k := &group{Group: op.tree.EngineGroup(g.ID, g.Engine.Cgroup), populated: true, engine: g.Engine, unread: true, of: g}
	k.settings = op.settings(g)
	k.settings.Mems = op.basis.mems
	return k
}

// has reports whether a group that nobody has read has what it is to have, memory nodes apart.
func (k *group) has(want cgroup.Settings) bool {
	want.Mems = k.settings.Mems
	return k.settings == want
}

// unreadCPUs are the CPUs of all groups that nobody has read.
func (op *operation) unreadCPUs() (all cpuset.Set) {
	for _, k := range op.groups {
		if k.unread {
			all = all.Union(k.settings.CPUs)
		}
	}
	return all
}

// lookAtOthers reads the groups that were taken to have what they were granted and have other CPUs, where
// a container gets exclusive CPUs. Groups that are written in any case need no read.
func (op *operation) lookAtOthers(grants []*Grant) {
	if g := op.info[op.about.name]; op.fresh.IsEmpty() && (!op.looks || g == nil || g.Class != hybrid.Sensitive) {
		return
	}
	for _, g := range grants {
		k := op.groups[g.ID]
		if k == nil || !k.unread || !k.has(op.settings(g)) {
			continue
		}
		if cpus, err := k.CPUs(); err != nil || cpus != k.settings.CPUs {
			op.readNow(g.ID, k)
		}
	}
	op.assumeUnreadable()
}

// readAll reads the groups that were not read yet.
func (op *operation) readAll() {
	for name, k := range op.groups {
		if k.unread {
			op.readNow(name, k)
		}
	}
}

func (op *operation) readNow(name string, k *group) {
	delete(op.groups, name)
	op.observeEngine(name, k.engine)
}

// assumeUnreadable gives a group whose files cannot be read the settings of its grant, and the CPUs that its processes
// may use now, or all if these cannot be read either. A container without a grant is left alone.
func (op *operation) assumeUnreadable() {
	for name, k := range op.groups {
		if k.unreadable == nil {
			continue
		}
		g := op.info[name]
		if g == nil {
			op.log.Warn("a group that is in no state cannot be read", "container", name, "error", k.unreadable)
			delete(op.groups, name)
			op.stuck = append(slices.Clip(op.stuck), &stuckError{name, op.mayRunOn(k), k.unreadable})
			op.avoid = op.avoid.Union(op.mayRunOn(k))
			continue
		}
		k.settings = op.settings(g)
		k.settings.CPUs = op.mayRunOn(k)
		op.degrade(name, SettingGroup, g.CPUs, k.unreadable)
	}
}

// mayRunOn returns the CPUs that the processes of an unreadable group may use now, or all if these cannot be read either.
func (op *operation) mayRunOn(k *group) cpuset.Set {
	if cpus, _, err := k.Effective(); err == nil && !cpus.IsEmpty() {
		return cpus
	}
	return op.basis.usable
}
