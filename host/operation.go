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

// An operation is one change of the state, from lock to unlock.
type operation struct {
	*Host
	boot   string
	loaded state.State       // as the file has it
	before map[string]*Grant // those of loaded, by name
	saved  *state.Saved      // what the file has now
	groups map[string]*group // as the kernel has them
	left   leftover          // of the operation before
	node   *hybrid.Node
	basis  basis             // of node
	empty  *hybrid.Node      // a node without containers, for the next that is wanted
	info   map[string]*Grant // all that is known beside the node, by name

	over     []string     // groups that end with this operation
	newcomer *newcomer    // the container that begins with it, or nil
	resized  string       // the container that it is about to resize, or ""
	hint     *hybrid.Hint // of the container that it plans, or nil

	subject    string          // the container that the operation is for, or ""
	avoid      cpuset.Set      // CPUs that another container cannot leave: none of them becomes exclusive
	stuck      []*stuckError   // those containers
	fresh      cpuset.Set      // CPUs that become exclusive: every other container has to leave them
	isUndoing  bool            // settings go back to those before the operation
	behind     map[string]bool // containers that cannot have the CPUs that they are granted
	notStarted bool            // the program of the container that it releases was not executed
	rewritten  string          // the container to whose group its engine has just written, or ""
	everyPod   bool            // inspect the groups of all pods
	about      about           // zero: all containers
	looks      bool            // read the CPUs of all groups: the container of about is about to start
	report     *Report
}

// A newcomer is a container whose group this operation makes.
type newcomer struct {
	name string
	pid  int // waits to become the container's first process
}

// operate runs one operation: what change plans and commits to the node becomes
// true on the machine and in the file, or not at all. What must be put right
// anyway (the ended, the strayed, the lost) is put right also where change fails.
func (h *Host) operate(ctx context.Context, change func(*operation) error) error {
	return h.operateOn(ctx, about{}, change)
}

func (h *Host) locked(ctx context.Context, on about, change func(*operation) error) error {
	if err := h.CheckPlanOnly(); err != nil {
		return err
	}
	// The topology that this reads is kept: others don't wait for it while we have the lock.
	if _, err := h.machine.get(); err != nil {
		return err
	}
	if err := h.store.Prepare(); err != nil {
		return err
	}
	watch := stopwatch{time.Now()}
	lock, err := takeLock(ctx, h.store.LockFile(), h.patience)
	if err != nil {
		return err
	}
	defer lock.release()
	defer h.hurry(ctx)()
	report := Report{Wait: watch.lap()}
	var stuck []*stuckError
	for {
		err := h.attempt(on, stuck, change, &report)
		// A container that cannot leave its CPUs does not refuse another one: the next attempt plans without those CPUs.
		if next := new(stuckError); errors.As(err, &next) && isNews(next, stuck) {
			stuck = append(stuck, next)
			continue
		}
		h.listener(report)
		return err
	}
}

// isNews reports whether a container that is stuck was not known to be.
func isNews(next *stuckError, known []*stuckError) bool {
	return !slices.ContainsFunc(known, func(e *stuckError) bool { return e.name == next.name && next.cpus.SubsetOf(&e.cpus) })
}

// attempt is one try of an operation, under the lock. stuck are the containers that could not leave their CPUs in earlier tries.
func (h *Host) attempt(on about, stuck []*stuckError, change func(*operation) error, report *Report) error {
	watch := stopwatch{time.Now()}
	op, err := h.begin(on, stuck)
	if report.Failed = err != nil; report.Failed {
		return err
	}
	op.report = report
	report.Read += watch.lap()
	changeErr := change(op)
	report.Plan += watch.lap()
	err = op.restoreParent(op.finish())
	report.Apply += watch.lap()
	if report.Failed = err != nil; !report.Failed {
		op.leave(changeErr)
	}
	return errline.With("; and then: ", changeErr, err)
}

// restoreParent restores the groups above a container whose program has not started.
func (op *operation) restoreParent(failure error) error {
	if !op.notStarted && (failure == nil || op.newcomer == nil) {
		return failure
	}
	return errline.Join(failure, op.tree.RestoreParent())
}

