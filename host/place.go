package host

import (
	"os"
	"time"

	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
)

// retention is the time for which Candor retains the place (the grant) of a container that an OCI runtime has deleted.
// An engine restarts a container by deleting it and creating a container with the same id.
//
// A retained place is only a preference. Flexible containers get the retained CPUs at once: if they waited, there might
// be no later event at which Candor could give them the CPUs. Other sensitive containers get the retained CPUs only if
// no other CPUs fit.
const retention = 10 * time.Second

// retainPlace stores the place of an ending container that an OCI runtime has created.
func (op *operation) retainPlace(name string) {
	if _, err := os.Lstat(op.BundleDir(name)); err != nil {
		return
	}
	g := *op.info[name]
	g.Grant, _ = op.node.Grant(name)
	g.Immovable = op.info[name].Immovable
	if g.Class != hybrid.Sensitive || !g.Lost.IsEmpty() {
		return
	}
	err := op.store.Retain(op.boot, state.SinceBoot()+retention, &g)
	if err != nil {
		op.log.Info("cannot retain the CPUs of a deleted container", logName(name, &g.Engine), "error", err)
	}
}

// place puts a container on its held or retained CPUs if its request is unchanged, else on new CPUs. held, if not nil, is the
// former grant of the same name.
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
	var reserved []hybrid.Grant
	for _, retained := range op.store.Retained(op.boot, state.SinceBoot()) {
		if retained.ID != g.ID {
			reserved = append(reserved, retained.Grant)
		} else if retained.Request == g.Request && op.withRollback(func() error { return op.restoreRetained(&retained) }) == nil {
			return nil
		}
	}
	if len(reserved) > 0 && g.Class == hybrid.Sensitive {
		if grant, ok := op.planBeside(reserved, g.Request); ok && op.node.Restore([]hybrid.Grant{grant}) == nil {
			return nil
		}
	}
	plan, err := op.planHinted(op.node, g.Request)
	if err != nil {
		return err
	}
	return op.node.Commit(plan)
}

// restoreRetained returns a container to the CPUs that it had before its deletion. In the meantime, Candor can have granted CPU time
// on these CPUs to other containers. PlanRepair plans the same grant again, and refuses it if other containers would lack that time.
func (op *operation) restoreRetained(retained *Grant) error {
	err := op.node.Restore([]hybrid.Grant{retained.Grant})
	if err != nil {
		return err
	}
	plan, err := op.node.PlanRepair(retained.ID)
	if err != nil {
		return err
	}
	return op.node.Commit(plan)
}

// raiseHelpers raises a container's level of helper accounting to the machine's level, if that is higher. A later change of the
// machine's level applies only to new containers.
func (op *operation) raiseHelpers(g *Grant) { g.Helpers = max(g.Helpers, op.basis.options.Helpers) }

// planBeside plans a request on a copy of the node that also contains the retained grants, as far as they still fit. It
// discards a plan that moves other containers.
func (op *operation) planBeside(retained []hybrid.Grant, r hybrid.Request) (hybrid.Grant, bool) {
	node, err := op.newNode()
	if err != nil || node.Restore(op.node.Grants()) != nil {
		return hybrid.Grant{}, false
	}
	for i := range retained {
		_ = node.Restore(retained[i : i+1]) // refused if another container has got these CPUs in the meantime
	}
	plan, err := op.planHinted(node, r)
	if err != nil || plan.Moves > 0 {
		return hybrid.Grant{}, false
	}
	return plan.Clone().Grant, true
}
