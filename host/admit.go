package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/spec"
)

// Admit reserves CPUs for a container of an engine, before the engine creates the container's cgroup. When it returns,
// no other container of Candor runs on the container's exclusive CPUs. If the pod holds CPUs for an ended container of
// the same name, the new container takes over these CPUs. The error is ErrIDTaken if a container of that name still
// runs.
//
// room is the CPU time that all grants of the pod can reserve together. Admit first frees CPUs that the pod holds for ended
// containers, until the new container fits into room. If room is 0, Admit frees all such CPUs. So room need not cover both an
// ended init container and the next container of the pod. On an error nothing has changed.
func (h *Host) Admit(ctx context.Context, a Allocation, room hybrid.Milli) (*Grant, error) {
	err := a.checkEngine()
	if err == nil {
		err = h.CheckEngineGroup(a.Engine.Cgroup)
	}
	if err == nil {
		err = h.resolveView(&a)
	}
	if err != nil {
		return nil, err
	}
	creator, err := state.OwnProcess()
	if err != nil {
		return nil, err
	}
	g := &Grant{Spec: a.Spec, Engine: a.Engine, State: Pending, Creator: creator, Since: state.SinceBoot()}
	g.Request = a.Request
	if a.Deadline > 0 {
		g.Deadline = g.Since + a.Deadline
	}
	h.tops.learn(a.Engine.Cgroup)
	err = h.operateOn(ctx, scope{g.ID, g.Engine.Pod}, func(op *operation) error {
		op.subject, op.starting, op.hint = g.ID, &a, a.Hint
		err := op.withRollback(func() error { return op.admit(g, room, a.EngineRequest) })
		op.reportHint(g, err)
		return nameRefusal(err, g)
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// checkEngine returns an error if an allocation is invalid for a container of an engine.
func (a *Allocation) checkEngine() error {
	err := a.Check()
	if err == nil {
		err = checkKernelBurst(a.Burst)
	}
	if err == nil && (a.Engine.Cgroup == "" || a.PID != 0) {
		err = fmt.Errorf("%w: %s: needs the path of its engine's cgroup and no process", ErrBadSpec, a.ID)
	}
	return err
}

func (op *operation) admit(g *Grant, room hybrid.Milli, request *EngineRequest) error {
	if k := op.groups[g.ID]; k != nil && k.populated {
		return &hybrid.Refusal{ID: g.ID, Kind: hybrid.ErrIDTaken, Text: "a container of that name still runs; end it first"}
	}
	old := op.info[g.ID]
	if old != nil && old.Engine.Pod != g.Engine.Pod {
		return &hybrid.Refusal{ID: g.ID, Kind: hybrid.ErrIDTaken, Text: "a container of another pod has that name"}
	}
	if old != nil {
		previous := *old // withRollback restores the original
		old = &previous
		old.Grant, _ = op.node.Grant(g.ID)
		if err := op.removeFromNode(g.ID); err != nil {
			return err
		}
	}
	if err := op.releaseHeld(g, room); err != nil {
		return err
	}
	if err := op.placeWithin(g, old); err != nil {
		return err
	}
	op.info[g.ID] = g
	if err := op.store.SaveRequest(g); err != nil {
		return err
	}
	return op.saveEngineRequest(g, request)
}

// removeFromNode removes an ended container from the node, because the container to admit has the same name.
func (op *operation) removeFromNode(name string) error {
	plan, err := op.node.PlanRelease(name)
	if err == nil {
		err = op.node.Commit(plan)
	}
	if err == nil {
		delete(op.groups, name)
		delete(op.info, name)
	}
	return err
}

// releaseHeld ends held containers of g's pod until g and the remaining containers fit into room. It begins with the container that has
// been held for the longest time. If room is 0, it ends all held containers of the pod.
func (op *operation) releaseHeld(g *Grant, room hybrid.Milli) error {
	if g.Engine.Pod == "" {
		return nil
	}
	sum := g.Guaranteed()
	var held []*Grant
	for _, other := range op.info {
		if other.Engine.Pod != g.Engine.Pod {
			continue
		}
		sum += other.Guaranteed()
		if other.State == Held {
			held = append(held, other)
		}
	}
	slices.SortFunc(held, func(a, b *Grant) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.ID, b.ID))
	})
	for _, other := range held {
		if room != 0 && sum <= room {
			break
		}
		sum -= other.Guaranteed()
		if err := op.end(other.ID); err != nil {
			return err
		}
	}
	return nil
}

