package host

import (
	"fmt"
	"slices"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// A container that cannot leave its CPUs, since the kernel refuses to shrink its cpuset, does not refuse another
// container as long as other CPUs fit. The operation is planned again, and none of those CPUs (operation.avoid) becomes
// exclusive. Such a plan moves no fraction of other containers.

// stuckName begins the ids of placeholders. No container has such a name: names have no spaces.
const stuckName = "stuck containers"

// planAround plans a sensitive container without the CPUs to avoid.
func (op *operation) planAround(r hybrid.Request) (*hybrid.Plan, error) {
	trial, err := op.trialNode(r.ID, hybrid.Grant{})
	if err != nil {
		return nil, err
	}
	plan, err := trial.Plan(r)
	if err != nil {
		return nil, op.refusedByStuck(err)
	}
	return op.planAt(plan, r)
}

// planAt repeats a trial's plan on the node.
func (op *operation) planAt(trial *hybrid.Plan, r hybrid.Request) (*hybrid.Plan, error) {
	if trial.Moves > 0 {
		return nil, op.refusedByStuck(&hybrid.Refusal{ID: r.ID, Kind: hybrid.ErrViewImpossible, Text: "it needs a move of other containers' fractions"})
	}
	plan, err := op.node.PlanAt(r, &hybrid.Hint{Exclusive: trial.Grant.Exclusive, Fractions: slices.Clone(trial.Grant.Fractions)})
	if err != nil {
		return nil, op.refusedByStuck(err)
	}
	return plan, nil
}

// resizeAround resizes a sensitive container without the CPUs to avoid. The container keeps its exclusive CPUs; its fraction may move.
func (op *operation) resizeAround(name string, limit, guarantee hybrid.Milli) error {
	now, _ := op.node.Grant(name)
	r := now.Request
	r.Limit, r.Guarantee = limit, guarantee
	kept := hybrid.Grant{Request: r, CPUs: now.Exclusive, Exclusive: now.Exclusive}
	kept.Limit, kept.Guarantee = hybrid.Milli(1000*now.Exclusive.Count()), 0
	var plan *hybrid.Plan
	trial, err := op.trialNode(name, kept)
	if err != nil {
		return err
	}
	if kept.Limit == 0 {
		plan, err = trial.Plan(r)
	} else {
		plan, err = trial.PlanResize(name, limit, guarantee)
	}
	if err != nil {
		return op.refusedByStuck(err)
	}
	return op.attempt(func() error {
		g := op.info[name]
		// PlanRelease would move fractions of other containers.
		without := slices.DeleteFunc(op.wholeGrants(), func(g *Grant) bool { return g.ID == name })
		if err := op.restoreAll(without); err != nil {
			return err
		}
		op.info[name] = g
		placed, err := op.planAt(plan, plan.Grant.Request)
		if err != nil {
			return err
		}
		return op.node.Commit(placed)
	})
}

// trialNode returns a node with all sensitive containers but one. Of that one it has kept, a grant of its exclusive CPUs, if
// the limit of kept is not 0. Placeholders are on the shared CPUs among those to avoid. The real node checks the
// needs of the flexible containers.
func (op *operation) trialNode(without string, kept hybrid.Grant) (*hybrid.Node, error) {
	options := op.basis.options
	options.MinShared = 0
	node, err := options.node(op.basis.machine, op.basis.usable)
	if err != nil {
		return nil, err
	}
	grants := slices.DeleteFunc(op.node.Grants(), func(g hybrid.Grant) bool { return g.ID == without || g.Class == hybrid.Flexible })
	for i := range grants { // else the plan spreads their fractions over the room of the flexible containers
		grants[i].Immovable = true
	}
	if kept.Limit > 0 {
		grants = append(grants, kept)
	}
	if err := node.Restore(grants); err != nil {
		return nil, err
	}
	taken := op.avoid.Intersect(node.Pools().Shared)
	if taken.IsEmpty() {
		return node, nil
	}
	return node, node.Restore(placeholders(taken))
}

// placeholders returns grants of the smallest fraction of each CPU. The CPU cannot become exclusive then, and a fraction still fits.
func placeholders(cpus cpuset.Set) (all []hybrid.Grant) {
	for cpu := range cpus.All() {
		g := hybrid.Grant{CPUs: cpuset.Of(cpu), Fractions: []hybrid.Fraction{{CPU: cpu, Milli: hybrid.MinLimit}}}
		g.ID, g.Limit, g.Wish, g.Immovable = fmt.Sprint(stuckName, " ", cpu), hybrid.MinLimit, hybrid.AnyCPUs, true
		all = append(all, g)
	}
	return all
}

// refusedByStuck adds the containers that are stuck to a refusal.
func (op *operation) refusedByStuck(refusal error) error {
	err := refusal
	for _, stuck := range op.stuck {
		err = fmt.Errorf("%w; %w", err, stuck)
	}
	return err
}
