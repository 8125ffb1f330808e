package host

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
)

// A host with PlanOnly records planned grants. It plans the containers of engines like any other host. It writes only its own
// state, but no cgroup and no view.

// ErrPlanOnly means that the state belongs to a host with PlanOnly, so that its grants were never written to cgroups.
var ErrPlanOnly = errors.New("is a plan only")

// setPlanOnly detects whether the state is a plan, and refuses to turn a real state into a plan.
func (h *Host) setPlanOnly(wanted bool) error {
	h.isPlan, h.planOnly = wanted || h.store.IsPlan(), wanted
	if !h.isPlan {
		return nil
	}
	if h.store.IsInUse() {
		return fmt.Errorf("%w %s: it holds the state of real containers; use another directory for a plan", state.ErrBadDir, h.store.Dir)
	}
	h.config = h.store.PlanOptionsFile()
	if !wanted {
		return nil
	}
	return h.store.Prepare()
}

// Claim creates the state directory and marks it as a real state, as the first operation would. A process calls Claim if its
// first operation can come much later. Without this call, another process could turn the directory into a plan in the meantime.
// The error is ErrPlanOnly if the directory holds a plan. On a host that only plans, Claim does nothing.
func (h *Host) Claim() error {
	if err := h.CheckPlanOnly(); err != nil || h.planOnly {
		return err
	}
	if err := h.store.Prepare(); err != nil {
		return err
	}
	lock, err := os.OpenFile(h.store.LockFile(), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("state lock: %w", err)
	}
	return lock.Close()
}

// CheckPlanOnly returns ErrPlanOnly if the state is a plan and this host was opened without PlanOnly. Every operation
// calls it.
func (h *Host) CheckPlanOnly() error {
	if h.isPlan && !h.planOnly {
		return fmt.Errorf("%w: the state in %s %w; ps, map and inspect show it, but it cannot be changed", state.ErrBadDir, h.store.Dir, ErrPlanOnly)
	}
	return nil
}

// ownGroups reads the cgroups of Candor. It returns none for a host that only plans.
func (h *Host) ownGroups() (map[string]*group, error) {
	if h.planOnly {
		return map[string]*group{}, nil
	}
	// Claim the tree before reading any cgroup: this host must not end or adopt the cgroups of another state.
	if err := h.tree.Claim(); err != nil {
		return nil, err
	}
	return h.observe()
}

// planRunning plans a running container as if it were created now.
func (op *operation) planRunning(a *Allocation) error {
	g := &Grant{Spec: a.Spec, Engine: a.Engine, State: Running, Since: state.SinceBoot()}
	g.Request = a.Request
	op.raiseHelpers(g)
	err := op.place(g, nil)
	if errors.As(err, new(*hybrid.Refusal)) {
		op.log.Warn("would refuse", logName(a.ID, &a.Engine), "reason", nameRefusal(err, g))
		return nil
	}
	if err != nil {
		return err
	}
	op.info[a.ID] = g
	g.Grant, _ = op.node.Grant(a.ID)
	op.log.Info("would plan", logName(a.ID, &a.Engine), "class", g.Class, "limit", g.Limit, "cpus", g.CPUs)
	return nil
}

// savePlan saves the planned grants and writes no cgroup.
func (op *operation) savePlan(grants []*Grant) error {
	if err := op.saveGrants(grants); err != nil {
		return err
	}
	op.removeStaleFiles()
	op.report.Moves = op.countMoves(grants)
	return nil
}