// withRollback runs change. If change fails, withRollback restores the node, op.ended and op.groups.
func (op *operation) withRollback(change func() error) error {
	saved, ended := op.wholeGrants(), slices.Clone(op.ended)
	groups := maps.Clone(op.groups)
	err := change()
	if err == nil {
		return nil
	}
	op.ended, op.groups = ended, groups
	if back := op.restoreAll(saved); back != nil {
		return errline.Join(err, back)
	}
	return err
}

// wholeGrants returns the node's grants together with their lost CPUs.
func (op *operation) wholeGrants() []*Grant {
	grants := op.grants()
	for i, g := range grants {
		if !g.Lost.IsEmpty() {
			saved := *g
			saved.Grant = state.WithLost(g.Grant, op.info[g.ID].Grant)
			grants[i] = &saved
		}
	}
	return grants
}

// HintResult is the outcome of a hint.
type HintResult string

// Outcomes of a hint.
const (
	NoHint     HintResult = ""       // no hint, or the container took over held CPUs
	HintTaken  HintResult = "taken"  // the container has exactly the hinted CPUs
	HintMissed HintResult = "missed" // the CPUs were not free, or the node's own plan is better
)

// planHinted plans a container on a node. It uses op.hint if that is not nil.
func (op *operation) planHinted(node *hybrid.Node, r hybrid.Request) (*hybrid.Plan, error) {
	if op.hint == nil {
		return node.Plan(r)
	}
	plan, taken, err := node.PlanHinted(r, op.hint)
	op.report.Hint = HintMissed
	if taken {
		op.report.Hint = HintTaken
	}
	return plan, err
}

// reportHint logs a hint that the new plan did not follow. If the container was refused (err), it resets the outcome of the hint in the
// Report.
func (op *operation) reportHint(g *Grant, err error) {
	switch {
	case err != nil:
		op.report.Hint = NoHint
	case op.report.Hint == HintMissed:
		op.log.Info("planned again: the hint does not fit, or the new plan is better", logName(g.ID, &g.Engine), "hinted", op.hint.CPUs(), "cpus", g.CPUs)
	}
}

// MatchesGrant reports whether the cgroup of an admitted container has the settings of its grant and, if pid is not 0, contains this
// process. If so, the container can start, and RecordRunning can follow later: every later change of the grant finds the cgroup and updates
// it.
//
// MatchesGrant does not wait for the lock. While another operation runs, it returns false: the other operation can have read the
// cgroups before the engine created the cgroup of this container, and would not update it.
func (h *Host) MatchesGrant(a *Allocation, pid int) bool {
	lock, free := tryLock(h.store.LockFile())
	if !free {
		return false
	}
	defer lock.release()
	s, err := h.store.Load()
	if err != nil {
		return false
	}
	if boot, err := procfs.BootID(); err != nil || s.Boot != boot {
		return false
	}
	i := slices.IndexFunc(s.Grants, func(g *Grant) bool { return g.ID == a.ID })
	if i < 0 || s.Grants[i].Engine != a.Engine || s.Grants[i].State == Held || s.Grants[i].Mems {
		return false
	}
	k, err := readSettings(h.groupOf(s.Grants[i]))
	if err != nil || !k.populated {
		return false
	}
	wanted := h.settings(s.Grants[i])
	wanted.Mems = k.settings.Mems
	wanted.Weight = k.settings.Weight // the runtime rounds the weight; a later operation writes it
	if pid != 0 {
		if contains, err := k.Contains(pid); err != nil || !contains {
			return false
		}
	}
	return k.settings == wanted
}

// RecordRunning records that a container, for which MatchesGrant returned true, is running. It changes nothing if the
// container has ended or another container has taken its name.
func (h *Host) RecordRunning(ctx context.Context, a *Allocation, pid int) error {
	var main Process
	if pid != 0 {
		var err error
		if main, err = state.ProcessOf(pid); err != nil {
			return nil //nolint:nilerr // the process has ended
		}
	}
	return h.operateOn(ctx, scope{a.ID, a.Engine.Pod}, func(op *operation) error {
		g, k := op.info[a.ID], op.groups[a.ID]
		if g == nil || g.Engine != a.Engine || k == nil || !k.populated {
			return nil
		}
		g.State, g.Deadline, g.Main = Running, 0, main
		op.learnWeightScale(g)
		return nil
	})
}

