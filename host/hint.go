package host

import "github.com/candor-project/candor/hybrid"

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
