package host

import (
	"errors"
	"fmt"
	"os"

	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"golang.org/x/sys/unix"
)

// A host that plans only says what would be. It plans as any other does, on a state of its own, for the containers that engines run,
// and writes nothing but that state: no group, no view.

// ErrPlanOnly: the state is one that says what would be.
var ErrPlanOnly = errors.New("is a plan only")

// setPlanOnly finds out whether the state is a plan, and refuses to make one of a true state.
func (h *Host) setPlanOnly(wanted bool) error {
	h.isPlan, h.planOnly = wanted || h.store.IsPlan(), wanted
	if !h.isPlan {
		return nil
	}
	if h.store.IsInUse() {
		return fmt.Errorf("%w %s: what containers have is kept there: want another one for what is a plan only", state.ErrBadDir, h.store.Dir)
	}
	h.config = h.store.PlanOptionsFile()
	if !wanted {
		return nil
	}
	return h.store.Prepare()
}

// Claim makes the state directory, and makes it one that nobody can make a plan of, as the first operation would:
// for who runs for long before that. A plan cannot be claimed (ErrPlanOnly), but by who plans only.
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

// CheckPlanOnly refuses to make a plan true (ErrPlanOnly), as every operation does.
func (h *Host) CheckPlanOnly() error {
	if h.isPlan && !h.planOnly {
		return fmt.Errorf("%w: the state in %s %w: ps, map and inspect show it, nothing can be changed there", state.ErrBadDir, h.store.Dir, ErrPlanOnly)
	}
	return nil
}

// ownGroups reads the groups of Candor's own; none for a host that plans only.
func (h *Host) ownGroups() (map[string]*group, error) {
	if h.planOnly {
		return map[string]*group{}, nil
	}
	// Before any group is looked at: another state's are not for us to end or adopt.
	if err := h.tree.Claim(); err != nil {
		return nil, err
	}
	return h.observe()
}

// foresee plans a container that runs as if it were to be made now.
func (op *operation) foresee(a *Allocation) error {
	g := &Grant{Spec: a.Spec, Engine: a.Engine, State: Running, Since: state.SinceBoot()}
	g.Request = a.Request
	err := op.place(g, nil)
	if errors.As(err, new(*hybrid.Refusal)) {
		op.log.Warn("would refuse", "container", a.Engine.Name, "reason", err)
		return nil
	}
	if err != nil {
		return err
	}
	op.info[a.ID] = g
	g.Grant, _ = op.node.Grant(a.ID)
	op.log.Info("would plan", "container", a.Engine.Name, "class", g.Class, "limit", g.Limit, "cpus", g.CPUs)
	return nil
}

// note saves what was planned, and makes nothing of it true.
func (op *operation) note(grants []*Grant) error {
	if err := op.saveGrants(grants); err != nil {
		return err
	}
	op.tidy()
	op.report.Moves = op.moves(grants)
	return nil
}
