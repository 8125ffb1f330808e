package host

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/errline"
)

// A stuckError means that a container cannot leave CPUs that must become exclusive to another container.
type stuckError struct {
	name  string
	shown string     // the container's name in texts
	cpus  cpuset.Set // the CPUs that the container stays on
	err   error      // the kernel's refusal
}

func (e *stuckError) Error() string {
	return fmt.Sprintf("%s cannot leave CPUs %v: %v", e.shown, e.cpus, e.err)
}

func (e *stuckError) Unwrap() error { return e.err }

// newExclusive returns the CPUs that this operation makes exclusive to a container. Every other container must leave them. For a
// starting container, they are all its exclusive CPUs, even if they were held for its restart. The CPUs of an adopted container
// are not new, because it already runs on them; another container can stay there.
func (op *operation) newExclusive(grants []*Grant) (fresh cpuset.Set) {
	for _, g := range grants {
		if g.Class != hybrid.Sensitive {
			continue
		}
		former, k, before := cpuset.Set{}, op.groups[g.ID], op.before[g.ID]
		runs := k != nil && k.populated
		switch {
		case op.isSubject(g.ID) && !runs && g.State != Held: // the container starts
		case before != nil:
			former = before.Exclusive
		case runs:
			former = k.settings.CPUs
		}
		fresh = fresh.Union(g.Exclusive.Minus(former))
	}
	return fresh
}

// tolerateRefusal continues an operation after the kernel has refused the CPUs of a container, which stays on its present CPUs.
// If the operation serves this container (isSubject), it returns the kernel's error, unless staysWithParent is true. It returns a
// *stuckError if the container stays on CPUs of op.freshCPUs.
func (op *operation) tolerateRefusal(w write, granted cpuset.Set, refused error) error {
	g := op.groups[w.group]
	if g == nil || op.isSubject(w.group) && !op.staysWithParent(w, g, refused) {
		return fmt.Errorf("cgroup of %s: %w", op.displayName(w.group), refused)
	}
	op.takePart(w, g, refused)
	if cpus, err := g.CPUs(); err == nil && !cpus.IsEmpty() { // the settings of an unread cgroup are assumptions
		g.settings.CPUs = cpus
	}
	if g.settings.CPUs.Overlaps(&op.freshCPUs) && !op.isUndoing {
		return &stuckError{w.group, op.displayName(w.group), g.settings.CPUs, refused}
	}
	op.misplaced[w.group] = true
	setting := SettingCPUs
	if g.unreadable != nil {
		setting = SettingGroup
	}
	op.degrade(w.group, setting, granted, refused)
	return nil
}

// staysWithParent reports whether an engine's flexible container lacks CPUs because the parent of its cgroup lacks them.
func (op *operation) staysWithParent(w write, g *group, refused error) bool {
	grant := op.info[w.group]
	return grant != nil && g.isEngineOwned() && grant.Class == hybrid.Flexible && errors.Is(refused, cgroup.ErrUnavailable)
}

// takePart does nothing unless staysWithParent is true for the container. It then gives the container those of its CPUs that the parent of
// its cgroup has.
func (op *operation) takePart(w write, g *group, refused error) {
	if !op.staysWithParent(w, g, refused) {
		return
	}
	above, _, err := op.tree.EngineGroup(w.group, filepath.Dir(g.engine.Cgroup)).Effective()
	part := w.cpus.Intersect(above)
	if err == nil && !part.IsEmpty() && g.SetCPUs(part, cpuset.Set{}) == nil {
		g.settings.CPUs = part
	}
}

// exclusiveAfter returns the CPUs that are exclusive after settle.
func (op *operation) exclusiveAfter() (cpus cpuset.Set) {
	grants := op.loaded.Grants
	if !op.isUndoing {
		grants = op.grants()
	}
	for _, g := range grants {
		if g.Class == hybrid.Sensitive {
			cpus = cpus.Union(g.Exclusive)
		}
	}
	return cpus
}

// occupiedCPUs returns the exclusive CPUs that a cgroup must not enter yet, because another cgroup could not leave
// them.
func (op *operation) occupiedCPUs(group string) (cpus cpuset.Set) {
	if len(op.misplaced) == 0 {
		return cpus
	}
	for name, g := range op.groups {
		if name != group && op.misplaced[name] {
			cpus = cpus.Union(g.settings.CPUs)
		}
	}
	if g := op.groups[group]; g != nil {
		cpus = cpus.Minus(g.settings.CPUs)
	}
	return cpus.Intersect(op.exclusiveAfter())
}

