package host

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/errline"
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
	creator, err := ownProcess()
	if err != nil {
		return nil, err
	}
	g := &Grant{Spec: a.Spec, Engine: a.Engine, State: Pending, Creator: creator, Since: sinceBoot()}
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
		err = a.Burst.checkKernel()
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
	return op.store.saveRequest(g)
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
			saved.Grant = whole(g.Grant, op.info[g.ID].Grant)
			grants[i] = &saved
		}
	}
	return grants
}
