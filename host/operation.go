package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/procfs"
)

// An operation is one change of the state, from lock to unlock. It collects the state of the file, the kernel and the
// allocator, and the changes to make.
type operation struct {
	*Host
	boot      string
	loaded    state.State       // content of the state file
	before    map[string]*Grant // grants of loaded, by name
	saved     *state.Saved      // present content of the state file
	groups    map[string]*group // cgroups as the kernel has them, by name
	cached    operationCache    // result of the previous operation
	node      *hybrid.Node
	basis     basis             // inputs of node
	emptyNode *hybrid.Node      // a node without containers, which the next call of restoreAll uses, or nil
	info      map[string]*Grant // by name: grants with the fields that node does not store, such as the engine

	ended    []string     // containers that end with this operation
	newcomer *newcomer    // the container that starts with this operation, or nil
	resized  string       // the container that this operation resizes, or ""
	hint     *hybrid.Hint // hint of the container that this operation plans, or nil

	subject    string          // the container that this operation serves, or ""
	avoid      cpuset.Set      // CPUs that another container cannot leave; none of them becomes exclusive
	stuck      []*stuckError   // the containers that cannot leave the CPUs of avoid
	freshCPUs  cpuset.Set      // CPUs that become exclusive; every other container must leave them
	isUndoing  bool            // undo restores the former settings now
	misplaced  map[string]bool // containers whose cgroup does not have the granted CPUs
	notStarted bool            // the program of the released container was not executed
	rewritten  string          // the container whose engine has just written its cgroup, or ""
	everyPod   bool            // inspect the cgroups of all pods
	scope      scope           // containers that this operation serves; zero: all containers
	readsCPUs  bool            // read the CPUs of all cgroups, because the container of scope starts
	report     *Report
}

// A newcomer is a container whose cgroup this operation creates.
type newcomer struct {
	name string
	pid  int // process that waits to become the container's first process, or 0
}

// operate runs one operation on all containers. The caller's function change plans grants and commits them to the node.
// Then operate applies and saves these grants, or changes nothing. Even if change fails, operate makes the necessary
// repairs, for ended containers, drifted settings and lost CPUs.
func (h *Host) operate(ctx context.Context, change func(*operation) error) error {
	return h.operateOn(ctx, scope{}, change)
}

// runLocked runs an operation under the lock, which the function take acquires. If a container cannot leave its CPUs
// (stuckError), runLocked retries the operation without these CPUs.
func (h *Host) runLocked(ctx context.Context, s scope, take func(context.Context) (*lock, error), change func(*operation) error) error {
	if err := h.CheckPlanOnly(); err != nil {
		return err
	}
	// Read the topology before taking the lock. The read is slow, and its result is cached.
	if _, err := h.machine.get(); err != nil {
		return err
	}
	watch := stopwatch{time.Now()}
	lock, err := take(ctx)
	if err != nil {
		return err
	}
	defer lock.release()
	if h.isGivingBack() {
		return h.givingBackError()
	}
	defer h.limitWaits(ctx)()
	report := Report{Wait: watch.lap()}
	var stuck []*stuckError
	for {
		err := h.tryOperation(s, stuck, change, &report)
		// A container that cannot leave its CPUs must not cause the refusal of another container. The next attempt plans without those
		// CPUs.
		if next := new(stuckError); errors.As(err, &next) && isNewStuck(next, stuck) {
			stuck = append(stuck, next)
			continue
		}
		h.listener(report)
		return err
	}
}

// isNewStuck reports whether the list known lacks the container of next, or some of the CPUs that this container cannot
// leave.
func isNewStuck(next *stuckError, known []*stuckError) bool {
	return !slices.ContainsFunc(known, func(e *stuckError) bool { return e.name == next.name && next.cpus.SubsetOf(&e.cpus) })
}

