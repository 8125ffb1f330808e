package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/spec"
	"github.com/candor-project/candor/view"
	"golang.org/x/sys/unix"
)

// clearOrphans removes groups that are in no state and have nothing in them but,
// perhaps, helpers that wait for a creator who was killed.
func (op *operation) clearOrphans() {
	for name, g := range op.groups {
		if op.before[name] != nil {
			continue
		}
		if g.unreadable != nil {
			continue
		}
		if runs, err := g.runsProgram(); err != nil {
			op.log.Warn("a group that is in no state cannot be read", "container", name, "error", err)
			delete(op.groups, name)
			continue
		} else if runs {
			continue
		}
		if g.isEngines() {
			delete(op.groups, name)
			continue
		}
		// Whoever makes a group saves it under the lock, which we hold: its
		// creator is dead.
		removed, err := op.remove(name, g.End)
		if err != nil {
			op.log.Warn("cannot remove a group that a killed candor process left", "container", name, "error", err)
		}
		if removed {
			op.log.Info("removed a group that a killed candor left", "container", name)
		}
		delete(op.groups, name)
	}
}

// runsProgram reports whether a group has a process that is no waiting helper.
func (g *group) runsProgram() (bool, error) {
	if !g.populated {
		return false, nil
	}
	runs, err := g.AnyProcess(func(pid int) bool { return !isHelper(pid) })
	switch {
	case errors.Is(err, cgroup.ErrNoGroup):
		return false, nil
	case errors.Is(err, cgroup.ErrTooMany): // no helper makes groups
		return true, nil
	}
	return runs, err
}

// isHelper reports whether a process is a helper that still waits: until it executes the program, its command line and
// its file are candor's.
func isHelper(pid int) bool {
	line, err := procfs.CommandText(pid)
	if err != nil {
		return !errors.Is(err, procfs.ErrSlow) // it has ended meanwhile, or it is a program that makes its readers wait
	}
	args := strings.Split(line, "\x00")
	return len(args) > 1 && args[1] == HelperCommand && isCandor(pid)
}

// restore brings the grants of the state and containers that run without one
// to a new node. Where they contradict each other, the state's go first; where the
// state contradicts itself, what runs counts alone.
func (op *operation) restore() error {
	grants := op.loaded.Grants
	orphans := op.orphans()
	if op.left.isNow(op, op.basis) && len(orphans) == 0 {
		op.node, op.info = op.left.node, op.left.info
		return nil
	}
	err := op.restoreAll(append(slices.Clip(grants), orphans...))
	if err == nil || errors.As(err, new(noNodeError)) {
		return err
	}
	if err := op.restoreAll(grants); err != nil {
		if err := op.abandon(&state.BrokenError{File: op.store.File(), Err: err}); err != nil {
			return err
		}
		op.readAll()
		grants, orphans = nil, op.orphans()
	}
	var strays []*Grant
	for _, g := range orphans {
		with := append(slices.Clip(grants), g)
		if op.restoreAll(with) == nil {
			grants = with
		} else {
			strays = append(strays, g)
		}
	}
	if err := op.restoreAll(grants); err != nil {
		return err
	}
	for _, g := range strays {
		op.takeIn(g)
	}
	return nil
}

// A noNodeError has nothing to do with grants: there is no node to restore them to.
type noNodeError struct{ error }

func (e noNodeError) Unwrap() error { return e.error }

// restoreAll gives grants to a new node, as they are.
func (op *operation) restoreAll(grants []*Grant) error {
	node, on := op.empty, op.basis
	if op.empty = nil; node == nil {
		var err error
		if on, err = op.Host.basis(); err == nil {
			node, err = on.node(op.config)
		}
		if err != nil {
			return noNodeError{err}
		}
	}
	held := make([]hybrid.Grant, len(grants))
	own := make([]Grant, len(grants))
	info := make(map[string]*Grant, len(grants))
	for i, g := range grants {
		own[i] = *g
		info[g.ID], held[i] = &own[i], g.Grant
		held[i].Immovable = g.Immovable || op.pinned(g)
	}
	if err := node.Restore(held); err != nil {
		return err
	}
	op.node, op.basis, op.info = node, on, info
	return nil
}

// pinned reports whether moving a container's fraction would undo an affinity
// that its threads set themselves.
func (op *operation) pinned(g *Grant) bool {
	k := op.groups[g.ID]
	if k == nil || len(g.Fractions) == 0 || cpusetKeepsAffinity() {
		return false
	}
	threads := maxPinned
	pins, err := k.AnyProcess(func(pid int) bool { return pinsThread(pid, k.settings.CPUs, &threads) })
	return pins || errors.Is(err, cgroup.ErrTooMany)
}

// takeIn gives a running container that fits nowhere as it is a new place: the
// same limit with a view that may be too wide, else what is shared.
func (op *operation) takeIn(g *Grant) {
	tries := []hybrid.Request{g.Request, g.Request, {ID: g.ID, Class: hybrid.Flexible, Limit: g.Limit, Guarantee: hybrid.NoGuarantee}}
	tries[1].Policy = hybrid.BestEffort
	var err error
	for _, request := range tries {
		var plan *hybrid.Plan
		if plan, err = op.node.Plan(request); err != nil || plan.Grant.Exclusive.Overlaps(&op.avoid) {
			continue
		}
		if err = op.node.Commit(plan); err == nil {
			g.Request = request
			op.info[g.ID] = g
			op.log.Warn("adopted, on other CPUs than it had", "container", g.ID, "class", g.Class, "had", g.CPUs)
			return
		}
	}
	op.log.Error("runs without a grant", "container", g.ID, "cpus", g.CPUs, "reason", err)
}

