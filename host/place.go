package host

import (
	"os"
	"time"

	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
)

// retention is the time for which Candor retains the place of a container that an OCI runtime has deleted. An engine
// restarts a container by deleting it and creating a container with the same id.
//
// A retained place is only a preference. Flexible containers get its CPUs at once, because no later event might return
// the CPUs to them. Other sensitive containers get its CPUs only if no other CPUs fit.
const keepFor = 10 * time.Second

// retainPlace stores the place of an ending container that an OCI runtime has created.
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

// place puts a container on its held or retained CPUs if its request is unchanged, else on new CPUs.
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

// restoreRetained returns a container to its retained place. Candor can have given time on these CPUs to other
// containers since. PlanRepair plans the grant at the same place and refuses it if other containers would lack that
// time.
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

// planBeside plans a request on a copy of the node with the retained places taken, as far as they still fit. It
// discards a plan that moves other containers.
func (op *operation) beside(kept []hybrid.Grant, r hybrid.Request) (hybrid.Grant, bool) {
	node, err := op.newNode()
	if err != nil || node.Restore(op.node.Grants()) != nil {
		return hybrid.Grant{}, false
	}
	for i := range kept {
		_ = node.Restore(kept[i : i+1]) // refused if another container has these CPUs by now
	}
	plan, err := op.planHinted(node, r)
	if err != nil || plan.Moves > 0 {
		return hybrid.Grant{}, false
	}
	return plan.Clone().Grant, true
}