// tryOperation tries an operation once, under the lock. stuck holds the containers that could not leave their CPUs in
// earlier tries.
func (h *Host) tryOperation(s scope, stuck []*stuckError, change func(*operation) error, report *Report) error {
	watch := stopwatch{time.Now()}
	op, err := h.newOperation(s, stuck)
	if report.Failed = err != nil; report.Failed {
		return err
	}
	op.report = report
	report.Read += watch.lap()
	changeErr := change(op)
	report.Plan += watch.lap()
	op.thawFreezers()
	err = op.restoreParent(op.finish())
	report.Apply += watch.lap()
	if report.Failed = err != nil; !report.Failed {
		op.fillCache(changeErr)
	}
	return errline.With("; and then: ", changeErr, err)
}

// restoreParent undoes the changes with which Candor created its parent cgroup, if the operation failed for a new
// container, or if the program of the released container was not started.
func (op *operation) restoreParent(failure error) error {
	if !op.notStarted && (failure == nil || op.newcomer == nil) {
		return failure
	}
	return errline.Join(failure, op.tree.RestoreParent())
}

// newOperation loads the state, compares it with the kernel and restores the grants to a node.
func (h *Host) newOperation(s scope, stuck []*stuckError) (*operation, error) {
	boot, err := procfs.BootID()
	if err != nil {
		return nil, err
	}
	op := &operation{Host: h, boot: boot, info: map[string]*Grant{}, misplaced: map[string]bool{}, scope: s, stuck: stuck}
	for _, e := range stuck {
		op.avoid = op.avoid.Union(e.cpus)
	}
	if cached := h.cache.Swap(nil); cached != nil {
		op.cached = *cached
	}
	if err := op.load(); err != nil {
		return nil, err
	}
	if op.groups, err = h.ownGroups(); err != nil {
		return nil, err
	}
	op.observeEngines()
	op.clearOrphans()
	if err := op.restore(); err != nil {
		return nil, err
	}
	op.assumeUnreadable()
	return op, errline.Join(op.reap(), op.repair())
}

// load reads the state file. An unreadable file, or a file from an earlier boot, is treated as empty.
func (op *operation) load() error {
	saved, err := op.store.Load()
	var broken *state.BrokenError
	if err != nil && !errors.As(err, &broken) {
		return err
	}
	if op.saved = saved; broken != nil {
		op.saved = new(state.Saved)
	}
	if op.saved != op.cached.saved {
		op.tops.learnFrom(op.saved.Grants)
	}
	if err := op.prepareNode(); err != nil {
		return err
	}
	switch n := len(op.saved.Grants); {
	case broken != nil:
		if err := op.abandon(broken); err != nil {
			return err
		}
	case op.saved.Boot != op.boot:
		if n > 0 {
			op.log.Warn("state of an earlier boot dropped", "file", op.store.File(), "containers", n)
		}
		op.saved = new(state.Saved)
	}
	if err := op.dropArguments(); err != nil { // a failure must not refuse a container
		op.log.Warn("cannot drop all program arguments that an earlier version stored", "error", err)
	}
	op.loaded = op.saved.State
	op.before = state.ByName(op.loaded.Grants)
	return nil
}

// prepareNode creates a node without containers, unless the node of the previous operation can be reused. It fails on
// invalid options, before the operation changes anything.
func (op *operation) prepareNode() (err error) {
	if op.basis, err = op.Host.basis(); err != nil || op.cached.isValid(op, op.basis) {
		return err
	}
	op.emptyNode, err = op.basis.node(op.config)
	return err
}

// abandon moves an unusable state file aside. The operation then adopts the running containers.
func (op *operation) abandon(broken *state.BrokenError) error {
	op.loaded, op.before, op.saved = state.State{}, nil, new(state.Saved)
	if err := op.store.SetAside(); err != nil {
		return fmt.Errorf("%w; %w", broken, err)
	}
	op.log.Warn("state unusable: rebuilt from the running containers", "kept", op.store.BadFile(), "reason", broken.Err)
	return nil
}