// ErrElsewhere means that a runtime created a container's cgroup at another path than planned.
var ErrElsewhere = errors.New("its cgroup is not at the planned path")

// Prepare creates the empty cgroup of a pending grant, into which a runtime puts the container. A runtime would create the cgroup
// step by step (on v1 in one hierarchy after the other), and a concurrent operation would remove the incomplete cgroup. With
// systemd, Prepare does nothing, because the runtime asks systemd for the cgroup.
func (h *Host) Prepare(ctx context.Context, name string) error {
	if h.tree.Driver() == cgroup.Systemd {
		return nil
	}
	return h.operate(ctx, func(op *operation) error {
		if op.info[name] == nil {
			return unknownContainer(name)
		}
		op.newcomer = &newcomer{name: name}
		return nil
	})
}

// OCIPath returns the path at which a runtime must create a container's cgroup, in the format of linux.cgroupsPath.
// systemd reports whether the path has the form for the systemd driver.
func (h *Host) OCIPath(name string) (path string, systemd bool) {
	return h.tree.OCIPath(name), h.tree.Driver() == cgroup.Systemd
}

// ExpectMoves speeds up moves between cgroups for a short time, because a runtime is about to move a container's first process. It returns
// at once, and does nothing on a host that only plans.
func (h *Host) ExpectMoves() {
	if !h.planOnly {
		_ = h.tree.WarmMoves()
	}
}

// ConfirmOCIStart records that a runtime has created the cgroup of a pending grant. pid is the container's first
// process, which has not executed the program yet. When ConfirmOCIStart returns, the cgroup has the settings of the
// present grant, which can have changed since the allocation. The error is ErrElsewhere if the process is not in the
// expected cgroup.
func (h *Host) ConfirmOCIStart(ctx context.Context, name string, pid int) error {
	first, err := state.ProcessOf(pid)
	if err != nil {
		return err
	}
	return h.operate(ctx, func(op *operation) error {
		g := op.info[name]
		if g == nil {
			return unknownContainer(name)
		}
		op.subject = name
		if err := op.checkPlace(name, cmp.Or(g.Engine.Cgroup, op.tree.OCIPath(name)), pid); err != nil {
			return err
		}
		g.State, g.Deadline, g.Main = Running, 0, first
		op.learnWeightScale(g)
		return op.store.SaveRequest(g)
	})
}

// checkPlace refuses a container whose processes are not in the expected cgroup. pid, if not 0, must be among them.
func (op *operation) checkPlace(name, path string, pid int) error {
	k := op.groups[name]
	if k == nil || !k.populated {
		return fmt.Errorf("%s: %w (%s); configure the same cgroup driver for the engine and Candor", op.displayName(name), ErrElsewhere, path)
	}
	if pid == 0 {
		return nil
	}
	contains, err := k.Contains(pid)
	if err == nil && !contains {
		err = fmt.Errorf("%s: %w: process %d is not in %s", op.displayName(name), ErrElsewhere, pid, path)
	}
	return err
}

// FirstIn returns the oldest process in the cgroup of an engine's container, for engines that do not name the first
// process. It returns 0 if there is no process or no such cgroup.
func (h *Host) FirstIn(name, path string) (pid int) {
	const maxInspected = 1000 // the kernel lists the oldest processes first (v2), or those with the lowest ids (v1)
	var first Process
	inspected := 0
	_, err := h.tree.EngineGroup(name, path).AnyProcess(func(pid int) bool {
		if p, err := state.ProcessOf(pid); err == nil && (first.PID == 0 || p.Start < first.Start) {
			first = p
		}
		inspected++
		return inspected == maxInspected
	})
	if err != nil && !errors.Is(err, cgroup.ErrTooMany) {
		return 0
	}
	return first.PID
}

// checkKernelBurst refuses a burst that this kernel does not support.
func checkKernelBurst(b spec.Burst) error {
	if needs := b.By == spec.BurstKernel || b.Time > 0; needs && !kernelHasBurst() {
		return fmt.Errorf("%w: burst %v: this kernel has no burst (Linux 5.14 and later have it); use quota, auto or none", ErrBadSpec, b)
	}
	return nil
}