// begin loads the state, compares it with the kernel and brings the node to what holds now.
func (h *Host) begin(on about, stuck []*stuckError) (*operation, error) {
	boot, err := procfs.BootID()
	if err != nil {
		return nil, err
	}
	op := &operation{Host: h, boot: boot, info: map[string]*Grant{}, behind: map[string]bool{}, about: on, stuck: stuck}
	for _, e := range stuck {
		op.avoid = op.avoid.Union(e.cpus)
	}
	if left := h.left.Swap(nil); left != nil {
		op.left = *left
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

// load reads the state file. One that cannot be used, or is of an earlier boot, says nothing.
func (op *operation) load() error {
	saved, err := op.store.Load()
	var broken *state.BrokenError
	if err != nil && !errors.As(err, &broken) {
		return err
	}
	if op.saved = saved; broken != nil {
		op.saved = new(state.Saved)
	}
	if op.saved != op.left.saved {
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
	if err := op.dropArguments(); err != nil { // no reason to refuse another container
		op.log.Warn("arguments that an earlier version stored are not all dropped", "error", err)
	}
	op.loaded = op.saved.State
	op.before = state.ByName(op.loaded.Grants)
	return nil
}

// prepareNode makes a node without containers, unless that which was left will do. Options that cannot be meant change nothing.
func (op *operation) prepareNode() (err error) {
	if op.basis, err = op.Host.basis(); err != nil || op.left.isNow(op, op.basis) {
		return err
	}
	op.empty, err = op.basis.node(op.config)
	return err
}

// abandon gives an unusable state up: it is kept aside, and what runs is adopted.
func (op *operation) abandon(broken *state.BrokenError) error {
	op.loaded, op.before, op.saved = state.State{}, nil, new(state.Saved)
	if err := op.store.SetAside(); err != nil {
		return fmt.Errorf("%w; %w", broken, err)
	}
	op.log.Warn("state unusable: rebuilt from what runs", "kept", op.store.BadFile(), "reason", broken.Err)
	return nil
}

// reap ends the grants of containers that are over.
func (op *operation) reap() error {
	for _, g := range op.loaded.Grants {
		k := op.groups[g.ID]
		populated := k != nil && k.populated
		switch {
		case op.info[g.ID] == nil: // not restored
		case op.holds(g, populated):
			op.info[g.ID].State = Held
			op.log.Info("held for its pod", "container", g.ID)
		case ended(g, populated) || op.podGone(g, populated):
			if err := op.end(g.ID); err != nil {
				return err
			}
			op.log.Info("ended", "container", g.ID)
		case populated && g.State != Running:
			op.info[g.ID].State, op.info[g.ID].Deadline = Running, 0
		}
	}
	return nil
}

// end takes a container off the node.
func (op *operation) end(name string) error {
	op.keepPlace(name)
	plan, err := op.node.PlanRelease(name)
	if err == nil {
		err = op.node.Commit(plan)
	}
	if err != nil {
		return err
	}
	delete(op.info, name)
	op.over = append(op.over, name)
	return nil
}

// repair looks for new CPUs where a grant has lost some. Where there are none
// the container goes on with what is left, and ps and inspect say so.
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
			op.log.Warn("degraded", "container", g.ID, "lost", g.Lost, "reason", err)
			continue
		}
		if plan.Grant.Exclusive.Overlaps(&op.avoid) {
			op.log.Warn("degraded", "container", g.ID, "lost", g.Lost, "reason", op.stuck[0])
			continue
		}
		if err := op.node.Commit(plan); err != nil {
			return err
		}
		op.log.Info("repaired", "container", g.ID, "lost", g.Lost)
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

// grants returns the node's grants with all that is known of them. Nobody changes them.
func (op *operation) grants() []*Grant {
	grants := make([]*Grant, 0, len(op.info))
	for held := range op.node.All() {
		g := op.info[held.ID]
		isOver := g.Loan != state.Loan{} && !g.Loan.IsHeld()
		if !state.SameGrant(&g.Grant, held) || g.Lost != held.Lost || isOver {
			now := *g
			now.Grant = *held
			now.Fractions = slices.Clone(held.Fractions)
			now.Immovable = g.Immovable // not that of this operation alone
			if isOver {
				now.Loan = state.Loan{}
			}
			g = &now
		}
		grants = append(grants, g)
	}
	return grants
}

// Somebody may wait for an operation's answer, and go on without it when it is late: NRI gives a plugin 2 s. What an
// operation does takes milliseconds. What it may have to wait for is bounded by the deadline of its context: the
// kernel that lets go of a group, processes that end, systemd.

const (
	answerTime = 200 * time.Millisecond // is left for the answer
	brief      = 100 * time.Millisecond // for what others have left: the next operation looks at it again
)

// hurry has an operation wait no longer than its context allows.
func (h *Host) hurry(ctx context.Context) (done func()) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return func() {}
	}
	before := h.tree.SetDeadline(deadline.Add(-answerTime))
	return func() { h.tree.SetDeadline(before) }
}