// reap ends the grants of containers that have ended, and updates the phases of the other grants.
func (op *operation) reap() error {
	for _, g := range op.loaded.Grants {
		k := op.groups[g.ID]
		populated := k != nil && k.populated
		switch {
		case op.info[g.ID] == nil: // the grant was not restored
		case op.mustHold(g, populated):
			op.info[g.ID].State = Held
			op.log.Info("held for its pod", logName(g.ID, &g.Engine))
		case hasEnded(g, populated) || op.isPodGone(g, populated):
			if err := op.end(g.ID); err != nil {
				return err
			}
			op.log.Info("ended", logName(g.ID, &g.Engine))
		case populated && g.State != Running:
			op.info[g.ID].State, op.info[g.ID].Deadline = Running, 0
		}
	}
	return nil
}

// end releases the CPUs of a container on the node and adds the container to op.ended.
func (op *operation) end(name string) error {
	op.retainPlace(name)
	plan, err := op.node.PlanRelease(name)
	if err == nil {
		err = op.node.Commit(plan)
	}
	if err != nil {
		return err
	}
	delete(op.info, name)
	op.ended = append(op.ended, name)
	return nil
}

// repair plans new CPUs for grants that have lost CPUs. If no CPUs are free, the container continues on its remaining
// CPUs, and ps and inspect report it as degraded.
func (op *operation) repair() error {
	if !op.hasLost() {
		return nil
	}
	for _, g := range op.node.Grants() {
		if g.Lost.IsEmpty() {
			continue
		}
		plan, err := op.node.PlanRepair(g.ID)
		if err != nil {
			op.log.Warn("degraded", op.logName(g.ID), "lost", g.Lost, "reason", op.nameRefusal(err, g.ID))
			continue
		}
		if plan.Grant.Exclusive.Overlaps(&op.avoid) {
			op.log.Warn("degraded", op.logName(g.ID), "lost", g.Lost, "reason", op.stuck[0])
			continue
		}
		if err := op.node.Commit(plan); err != nil {
			return err
		}
		op.log.Info("repaired", op.logName(g.ID), "lost", g.Lost)
	}
	return nil
}

// hasLost reports whether a grant has CPUs that are not usable.
func (op *operation) hasLost() bool {
	usable := op.node.Usable()
	for _, g := range op.info {
		if !g.Lost.IsEmpty() || !g.CPUs.SubsetOf(&usable) {
			return true
		}
	}
	return false
}

// grants returns the grants of op.node, together with their fields that the node does not store. The caller must not change them.
func (op *operation) grants() []*Grant {
	grants := make([]*Grant, 0, len(op.info))
	for held := range op.node.All() {
		g := op.info[held.ID]
		isOver := g.Lease != state.Lease{} && !g.Lease.IsHeld()
		if !state.SameGrant(&g.Grant, held) || g.Lost != held.Lost || isOver {
			now := *g
			now.Grant = *held
			now.Fractions = slices.Clone(held.Fractions)
			now.Immovable = g.Immovable // op.node can have a value that is valid only for this operation (hasPinnedThreads)
			if isOver {
				now.Lease = state.Lease{}
			}
			g = &now
		}
		grants = append(grants, g)
	}
	return grants
}

// Callers wait for an operation only for a limited time. NRI, for example, gives a plugin 2 s. The work of an
// operation takes milliseconds, but it can wait for the kernel to remove a cgroup, for processes to end, and for
// systemd. The deadline of the context bounds these waits.

const (
	answerTime = 200 * time.Millisecond // reserved for the reply to the caller
	brief      = 100 * time.Millisecond // bounds the removal of another container's cgroup; the next operation retries it
)

// limitWaits bounds the waits of an operation by the deadline of its context. The caller must call done afterwards.
func (h *Host) limitWaits(ctx context.Context) (done func()) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return func() {}
	}
	before := h.tree.SetDeadline(deadline.Add(-answerTime))
	return func() { h.tree.SetDeadline(before) }
}

// remove removes the cgroup of a container that has ended. The operation holds the lock, so it waits only briefly until the kernel releases
// the cgroup. After that time, it leaves the removal to the next operation. It waits longer only for its own container, and only if its
// context has no deadline.
func (op *operation) remove(name string, remove func() error) (removed bool, err error) {
	end := op.tree.SetDeadline(time.Time{})
	defer op.tree.SetDeadline(end)
	if soon := time.Now().Add(brief); end.After(soon) || end.IsZero() && !op.isSubject(name) {
		op.tree.SetDeadline(soon)
	} else {
		op.tree.SetDeadline(end)
	}
	err = remove()
	if errors.Is(err, cgroup.ErrBusy) {
		op.log.Error("cannot remove the cgroup of an ended container yet", op.logName(name), "error", err)
		return false, nil
	}
	if errors.Is(err, cgroup.ErrNoGroup) {
		err = nil
	}
	return err == nil, err
}

