package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/spec"
	"github.com/candor-project/candor/view"
)

// clearOrphans removes cgroups of Candor that have no grant in the state and run no program. Such a cgroup remains if candor was
// killed, possibly with a waiting helper (HelperCommand). clearOrphans does not remove cgroups of engines.
func (op *operation) clearOrphans() {
	for name, g := range op.groups {
		if op.before[name] != nil {
			continue
		}
		if g.unreadable != nil {
			continue
		}
		if runs, err := g.runsProgram(); err != nil {
			op.log.Warn("cannot read a cgroup that is missing from the state", "container", name, "error", err)
			delete(op.groups, name)
			continue
		} else if runs {
			continue
		}
		if g.isEngineOwned() {
			delete(op.groups, name)
			continue
		}
		// A creator saves its grant before it releases the lock, which this operation holds now. The creator of this
		// cgroup is therefore dead.
		removed, err := op.remove(name, g.End)
		if err != nil {
			op.log.Warn("cannot remove a cgroup that a killed candor process left", "container", name, "error", err)
		}
		if removed {
			op.log.Info("removed a cgroup that a killed candor process left", "container", name)
		}
		delete(op.groups, name)
	}
}

// runsProgram reports whether a cgroup has a process other than a waiting helper.
func (g *group) runsProgram() (bool, error) {
	if !g.populated {
		return false, nil
	}
	runs, err := g.AnyProcess(func(pid int) bool { return !isHelper(pid) })
	switch {
	case errors.Is(err, cgroup.ErrNoGroup):
		return false, nil
	case errors.Is(err, cgroup.ErrTooMany): // helpers create no nested cgroups
		return true, nil
	}
	return runs, err
}

// isHelper reports whether a process is a helper of HelperCommand that still waits. A helper has the command line and
// the executable of candor until it executes the program.
func isHelper(pid int) bool {
	line, err := procfs.CommandText(pid)
	if err != nil {
		return !errors.Is(err, procfs.ErrSlow) // true if the process has ended, false if the read takes too long
	}
	args := strings.Split(line, "\x00")
	return len(args) > 1 && args[1] == HelperCommand && isCandor(pid)
}

// restore builds op.node, the allocator's model of this machine, from the grants of the state. It also adopts running containers without a
// grant. If the present CPUs of an adopted container conflict with the grants, the grants stay, and the container gets other CPUs
// (placeStray). If the grants contradict each other, restore drops the state and adopts all running containers.
func (op *operation) restore() error {
	grants := op.loaded.Grants
	orphans := op.orphans()
	if op.cached.isValid(op, op.basis) && len(orphans) == 0 {
		op.node, op.info = op.cached.node, op.cached.info
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
		op.readAssumed()
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
		op.placeStray(g)
	}
	return nil
}

// A noNodeError means that restoreAll could not create a node. The cause is the machine or its options, not the grants.
type noNodeError struct{ error }

func (e noNodeError) Unwrap() error { return e.error }

// restoreAll builds op.node from grants, and does not change their CPUs.
func (op *operation) restoreAll(grants []*Grant) error {
	node, b := op.emptyNode, op.basis
	if op.emptyNode = nil; node == nil {
		var err error
		if b, err = op.Host.basis(); err == nil {
			node, err = b.node(op.config)
		}
		if err != nil {
			return noNodeError{err}
		}
	}
	held := make([]hybrid.Grant, len(grants))
	copies := make([]Grant, len(grants))
	info := make(map[string]*Grant, len(grants))
	for i, g := range grants {
		copies[i] = *g
		info[g.ID], held[i] = &copies[i], g.Grant
		held[i].Immovable = g.Immovable || op.hasPinnedThreads(g)
	}
	if err := node.Restore(held); err != nil {
		return err
	}
	op.node, op.basis, op.info = node, b, info
	return nil
}

// hasPinnedThreads reports whether moving a container's fraction would reset an affinity that its threads have set
// themselves. Since Linux 6.2 the kernel preserves such an affinity.
func (op *operation) hasPinnedThreads(g *Grant) bool {
	k := op.groups[g.ID]
	if k == nil || len(g.Fractions) == 0 || cpusetKeepsAffinity() {
		return false
	}
	threads := maxPinned
	pins, err := k.AnyProcess(func(pid int) bool { return pinsThread(pid, k.settings.CPUs, &threads) })
	return pins || errors.Is(err, cgroup.ErrTooMany)
}