// isPaused reports whether a cgroup stays on its present CPUs until the next retry: the kernel has refused its new
// CPUs, and no other container needs the present CPUs exclusively. If so, it adds the cgroup to op.misplaced.
func (op *operation) isPaused(t *target, g *group, exclusive cpuset.Set) bool {
	if left := g.settings.CPUs.Minus(t.settings.CPUs); left.Overlaps(&exclusive) {
		return false // the cgroup is on another container's exclusive CPUs
	}
	if g.settings.CPUs == t.settings.CPUs || op.isSubject(t.name) || op.Host.degraded.isDue(t.name, SettingCPUs, t.settings.CPUs) {
		return false
	}
	op.misplaced[t.name] = true
	return true
}

// If the kernel refuses to shrink the cpuset of a container, that container must not cause the refusal of another
// container for which other CPUs fit. The operation is planned again, and none of the stuck CPUs (operation.avoid)
// becomes exclusive. Such a plan moves no fraction of other containers.

// The id of each placeholder starts with stuckName. The ids contain a space, so no container has the same id.
const stuckName = "stuck containers"

// planAround plans a sensitive container that gets none of the CPUs in op.avoid as exclusive CPUs.
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

// planAt plans the request on op.node with the CPUs of trial, which is a plan of a trial node. It refuses a trial plan that moves
// fractions.
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

// resizeAround resizes a sensitive container, which gets none of the CPUs in op.avoid as new exclusive CPUs. A growing
// container keeps its exclusive CPUs; its fraction can move.
func (op *operation) resizeAround(name string, limit, guarantee hybrid.Milli) error {
	current, _ := op.node.Grant(name)
	r := current.Request
	r.Limit, r.Guarantee = limit, guarantee
	base := hybrid.Grant{Request: r, CPUs: current.Exclusive, Exclusive: current.Exclusive}
	base.Limit, base.Guarantee = hybrid.Milli(1000*current.Exclusive.Count()), 0
	var plan *hybrid.Plan
	trial, err := op.trialNode(name, base)
	if err != nil {
		return err
	}
	if base.Limit == 0 {
		plan, err = trial.Plan(r)
	} else {
		plan, err = trial.PlanResize(name, limit, guarantee)
	}
	if err != nil {
		return op.refusedByStuck(err)
	}
	return op.withRollback(func() error {
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

// trialNode returns a node with all sensitive containers except the container with the name in "without". If the limit of base is
// not 0, the node also has base, a grant with only the exclusive CPUs of this container. Placeholders occupy those CPUs of
// op.avoid that are shared, so that no plan makes these CPUs exclusive. The trial node has no flexible containers; planAt later
// checks their needs on op.node.
func (op *operation) trialNode(without string, base hybrid.Grant) (*hybrid.Node, error) {
	options := op.basis.options
	options.MinShared = 0
	node, err := options.node(op.basis.machine, op.basis.usable)
	if err != nil {
		return nil, err
	}
	grants := slices.DeleteFunc(op.node.Grants(), func(g hybrid.Grant) bool { return g.ID == without || g.Class == hybrid.Flexible })
	for i := range grants { // otherwise the plan would spread their fractions over the flexible containers' CPUs
		grants[i].Immovable = true
	}
	if base.Limit > 0 {
		grants = append(grants, base)
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

// placeholders returns a grant of the smallest fraction for each CPU. A CPU with such a grant cannot become exclusive, but a
// fraction still fits on it.
func placeholders(cpus cpuset.Set) (all []hybrid.Grant) {
	for cpu := range cpus.All() {
		g := hybrid.Grant{CPUs: cpuset.Of(cpu), Fractions: []hybrid.Fraction{{CPU: cpu, Milli: hybrid.MinLimit}}}
		g.ID, g.Limit, g.Topology, g.Immovable = fmt.Sprint(stuckName, " ", cpu), hybrid.MinLimit, hybrid.NoTopology, true
		all = append(all, g)
	}
	return all
}

// refusedByStuck adds the errors of the stuck containers (op.stuck) to a refusal.
func (op *operation) refusedByStuck(refusal error) error {
	if len(op.stuck) == 0 {
		return refusal
	}
	return &stuckRefusal{refusal, op.stuck}
}

// A stuckRefusal is a refusal with the errors of the stuck containers. It builds its text late, because nameRefusal changes the
// text of the refusal.
type stuckRefusal struct {
	refusal error
	stuck   []*stuckError
}

func (e *stuckRefusal) Error() string { return errline.Join(e.Unwrap()...).Error() }

func (e *stuckRefusal) Unwrap() []error {
	all := []error{e.refusal}
	for _, stuck := range e.stuck {
		all = append(all, stuck)
	}
	return all
}