// orphans returns grants, by name, for the containers that run without one.
func (op *operation) orphans() []*Grant {
	if op.planOnly {
		return nil // planned anew, not taken for what they have
	}
	var names []string
	for name, g := range op.groups {
		if g.populated && op.before[name] == nil && !g.settings.CPUs.IsEmpty() {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, strings.Compare)
	grants := make([]*Grant, len(names))
	for i, name := range names {
		adopted := op.adopted(name, op.groups[name].settings, op.othersCPUs(name))
		grants[i] = &adopted
		op.log.Info("adopted", "container", name, "cpus", grants[i].CPUs, "limit", grants[i].Limit)
	}
	return grants
}

// othersCPUs returns the CPUs of all running containers but one.
func (op *operation) othersCPUs(name string) (others cpuset.Set) {
	for other, g := range op.groups {
		if other != name && g.populated {
			others = others.Union(g.settings.CPUs)
		}
	}
	return others
}

// adopted makes a grant out of what the kernel has and the container's request,
// if that is still known. others are the CPUs of all other containers.
func (op *operation) adopted(name string, has cgroup.Settings, others cpuset.Set) Grant {
	g := Grant{State: Running, Since: state.SinceBoot()}
	g.ID = name
	known := op.store.LoadRequest(&g)
	if known { // an earlier version may have stored arguments
		if err := op.store.SaveHidingCommand(&g); err != nil {
			op.log.Warn("its request is not saved", "container", name, "error", err)
		}
	}
	asked := g.Limit
	if !known {
		g.Spec = spec.Spec{Period: bandwidth.DefaultPeriod, Burst: spec.Burst{Time: has.Burst}, View: spec.ViewAffinity, OnResize: "none", Command: "(unknown)"}
		if _, err := op.store.ShownCPUs(name); err == nil || errors.Is(err, view.ErrLeased) {
			g.View = spec.ViewFull
		}
	}
	if has.Period >= bandwidth.MinPeriod {
		g.Period = has.Period
	}
	g.CPUs = has.CPUs
	g.Quota = hybrid.Milli((has.Quota*1000 + g.Period/2) / g.Period)
	if g.Burst.Raises() { // it may have been raised
		g.Quota = min(g.Quota, asked)
	}
	g.Weight = hybrid.Milli(has.Weight)
	g.Limit = g.Quota
	if !known {
		g.Class = classOf(has, g.Limit, others)
	}
	if g.Class == hybrid.Flexible {
		return g
	}
	g.Guarantee = 0
	if g.Limit == 0 {
		g.Limit = hybrid.Milli(1000 * g.CPUs.Count())
	}
	g.Exclusive = g.CPUs
	if part := g.Limit % 1000; part != 0 {
		cpu := fractionalCPU(g.CPUs, others)
		g.Exclusive.Remove(cpu)
		g.Fractions = []hybrid.Fraction{{CPU: cpu, Milli: part}}
	}
	return g
}

// classOf guesses the class of a container of which only the group is known: a
// sensitive one has as many CPUs as its quota is worth, or CPUs of its own.
func classOf(has cgroup.Settings, limit hybrid.Milli, others cpuset.Set) hybrid.Class {
	isSensitive := limit.CPUs() == has.CPUs.Count()
	if limit == 0 {
		isSensitive = !has.CPUs.Overlaps(&others)
	}
	if isSensitive {
		return hybrid.Sensitive
	}
	return hybrid.Flexible
}

// fractionalCPU returns the CPU that most likely carries a container's fraction:
// one that others have too, else the highest.
func fractionalCPU(cpus, others cpuset.Set) int {
	if both := cpus.Intersect(others); !both.IsEmpty() {
		return both.First()
	}
	return cpus.Last()
}

// HelperCommand is the hidden subcommand of candor that becomes the program.
// It is started before the lock is taken, in a mount namespace of its own, and
// waits on a socket while its group is made around it. If the socket closes without
// an order it ends: a killed candor leaves an empty group. The socket closes again when the program is executed; if
// that fails, the helper writes a byte first.
const HelperCommand = "internal-exec"

// isCandor reports whether a process executes this candor, as helpers do. A command line alone proves nothing: every program
// chooses its own. A process of an inner pid namespace is no helper. Without the right to see the file of another user's
// process, the pid namespace decides alone.
func isCandor(pid int) bool {
	dir := fmt.Sprintf("/proc/%d", pid)
	id, err := procfs.ReadIdentity(dir)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) // it has ended meanwhile
	}
	if id.Namespaces != 1 {
		return false
	}
	self, err := os.Stat("/proc/self/exe")
	if err != nil {
		return true
	}
	file, err := os.Stat(dir + "/exe")
	return err != nil || os.SameFile(self, file)
}