// remove removes the group of a container that has ended. A group that the kernel does not let go of within a brief time is left to the
// next operation: the lock is held meanwhile. Only the operation's own container waits longer, if its context allows that.
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
		op.log.Error("a group that is over cannot be removed yet", "container", name, "error", err)
		return false, nil
	}
	if errors.Is(err, cgroup.ErrNoGroup) {
		err = nil
	}
	return err == nil, err
}

// A leftover is what an operation leaves to the next one of this process: where nobody has written the state since, and the
// machine is the same, that need not bring hundreds of grants to a new node. It is never more than what the state and the
// kernel say anyway: without it, the next operation finds the same.
type leftover struct {
	groups map[string]*group

	saved *state.Saved // that the rest goes with; nil: groups are all
	basis basis
	node  *hybrid.Node
	info  map[string]*Grant
}

// leave keeps what an operation that has succeeded leaves; with change, which has not failed either, its node too.
func (op *operation) leave(change error) {
	left := &leftover{groups: op.groups}
	if change == nil && op.isPlain() {
		left.saved, left.basis, left.node, left.info = op.saved, op.basis, op.node, op.asSaved()
	}
	op.Host.left.Store(left)
}

// isPlain reports whether a new node, to which the state's grants are restored, would be the one that there is.
func (op *operation) isPlain() bool {
	if len(op.info) != len(op.saved.Grants) || !cpusetKeepsAffinity() { // before Linux 6.2, who moves is looked up each time
		return false
	}
	for _, g := range op.saved.Grants {
		if op.info[g.ID] == nil {
			return false
		}
	}
	return !op.hasLost()
}

// asSaved is what is known of the grants, as it is read from the state.
func (op *operation) asSaved() map[string]*Grant {
	for _, g := range op.saved.Grants {
		if isNew := g != op.before[g.ID]; isNew || !g.Equal(op.info[g.ID]) { // what is new, callers know by address
			now := *g
			op.info[g.ID] = &now
		}
	}
	return op.info
}

// isNow reports whether the node that was left is what the state says now.
func (l *leftover) isNow(op *operation, now basis) bool {
	return l.saved != nil && l.saved == op.saved && l.basis == now
}

// A Report is what one operation took, from the wait for the lock on, and what it did to containers
// that nobody asked it about.
type Report struct {
	Wait, Read, Plan, Apply time.Duration // for the lock; state and kernel; what changes; groups, views and file

	Moves  int        // fractions of running containers that are on another CPU since
	Drift  int        // containers that had other settings than the state says
	Hint   HintResult // what became of the hint of the container that it has planned
	Failed bool       // it could not be applied; all is as it was
	Late   bool       // the lock did not come in time: Wait is all that there is
}

// tellLate reports an operation that has waited for the lock in vain.
func (h *Host) tellLate(err error) error {
	var late *lateError
	if errors.As(err, &late) {
		h.listener(Report{Wait: late.waited, Late: true})
	}
	return err
}

// A stopwatch tells how long each part of an operation takes.
type stopwatch struct{ since time.Time }

func (s *stopwatch) lap() time.Duration {
	now := time.Now()
	took := now.Sub(s.since)
	s.since = now
	return took
}

// moves counts the fractions that were moved. A container's own resize is no move.
func (op *operation) moves(grants []*Grant) (n int) {
	for _, g := range grants {
		if len(g.Fractions) == 0 {
			continue
		}
		was := op.before[g.ID]
		if was != nil && was.State == Running && was.Limit == g.Limit {
			moved := fractionalCPUs(&g.Grant).Minus(fractionalCPUs(&was.Grant))
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
