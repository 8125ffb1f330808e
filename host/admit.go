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
)

// Admit gives a container of an engine its CPUs before the engine makes its group: when it
// returns, nobody else runs on its exclusive CPUs. A container of the same
// name and pod takes over what is held for it; one that still runs is ErrIDTaken. room, if not 0, is what the pod may count towards the node's
// capacity in all: what it holds beyond that, of containers that have ended, is freed first, so that
// an init container and its successor don't count twice. On an error nothing has changed.
func (h *Host) Admit(ctx context.Context, a Allocation, room hybrid.Milli) (*Grant, error) {
	err := a.checkEngine()
	if err == nil {
		err = h.CheckEngineGroup(a.Engine.Cgroup)
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
	err = h.operateOn(ctx, about{g.ID, g.Engine.Pod}, func(op *operation) error {
		op.subject, op.hint = g.ID, a.Hint
		err := op.attempt(func() error { return op.admit(g, room) })
		op.tellHint(g, err)
		return err
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// checkEngine is Check for a container of an engine.
func (a *Allocation) checkEngine() error {
	err := a.Check()
	if err == nil {
		err = checkKernelBurst(a.Burst)
	}
	if err == nil && (a.Engine.Cgroup == "" || a.PID != 0) {
		err = fmt.Errorf("%w: %s: want the group that its engine makes", ErrBadSpec, a.ID)
	}
	return err
}

func (op *operation) admit(g *Grant, room hybrid.Milli) error {
	if k := op.groups[g.ID]; k != nil && k.populated {
		return &hybrid.Refusal{ID: g.ID, Kind: hybrid.ErrIDTaken, Text: "a container of that name still runs: want it ended first"}
	}
	old := op.info[g.ID]
	if old != nil && old.Engine.Pod != g.Engine.Pod {
		return &hybrid.Refusal{ID: g.ID, Kind: hybrid.ErrIDTaken, Text: "a container of another pod has that name"}
	}
	if old != nil {
		was := *old // attempt may want it as it is
		old = &was
		old.Grant, _ = op.node.Grant(g.ID)
		if err := op.vacate(g.ID); err != nil {
			return err
		}
	}
	if err := op.freeHeld(g, room); err != nil {
		return err
	}
	if err := op.placeWithin(g, old); err != nil {
		return err
	}
	op.info[g.ID] = g
	return op.store.SaveRequest(g)
}

// vacate takes a container off the node that goes on under the same name.
func (op *operation) vacate(name string) error {
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

// freeHeld ends what a pod holds beyond its room, the longest held first. Without a known
// room all is freed that is held for others than the container.
func (op *operation) freeHeld(g *Grant, room hybrid.Milli) error {
	if g.Engine.Pod == "" {
		return nil
	}
	sum := counts(&g.Request)
	var held []*Grant
	for _, other := range op.info {
		if other.Engine.Pod != g.Engine.Pod {
			continue
		}
		sum += counts(&other.Request)
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
		sum -= counts(&other.Request)
		if err := op.end(other.ID); err != nil {
			return err
		}
	}
	return nil
}

// counts is what a request counts towards the node's capacity.
func counts(r *hybrid.Request) hybrid.Milli {
	switch {
	case r.Guarantee == hybrid.NoGuarantee:
		return 0
	case r.Guarantee != 0:
		return r.Guarantee
	default:
		return r.Limit
	}
}

// attempt undoes on the node what a change has done until it failed.
func (op *operation) attempt(change func() error) error {
	saved, over := op.wholeGrants(), slices.Clone(op.over)
	groups := maps.Clone(op.groups)
	err := change()
	if err == nil {
		return nil
	}
	op.over, op.groups = over, groups
	if back := op.restoreAll(saved); back != nil {
		return errline.Join(err, back)
	}
	return err
}

// wholeGrants are the node's grants with what they have lost.
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

// HintResult is what became of a hint.
type HintResult string

const (
	NoHint     HintResult = ""       // there was none, or the container took over what was held for it
	HintTaken  HintResult = "taken"  // the container has just those CPUs
	HintMissed HintResult = "missed" // they were not free, or the node's own plan is better
)

// planHinted plans a container that has no place yet.
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

// tellHint says what became of a container's hint, once the container is planned.
func (op *operation) tellHint(g *Grant, err error) {
	switch {
	case err != nil:
		op.report.Hint = NoHint
	case op.report.Hint == HintMissed:
		op.log.Info("planned anew: the hint does not fit, or is worse", "container", g.ID, "hinted", op.hint.CPUs(), "cpus", g.CPUs)
	}
}

// MatchesGrant reports whether a container that was admitted, and whose group its engine has made since, has all that its
// grant says, and the process is its own (0: not known). It may start then, and Note may follow later: whoever changes the
// grant from now on finds the group, and gives it what it is to have. It does not wait: while an operation goes on, which may
// have looked before the group was there, nothing is known to be as planned.
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
	k, err := read(h.groupOf(s.Grants[i]))
	if err != nil || !k.populated {
		return false
	}
	want := h.settings(s.Grants[i])
	want.Mems = k.settings.Mems
	want.Weight = k.settings.Weight // the runtime's way to write it may round it: Note sets it right
	if pid != 0 {
		if has, err := k.Contains(pid); err != nil || !has {
			return false
		}
	}
	return k.settings == want
}

// RecordRunning notes that a container has begun that was found to be as planned: nothing else of it. One that has
// ended since, or has been replaced by another of its name, is left as it is.
func (h *Host) RecordRunning(ctx context.Context, a *Allocation, pid int) error {
	var main Process
	if pid != 0 {
		var err error
		if main, err = state.ProcessOf(pid); err != nil {
			return nil // it has ended
		}
	}
	return h.operateOn(ctx, about{a.ID, a.Engine.Pod}, func(op *operation) error {
		g, k := op.info[a.ID], op.groups[a.ID]
		if g == nil || g.Engine != a.Engine || k == nil || !k.populated {
			return nil
		}
		g.State, g.Deadline, g.Main = Running, 0, main
		return nil
	})
}

// ErrElsewhere: a runtime has made a container's group, but not where it was to be.
var ErrElsewhere = errors.New("its group is not where Candor wants it")

// Prepare makes the empty group of a pending grant, for a runtime that puts the container
// into it: one that made it itself, a hierarchy after the other, would be taken for half a group
// meanwhile. With systemd it does nothing: there the runtime asks systemd for it.
func (h *Host) Prepare(ctx context.Context, name string) error {
	if h.tree.Driver() == cgroup.Systemd {
		return nil
	}
	return h.operate(ctx, func(op *operation) error {
		if op.info[name] == nil {
			return unknown(name)
		}
		op.newcomer = &newcomer{name: name}
		return nil
	})
}

// OCIPath is where a runtime has to make a container's group, as linux.cgroupsPath of
// its configuration writes it; systemd says in which of the two forms.
func (h *Host) OCIPath(name string) (path string, systemd bool) {
	return h.tree.OCIPath(name), h.tree.Driver() == cgroup.Systemd
}

// ExpectMoves has the kernel get ready for a runtime's moving a container's first process into its groups, so that the runtime
// waits less for that. It does not wait itself, and does nothing for a host that plans only.
func (h *Host) ExpectMoves() {
	if !h.planOnly {
		_ = h.tree.WarmMoves()
	}
}

// ConfirmOCIStart tells that a runtime has made the group of a pending grant, with a first
// process that has not begun its program. When ConfirmOCIStart returns, the group has
// what the grant says now: others may have moved it since it was planned. ErrElsewhere: the
// process is in no group of that name.
func (h *Host) ConfirmOCIStart(ctx context.Context, name string, pid int) error {
	first, err := state.ProcessOf(pid)
	if err != nil {
		return err
	}
	return h.operate(ctx, func(op *operation) error {
		g := op.info[name]
		if g == nil {
			return unknown(name)
		}
		op.subject = name
		if err := op.checkPlace(name, cmp.Or(g.Engine.Cgroup, op.tree.OCIPath(name)), pid); err != nil {
			return err
		}
		g.State, g.Deadline, g.Main = Running, 0, first
		return op.store.SaveRequest(g)
	})
}

// checkPlace refuses a container whose processes are not in the group that it is to have; pid, if not 0, is one of them.
func (op *operation) checkPlace(name, path string, pid int) error {
	k := op.groups[name]
	if k == nil || !k.populated {
		return fmt.Errorf("%s: %w (not %s): want the engine's cgroup driver and Candor's to be the same", name, ErrElsewhere, path)
	}
	if pid == 0 {
		return nil
	}
	has, err := k.Contains(pid)
	if err == nil && !has {
		err = fmt.Errorf("%s: %w: process %d is not among those in %s", name, ErrElsewhere, pid, path)
	}
	return err
}

// FirstIn is the first process of an engine's container by its group, for engines that do not name it: the one that began
// first. 0: there is none, or no such group.
func (h *Host) FirstIn(name, path string) (pid int) {
	const most = 1000 // the kernel lists the oldest processes first (v2), or those with the lowest ids (v1)
	var first Process
	inspected := 0
	_, err := h.tree.EngineGroup(name, path).AnyProcess(func(pid int) bool {
		if p, err := state.ProcessOf(pid); err == nil && (first.PID == 0 || p.Start < first.Start) {
			first = p
		}
		inspected++
		return inspected == most
	})
	if err != nil && !errors.Is(err, cgroup.ErrTooMany) {
		return 0
	}
	return first.PID
}
