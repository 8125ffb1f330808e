package host

import (
	"os"
	"time"

	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
)

// keepFor is how long the place of a container is kept that an OCI runtime has deleted: a restart
// by its engine is a deletion, and a creation with the same id right after it.
//
// What is kept is a preference. Flexible containers get the CPUs at once, since nothing may ever run
// again to give them back; other sensitive ones are planned elsewhere, and get them
// only where that cannot be done.
const keepFor = 10 * time.Second

// keepPlace keeps the place of a container that ends, if an OCI runtime has made it.
func (op *operation) keepPlace(name string) {
	if _, err := os.Lstat(op.BundleDir(name)); err != nil {
		return
	}
	g := *op.info[name]
	g.Grant, _ = op.node.Grant(name)
	g.Immovable = op.info[name].Immovable
	if g.Class != hybrid.Sensitive || !g.Lost.IsEmpty() {
		return
	}
	err := op.store.Retain(op.boot, state.SinceBoot()+keepFor, &g)
	if err != nil {
		op.log.Info("its place is not kept", "container", name, "error", err)
	}
}

// place puts a container on the CPUs that were held or kept for it, if it asks for the same again, else on new ones.
func (op *operation) place(g, held *Grant) error {
	if g.Class == hybrid.Sensitive && !op.avoid.IsEmpty() {
		if op.hint != nil {
			op.report.Hint = HintMissed
		}
		plan, err := op.planAround(g.Request)
		if err != nil {
			return err
		}
		return op.node.Commit(plan)
	}
	if held != nil && held.Request == g.Request && held.Lost.IsEmpty() && op.node.Restore([]hybrid.Grant{held.Grant}) == nil {
		return nil
	}
	var others []hybrid.Grant
	for _, kept := range op.store.Retained(op.boot, state.SinceBoot()) {
		if kept.ID != g.ID {
			others = append(others, kept.Grant)
		} else if kept.Request == g.Request && op.attempt(func() error { return op.returnTo(&kept) }) == nil {
			return nil
		}
	}
	if len(others) > 0 && g.Class == hybrid.Sensitive {
		if there, ok := op.beside(others, g.Request); ok && op.node.Restore([]hybrid.Grant{there}) == nil {
			return nil
		}
	}
	plan, err := op.planHinted(op.node, g.Request)
	if err != nil {
		return err
	}
	return op.node.Commit(plan)
}

// returnTo gives a container the place that was kept. Others may have been promised time since: PlanRepair
// plans it again where it is, and refuses what they would lack.
func (op *operation) returnTo(kept *Grant) error {
	err := op.node.Restore([]hybrid.Grant{kept.Grant})
	if err != nil {
		return err
	}
	plan, err := op.node.PlanRepair(kept.ID)
	if err != nil {
		return err
	}
	return op.node.Commit(plan)
}

// beside plans a request on a copy of the node on which the kept places are taken, so far as they still
// can be. A plan that moves others for that is none.
func (op *operation) beside(kept []hybrid.Grant, r hybrid.Request) (hybrid.Grant, bool) {
	node, err := op.newNode()
	if err != nil || node.Restore(op.node.Grants()) != nil {
		return hybrid.Grant{}, false
	}
	for i := range kept {
		_ = node.Restore(kept[i : i+1]) // refused: somebody else is there by now
	}
	plan, err := op.planHinted(node, r)
	if err != nil || plan.Moves > 0 {
		return hybrid.Grant{}, false
	}
	return plan.Clone().Grant, true
}