// An operationCache holds the result of an operation for the next operation of this process. If no other process has
// written the state since and the machine is unchanged, the next operation need not restore hundreds of grants to a
// new node. Caching never changes the result: the state and the kernel give the same data.
type operationCache struct {
	groups map[string]*group

	saved *state.Saved // state of the fields below; nil: only groups is set
	basis basis
	node  *hybrid.Node
	info  map[string]*Grant
}

// fillCache caches the result of a successful operation. It caches the node only if change has not failed.
func (op *operation) fillCache(change error) {
	cached := &operationCache{groups: op.groups}
	if change == nil && op.isReusable() {
		cached.saved, cached.basis, cached.node, cached.info = op.saved, op.basis, op.node, op.asSaved()
	}
	op.Host.cache.Store(cached)
}

// isReusable reports whether restoring the saved grants to a new node would give the present node.
func (op *operation) isReusable() bool {
	if len(op.info) != len(op.saved.Grants) || !cpusetKeepsAffinity() { // before Linux 6.2 each operation inspects the threads
		return false
	}
	for _, g := range op.saved.Grants {
		if op.info[g.ID] == nil {
			return false
		}
	}
	return !op.hasLost()
}

// asSaved returns the grants as they would be loaded from the state file.
func (op *operation) asSaved() map[string]*Grant {
	for _, g := range op.saved.Grants {
		if isNew := g != op.before[g.ID]; isNew || !g.Equal(op.info[g.ID]) { // callers hold pointers to new grants
			now := *g
			op.info[g.ID] = &now
		}
	}
	return op.info
}

// isValid reports whether the cached node belongs to the present state and machine.
func (l *operationCache) isValid(op *operation, now basis) bool {
	return l.saved != nil && l.saved == op.saved && l.basis == now
}

// A Report holds the duration and the side effects of one operation.
type Report struct {
	Wait, Read, Plan, Apply time.Duration // waiting for the lock; reading state and kernel; planning; writing cgroups, views and state

	Moves  int        // fractions of running containers that moved to another CPU
	Drift  int        // containers and pods whose settings differed from the state
	Hint   HintResult // outcome of the hint of the planned container
	Failed bool       // the operation could not be applied; nothing changed
	Late   bool       // the lock timed out; only Wait is set

	Repairs []Repair // containers whose settings differed from the state
}

// A Repair describes a container whose settings differed from its grant. The operation restored them.
type Repair struct {
	ID     string
	Engine Engine
	Change string // the former and the present settings, such as "had CPUs 0-3, and has CPUs 1 again"
}

// reportLate reports an operation that did not get the lock in time.
func (h *Host) reportLate(err error) error {
	if late, ok := errors.AsType[*lateError](err); ok {
		h.listener(Report{Wait: late.waited, Late: true})
	}
	return err
}

// A stopwatch measures the parts of an operation.
type stopwatch struct{ since time.Time }

func (s *stopwatch) lap() time.Duration {
	now := time.Now()
	took := now.Sub(s.since)
	s.since = now
	return took
}

// countMoves returns the number of fractions that moved to another CPU. It does not count a container's own resize.
func (op *operation) countMoves(grants []*Grant) (n int) {
	for _, g := range grants {
		if len(g.Fractions) == 0 {
			continue
		}
		before := op.before[g.ID]
		if before != nil && before.State == Running && before.Limit == g.Limit {
			moved := fractionalCPUs(&g.Grant).Minus(fractionalCPUs(&before.Grant))
			n += moved.Count()
		}
	}
	return n
}

func fractionalCPUs(g *hybrid.Grant) (cpus cpuset.Set) {
	for _, f := range g.Fractions {
		cpus.Add(f.CPU)
	}
	return cpus
}