// placeStray plans other CPUs for a running container whose present CPUs cannot be granted. It tries the same request,
// then the policy best-effort, then the class flexible without a guarantee.
func (op *operation) placeStray(g *Grant) {
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
			op.log.Warn("adopted on other CPUs", logName(g.ID, &g.Engine), "class", g.Class, "had", g.CPUs)
			return
		}
	}
	op.log.Error("runs without a grant", logName(g.ID, &g.Engine), "cpus", g.CPUs, "reason", nameRefusal(err, g))
}

// orphans builds a grant for each container that runs without a grant, sorted by name.
func (op *operation) orphans() []*Grant {
	if op.planOnly {
		return nil // a plan does not adopt the kernel's settings
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
		adopted := op.adoptedGrant(name, op.groups[name].settings, op.otherCPUs(name))
		grants[i] = &adopted
		op.log.Info("adopted", logName(name, &adopted.Engine), "cpus", grants[i].CPUs, "limit", grants[i].Limit)
	}
	return grants
}

// otherCPUs returns the CPUs of all running containers except the named container.
func (op *operation) otherCPUs(name string) (others cpuset.Set) {
	for other, g := range op.groups {
		if other != name && g.populated {
			others = others.Union(g.settings.CPUs)
		}
	}
	return others
}

// adoptedGrant builds a grant from the kernel's settings and the container's saved request, if there is a saved
// request. others holds the CPUs of all other containers.
func (op *operation) adoptedGrant(name string, current cgroup.Settings, others cpuset.Set) Grant {
	g := Grant{State: Running, Since: state.SinceBoot()}
	g.ID = name
	g.HasHelper = op.tree.Group(name).HasHelpers()
	known := op.store.LoadRequest(&g)
	if known { // the request file of an earlier version can hold program arguments
		if err := op.store.SaveHidingCommand(&g); err != nil {
			op.log.Warn("cannot save a container's request", logName(name, &g.Engine), "error", err)
		}
	}
	requested := g.Limit
	if !known {
		g.Spec = spec.Spec{Period: bandwidth.DefaultPeriod, Burst: spec.Burst{Time: current.Burst}, View: spec.ViewAffinity, OnResize: "none", Command: "(unknown)"}
		if _, err := op.store.ShownCPUs(name); err == nil || errors.Is(err, view.ErrLeased) {
			g.View = op.mountedView(name, spec.ViewFullStat)
		}
	}
	if current.Period >= bandwidth.MinPeriod {
		g.Period = current.Period
	}
	g.CPUs = current.CPUs
	g.Quota = hybrid.Milli((current.Quota*1000 + g.Period/2) / g.Period)
	if g.Burst.Raises() { // Candor can have raised the quota
		g.Quota = min(g.Quota, requested)
	}
	g.Weight = hybrid.Milli(current.Weight)
	g.Limit = g.Quota
	if !known {
		g.Class = guessClass(current, g.Limit, others)
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

// guessClass guesses the class of a container without a saved request. It guesses sensitive if the number of the container's CPUs
// equals its quota, rounded up to whole CPUs, or if it has no quota and no other container has its CPUs.
func guessClass(current cgroup.Settings, limit hybrid.Milli, others cpuset.Set) hybrid.Class {
	isSensitive := limit.CPUs() == current.CPUs.Count()
	if limit == 0 {
		isSensitive = !current.CPUs.Overlaps(&others)
	}
	if isSensitive {
		return hybrid.Sensitive
	}
	return hybrid.Flexible
}

// fractionalCPU returns the CPU that most likely carries a container's fraction: the first CPU that another container
// has too, else the highest CPU.
func fractionalCPU(cpus, others cpuset.Set) int {
	if both := cpus.Intersect(others); !both.IsEmpty() {
		return both.First()
	}
	return cpus.Last()
}

// HelperCommand is a hidden subcommand of candor. Its process, the helper, waits until the cgroup is ready, and then executes the
// container's program. candor run starts the helper before it takes the lock, usually in a new mount namespace. The helper waits
// on a socket while candor creates the cgroup and moves the helper into it. If candor is killed, the socket closes without an
// order, the helper ends, and an empty cgroup remains. The socket also closes when the helper executes the program. If the
// program cannot be executed, the helper writes a byte before the socket closes.
const HelperCommand = "internal-exec"

// isCandor reports whether a process executes this candor binary, as helpers do. A command line alone proves nothing, because
// every program chooses its own. A process of an inner pid namespace is no helper. If isCandor cannot read the executable of the
// process, the result depends only on the pid namespace.
func isCandor(pid int) bool {
	dir := fmt.Sprintf("/proc/%d", pid)
	id, err := procfs.ReadIdentity(dir)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) // the process has ended
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
