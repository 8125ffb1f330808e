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
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/view"
)

// A GiveBack ends the use of Candor on a machine: all containers continue with the settings of their engines. The GiveBack first marks the
// state. From then on, the operations of other processes change nothing (ErrGivingBack), and the loops of package quota end their leases.
// All records of the containers remain until every container is given back; then GiveBack removes the whole state. If candor is killed at
// any point, the next GiveBack therefore finds the same records, and writes the same settings again. A GiveBack needs no space on the file
// system of the state.

// ErrGivingBack means that candor uninstall has begun to give all containers back. No operation can change a container.
var ErrGivingBack = errors.New("the containers of this machine are being given back to their engines")

func (h *Host) givingBackError() error {
	return fmt.Errorf("%w (%s); complete this with candor uninstall, or cancel it by a start of candor nri", ErrGivingBack, h.store.Dir)
}

// isGivingBack reports whether a GiveBack has begun and has not been completed or canceled.
func (h *Host) isGivingBack() bool {
	boot, err := procfs.BootID()
	return err == nil && !h.planOnly && h.store.IsGivingBack(boot)
}

// A SettingChange is a setting of a container that a GiveBack has changed, or would change.
type SettingChange struct {
	Container string // display name; for SettingPod, the path of the pod's cgroup
	ID        string // ID of the container; "" for SettingPod
	Setting   Setting
	Before    string
	After     string
}

// Further settings of a SettingChange. The kernel cannot refuse them separately, so no Degraded has them.
const (
	SettingFreezer Setting = "freezer" // the nested cgroup in which Candor freezes the processes of a container
	SettingHelpers Setting = "helpers" // helper processes that Candor has moved into the container's cgroup
	SettingPod     Setting = "pod"     // quota and weight of a pod's cgroup
)

var (
	// ErrStarting means that the runtime of a container is about to create its cgroup.
	ErrStarting = errors.New("is being started; repeat the command")
	// errQuotaLeased means that another process has a lease on the quota of a container. The other process detects the mark of the state
	// within seconds and ends its lease. If it does not, the lease ends within leaseDuration.
	errQuotaLeased = errors.New("changes the quota; repeat the command")
)

// startTime bounds the start of a pod's container after candor nri has ended. A GiveBack does not wait for a grant that has been
// pending for longer.
const startTime = 10 * time.Second

// A GiveBack gives all containers of this machine back to their engines. While it is open, no candor nri process can start,
// except if isDry is set.
type GiveBack struct {
	host      *Host
	isDry     bool
	startTime time.Duration
	release   func()
	holds     viewHolds
}

// StartGiveBack prepares a GiveBack. It changes no container. If dry is set, the calls of Try change nothing either, and agents can run
// meanwhile. The error is ErrAgentRuns if an agent runs, and ErrGivingBack during another GiveBack. The caller must call Close.
func (h *Host) StartGiveBack(dry bool) (*GiveBack, error) {
	if err := h.CheckPlanOnly(); err != nil {
		return nil, err
	}
	b := &GiveBack{host: h, isDry: dry, startTime: startTime, release: func() {}}
	if dry {
		return b, nil
	}
	var err error
	b.release, err = h.excludeAgents()
	return b, err
}

// Close permits agents again.
func (b *GiveBack) Close() {
	b.holds.close()
	b.release()
}

// A GiveBackResult holds the changes of a call of Try, and the containers for which the caller should call Try again.
type GiveBackResult struct {
	Changes []SettingChange
	// Waiting, if not nil, names the containers that another attempt can soon give back: containers that are being started,
	// and containers whose view or quota another process has leased.
	Waiting error
}

// Try gives every container the quota, period, burst and weight that its engine requested, and the CPUs and memory nodes of the parent of
// its cgroup. A program of candor run gets its limit as a quota. Views show the machine's CPUs. If all containers are given back, Try
// removes the state, and Candor's parent cgroup if it is empty.
//
// A container that ends meanwhile is no error. If a container failed for a reason that soon ends by itself, Waiting names the container.
// The error names all other failed containers. If a container has failed, the state remains for another attempt. If ctx is done, Try stops
// before the next change.
func (b *GiveBack) Try(ctx context.Context) (GiveBackResult, error) {
	a := &giveBackAttempt{Host: b.host, isDry: b.isDry, startTime: b.startTime, holds: &b.holds}
	err := outsideViews(func() error { return a.run(ctx) })
	return GiveBackResult{a.changes, errline.Join(a.waiting...)}, err
}

// A giveBackAttempt is one call of GiveBack.Try.
type giveBackAttempt struct {
	*Host
	isDry     bool
	startTime time.Duration
	holds     *viewHolds
	online    cpuset.Set // CPUs of the machine
	grants    []*Grant
	strays    []*Grant // running containers of Candor's own cgroups that are missing from the state
	changes   []SettingChange
	waiting   []error // errors whose reasons soon end by themselves
	failures  []error // all other errors

	unreachable bool // systemd can restore the former settings of a container (cgroup.Group.HasUnreachableUnit)
}

func (b *giveBackAttempt) run(ctx context.Context) error {
	machine, err := b.machine.get()
	if err != nil {
		return err
	}
	b.online = machine.Online
	boot, err := procfs.BootID()
	if err != nil {
		return err
	}
	if !b.isDry {
		lock, err := b.createLock(ctx)
		if err != nil {
			return err
		}
		defer lock.release()
	}
	if err := b.checkOwner(); err != nil {
		return err
	}
	if !b.isDry {
		if err := b.store.MarkGiveBack(boot); err != nil {
			return err
		}
		if err := b.tree.Refresh(); err != nil { // on v1, so that the parent cgroup gets CPUs that were offline
			return err
		}
	}
	if err := b.load(boot); err != nil {
		return err
	}
	for _, some := range b.batches() {
		if err := b.giveBackBatch(ctx, some); err != nil {
			return err
		}
	}
	if err := errline.Join(b.failures...); err != nil || len(b.waiting) > 0 || b.isDry {
		return err
	}
	if b.unreachable {
		b.log.Warn("the next reload of systemd restores the former CPUs and quotas of the containers, because systemd's bus is not reachable; restart the pods of this node before a reload")
	}
	return b.remove(ctx)
}

// remove removes the state, and Candor's parent cgroup if it is empty.
func (b *giveBackAttempt) remove(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	b.views.retain(func(string) bool { return false })
	if err := b.store.Remove(); err != nil {
		return err
	}
	if err := b.tree.Remove(); err != nil && !errors.Is(err, cgroup.ErrBusy) { // programs that still run keep the parent cgroup
		return err
	}
	return nil
}

// load reads the grants, and finds the containers that are missing from the state.
func (b *giveBackAttempt) load(boot string) error {
	saved, err := b.store.Load()
	switch {
	case errors.As(err, new(*state.BrokenError)):
	case err != nil:
		return err
	case saved.Boot == boot:
		b.grants = saved.Grants
	}
	if len(b.grants) == 0 { // the state was lost: the request files name the containers
		b.grants = b.store.Requests()
	}
	names, err := b.tree.Groups()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(b.grants, func(g *Grant) bool { return g.ID == name }) {
			g := new(Grant)
			g.ID = name
			b.strays = append(b.strays, g)
		}
	}
	return nil
}

// checkOwner returns cgroup.ErrOwned if Candor's parent cgroup belongs to another state.
func (b *giveBackAttempt) checkOwner() error {
	if !b.isDry {
		return b.tree.Claim()
	}
	owner, err := b.tree.Owner()
	if err != nil || owner == "" || owner == b.store.Dir {
		return err
	}
	if names, err := b.tree.Groups(); err != nil || len(names) == 0 {
		return err
	}
	return b.tree.Owned(owner)
}

// A batch is the list of the containers of a pod, or a single container. The cgroup of a pod gets its settings after its
// containers.
type batch struct {
	pod        string // path of the pod's cgroup, or ""
	containers []*Grant
	isStray    bool
}

func (b *giveBackAttempt) batches() (all []batch) {
	for _, g := range b.grants {
		pod := g.Engine.PodGroup()
		i := slices.IndexFunc(all, func(other batch) bool { return pod != "" && other.pod == pod })
		if i >= 0 {
			all[i].containers = append(all[i].containers, g)
		} else {
			all = append(all, batch{pod: pod, containers: []*Grant{g}})
		}
	}
	for _, g := range b.strays {
		all = append(all, batch{containers: []*Grant{g}, isStray: true})
	}
	return all
}

// giveBackBatch gives the containers of a batch back. It returns only the error of ctx; other errors go to b.waiting and b.failures.
func (b *giveBackAttempt) giveBackBatch(ctx context.Context, some batch) error {
	isComplete := true
	for _, g := range some.containers {
		for _, step := range []func(*Grant, *cgroup.Group, bool) error{b.giveBackSettings, b.giveBackView, b.giveBackLive} {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			group := b.groupOf(g)
			err := step(g, group, some.isStray)
			if errors.Is(err, view.ErrLeased) && !b.isDry {
				b.holds.start(b.store.ViewDir(g.ID))
			}
			if err != nil && !isGone(group, err) {
				b.fail(g.DisplayName(), err)
				isComplete = false
			}
		}
	}
	if some.pod == "" || !isComplete {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := b.giveBackPod(some.pod); err != nil && !isGoneError(err) {
		b.fail(some.pod, err)
	}
	return nil
}

// fail records an error of a container.
func (b *giveBackAttempt) fail(name string, err error) {
	isTemporary := errors.Is(err, ErrStarting) || errors.Is(err, errQuotaLeased) || errors.Is(err, view.ErrLeased) || errors.Is(err, view.ErrRefreshed)
	err = fmt.Errorf("%s: %w", name, err)
	if isTemporary {
		b.waiting = append(b.waiting, err)
	} else {
		b.failures = append(b.failures, err)
	}
}

// isGone reports whether an error means that a container has ended meanwhile. If only a file is missing and the cgroup has processes, the
// container has not ended.
func isGone(group *cgroup.Group, err error) bool {
	if !isGoneError(err) {
		return false
	}
	runs, err := group.Populated()
	return !runs && (err == nil || isGoneError(err))
}

// IsInUse reports whether there is a state. A complete GiveBack removes the state.
func (h *Host) IsInUse() bool { return h.store.IsInUse() }

// removeLeftover is for a container that ends after GiveBack has removed the state. It removes the container's cgroup, and then
// Candor's parent cgroup if this is empty. The error is ErrPopulated if the container's cgroup still has processes.
func (h *Host) removeLeftover(name string) error {
	err := h.tree.Group(name).Remove()
	if errors.Is(err, cgroup.ErrBusy) {
		return fmt.Errorf("%s: %w", name, ErrPopulated)
	}
	if err == nil {
		_ = h.tree.Remove() // fails while other programs run below it
	}
	return err
}
