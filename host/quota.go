package host

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/burst"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/quota"
	"github.com/candor-project/candor/spec"
)

// leaseDuration is the length of a lease. The loop of package quota renews the lease while it needs the lease.
const leaseDuration = time.Minute

// maxShare bounds the raised quota of a flexible container, as a multiple of its limit.
const maxShare = 3

// maxQuota returns the highest quota that a raise can give a container. A sensitive container can get all of its CPUs;
// a flexible container can get a multiple of its limit, but no more than its CPUs.
func maxQuota(g *Grant) time.Duration {
	limit := hybrid.Milli(1000 * g.CPUs.Count())
	if g.Class == hybrid.Flexible {
		limit = min(limit, maxShare*g.Limit)
	}
	return limit.Quota(g.Period)
}

// isLeased reports whether the present quota of a cgroup differs from the quota of the grant, and the container's lease allows
// the present quota. A present quota of 0 (no quota) is never leased, because a process with a lease removes a quota only if the
// grant has none.
func isLeased(g *Grant, current cgroup.Settings) bool {
	lease := g.Lease
	if lease.Max == 0 { // the lease only permits raising the quota
		lease.Min, lease.Max = quotaOf(g), maxQuota(g)
	}
	return current.Period == g.Period && current.Quota != quotaOf(g) && current.Quota > 0 &&
		current.Quota >= lease.Min && current.Quota <= lease.Max && lease.IsHeld()
}

// isRaised reports whether the loop of package quota can raise the quota of a container.
func isRaised(g *Grant) bool {
	return g.Burst.Raises() && g.State == Running && g.Quota > 0 && g.Period >= bandwidth.MinRaisePeriod && maxQuota(g) > quotaOf(g)
}

// isCharged reports whether the loop charges the CPU time of helpers to a container.
func isCharged(g *Grant) bool {
	return g.Helpers == spec.HelpersCharge && g.State == Running && g.Limit > 0 && g.Period >= bandwidth.MinRaisePeriod
}

// RaiseOwn raises the quota of a container that this process has created, until stop is called.
func (h *Host) RaiseOwn(g *Grant) (stop func()) {
	if !g.Burst.Raises() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := h.RaiseQuotas(ctx, func(other *Grant) bool { return other.ID == g.ID && other.Creator == g.Creator })
		if err != nil {
			h.log.Warn("cannot raise a container's quota", logName(g.ID, &g.Engine), "error", err)
		}
	}()
	return func() { cancel(); <-ended }
}

// RaiseQuotas raises the quotas of containers that request it, while they are throttled and their CPUs have idle time.
// It runs until ctx is done. isOwn selects the containers that this process manages. RaiseQuotas leaves out the containers
// that another process has leased.
func (h *Host) RaiseQuotas(ctx context.Context, isOwn func(*Grant) bool) error {
	self, err := state.OwnProcess()
	if err != nil {
		return err
	}
	selects := func(g *Grant) bool { return isOwn(g) && isRaised(g) && (g.Lease.To == self || !g.Lease.IsHeld()) }
	return quota.New(&control{Host: h, selects: selects, self: self}, h.log).Run(ctx)
}

// A Charger measures the helpers of containers. ChargeHelpers calls its methods from a single goroutine.
type Charger interface {
	// Charges returns the CPU time that was charged and credited to a container. The totals never decrease.
	Charges(g *Grant) (charged, credited time.Duration)
	// HelperTime returns the CPU time of all helpers so far. ok is false if the time is not known.
	HelperTime() (total time.Duration, ok bool)
	// BookedTime returns the part of the HelperTime that the last call of Charges included.
	BookedTime() time.Duration
	// Observe receives each new account.
	Observe(g *Grant, a Account)
}

// An Account is the state of a charged container.
type Account struct {
	Saved  time.Duration // CPU time that the container can still use; negative: debt
	Limit  time.Duration // CPU time per period that the limit allows
	Quota  time.Duration // CPU time per period that the container has now; 0: no quota
	Frozen bool          // the processes are frozen from time to time, because even the kernel's lowest quota allows too much
}

// IsCharged reports whether the container has less CPU time than its limit because of its helpers.
func (a *Account) IsCharged() bool { return a.Frozen || a.Quota > 0 && a.Quota < a.Limit }

// ChargeHelpers adjusts quotas until ctx is done, so that the own CPU time of a container and its charges together stay within
// its limit. It serves the containers with helpers=charge (spec.HelpersCharge), and raises their quotas if they request it. It
// takes over the leases of other processes for these containers.
func (h *Host) ChargeHelpers(ctx context.Context, charger Charger) error {
	self, err := state.OwnProcess()
	if err != nil {
		return err
	}
	c := &control{Host: h, selects: isCharged, self: self, charger: charger, freezers: map[string]*cgroup.Freezer{}, accounts: map[string]Account{}}
	err = quota.New(c, h.log).Run(ctx)
	c.grants = nil
	c.closeFreezers()
	return err
}

// A control adapts a host to package quota.
type control struct {
	*Host
	selects  func(*Grant) bool
	self     Process
	charger  Charger                    // nil: no helpers are charged
	freezers map[string]*cgroup.Freezer // of charged containers, by cgroup (usageName); nil: the container cannot be frozen
	accounts map[string]Account         // last accounts, by ID
	grants   map[string]*Grant          // grants of the last call of Groups
	kernels  map[string]*kernelGroup    // by ID, like grants: the cgroups that could be read
	seen     stateStamp                 // the state at the last call of Groups

	mustEndLeases bool // a GiveBack has begun, and the last call of Groups returned no groups
}

// Changed reports whether the state has changed. During a GiveBack, Groups returns no groups, so the loop restores all quotas. The next
// call of Changed then ends the leases.
func (c *control) Changed() bool {
	if c.mustEndLeases {
		c.closeFreezers()
		c.mustEndLeases = c.endLeases() != nil
	}
	return c.stamp() != c.seen
}

// endLeases removes the leases of this process from the state, so that a GiveBack need not wait until they expire.
func (c *control) endLeases() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	lock, err := takeExistingLock(ctx, c.store.LockFile(), time.Second)
	if errors.Is(err, fs.ErrNotExist) { // the GiveBack is complete
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.release()
	saved, err := c.store.Load()
	if err != nil {
		return err
	}
	grants := slices.Clone(saved.Grants)
	for i, g := range grants {
		if g.Lease.To == c.self {
			own := *g
			own.Lease = state.Lease{}
			grants[i] = &own
		}
	}
	next, isChanged, err := saved.Next(saved.Boot, grants)
	if err != nil || !isChanged {
		return err
	}
	return c.store.Save(next)
}

// Groups returns the cgroups of the selected containers.
func (c *control) Groups() ([]quota.Group, error) {
	c.seen = c.stamp() // before Load, so that Changed notices later writes
	if c.seen.isGivingBack {
		c.grants, c.mustEndLeases = nil, true
		return nil, nil
	}
	loaded, err := c.store.Load()
	if err != nil {
		return nil, err
	}
	boot, err := procfs.BootID()
	if err != nil || loaded.Boot != boot {
		return nil, err
	}
	var groups []quota.Group
	before, kernels := c.grants, c.kernels
	c.grants, c.kernels = map[string]*Grant{}, map[string]*kernelGroup{}
	for _, g := range loaded.Grants {
		if !c.selects(g) {
			continue
		}
		if k := kernels[g.ID]; k != nil && !k.isClosed && isSameButLease(before[g.ID], g) {
			c.grants[g.ID], c.kernels[g.ID] = g, k
			groups = append(groups, quota.Group{Name: g.ID})
			continue
		}
		group, err := c.group(g)
		if errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, fs.ErrNotExist) { // the container has ended; an operation reaps it
			continue
		}
		if err != nil {
			c.log.Warn("cannot change a container's quota", logName(g.ID, &g.Engine), "error", err)
		}
		c.grants[g.ID] = g
		groups = append(groups, group)
	}
	c.closeFreezers()
	return groups, nil
}

// isSameButLease reports whether two grants are equal except for their leases. Usually, only the leases of the loop itself have
// changed since the loop last read the state.
func isSameButLease(g, h *Grant) bool {
	if g == h {
		return true
	}
	other := *g
	other.Lease = h.Lease
	return other.Equal(h)
}

func (c *control) group(g *Grant) (quota.Group, error) {
	limit := quotaOf(g)
	if limit == 0 {
		limit = g.Limit.Quota(g.Period)
	}
	group := quota.Group{Name: g.ID, LogName: logName(g.ID, &g.Engine), CPUs: g.CPUs}
	group.Setting = quota.Setting{IsUnlimited: g.Quota == 0, IsCharged: c.charger != nil}
	group.Setting.Setting = burst.Setting{Quota: limit.Truncate(time.Microsecond), Period: g.Period}
	if isRaised(g) {
		group.MaxQuota = maxQuota(g)
	}
	kernel := &kernelGroup{Group: c.groupOf(g), units: &c.units, own: group.Setting, burst: kernelBurst(g)}
	var err error
	if group.InForce, err = kernel.Quota(); err != nil {
		return group, err
	}
	if kernel.usage, err = c.tree.OpenUsage(usageName(g)); err != nil {
		return group, err
	}
	if c.charger != nil {
		kernel.freezer = c.freezer(g)
		group.CanFreeze = kernel.freezer != nil
	}
	group.Kernel, c.kernels[g.ID] = kernel, kernel
	return group, nil
}

// freezer returns the freezer of a container, or nil if the container cannot be frozen.
func (c *control) freezer(g *Grant) *cgroup.Freezer {
	f, isKnown := c.freezers[usageName(g)]
	if isKnown {
		return f
	}
	f, err := c.tree.OpenFreezer(usageName(g))
	if err != nil && !errors.Is(err, cgroup.ErrNoGroup) {
		c.log.Info("a container is never frozen: where 1 ms of its own CPU time per period causes more helper work than its limit, the limit does not hold",
			logName(g.ID, &g.Engine), "reason", err)
	}
	c.freezers[usageName(g)] = f
	return f
}

// closeFreezers closes the freezers of containers that are not in c.grants.
func (c *control) closeFreezers() {
	used := map[string]bool{}
	for _, g := range c.grants {
		used[usageName(g)] = true
	}
	for name, f := range c.freezers {
		if used[name] {
			continue
		}
		delete(c.freezers, name)
		if f == nil {
			continue
		}
		if err := f.Close(); err != nil {
			c.log.Warn("cannot remove the freezer group of a container", "group", name, "error", err)
		}
	}
}

// usageName returns the cgroup of a container as package cgroup names it: the path of an engine's cgroup, or the name
// of a cgroup of Candor.
func usageName(g *Grant) string {
	if g.Engine.Cgroup != "" {
		return g.Engine.Cgroup
	}
	return g.ID
}

// Charges returns the charges of a container.
func (c *control) Charges(name string) (charged, credited time.Duration) {
	g := c.grants[name]
	if c.charger == nil || g == nil {
		return 0, 0
	}
	return c.charger.Charges(g)
}

// HelperTime returns the CPU time of all helpers. Without a charger, the time is not known.
func (c *control) HelperTime() (total time.Duration, ok bool) {
	if c.charger == nil {
		return 0, false
	}
	return c.charger.HelperTime()
}

// BookedTime returns the CPU time of helpers that the charges include.
func (c *control) BookedTime() time.Duration {
	if c.charger == nil {
		return 0
	}
	return c.charger.BookedTime()
}

// Observe passes the account of a container to the charger, and logs when helpers start to reduce its CPU time.
func (c *control) Observe(name string, s *quota.State) {
	g := c.grants[name]
	if c.charger == nil || g == nil {
		return
	}
	a := Account{Saved: s.Saved, Limit: s.Quota, Frozen: s.IsFreezing()}
	if s.InForce != quota.Unlimited {
		a.Quota = time.Duration(s.InForce)
	}
	before := c.accounts[name]
	if a.IsCharged() && !before.IsCharged() {
		c.log.Info("charged: helpers of the container use a part of its limit", logName(name, &g.Engine), "limit", a.Limit, "quota", a.Quota, "frozen", a.Frozen)
	}
	c.accounts[name] = a
	c.charger.Observe(g, a)
}

// Lease records in the state that this process may change the quotas of the named containers for leaseDuration, and returns this
// duration.
func (c *control) Lease(ctx context.Context, names []string) (time.Duration, error) {
	s := scope{}
	if len(names) == 1 {
		s.name = names[0]
	}
	until := (state.SinceBoot() + leaseDuration).Truncate(time.Millisecond)
	isInUse, err := c.operateIfInUse(ctx, s, func(op *operation) error {
		for _, name := range names {
			if g := op.info[name]; g != nil {
				g.Lease = c.lease(g, until)
			}
		}
		return nil
	})
	if err == nil && !isInUse {
		err = ErrGivingBack
	}
	return leaseDuration, err
}

// lease returns a lease of this process for a container. A lease that only permits raising the quota has no bounds, because the
// bounds follow from the grant. Earlier versions can read such a lease.
func (c *control) lease(g *Grant, until time.Duration) state.Lease {
	l := state.Lease{To: c.self, Until: until}
	if c.charger == nil {
		return l
	}
	if l.Max = quotaOf(g); g.Quota == 0 {
		l.Max = g.Limit.Quota(g.Period)
	}
	l.Min, l.Frozen = min(bandwidth.MinQuota, l.Max), true
	if isRaised(g) {
		l.Max = maxQuota(g)
	}
	l.Min, l.Max = l.Min.Truncate(time.Microsecond), l.Max.Truncate(time.Microsecond)
	return l
}

// Idle returns the idle time of each CPU since boot.
func (c *control) Idle() (map[int]time.Duration, error) {
	times, err := procfs.ReadCPUTimes()
	idle := make(map[int]time.Duration, len(times))
	for cpu, t := range times {
		idle[cpu] = t.Idle
	}
	return idle, err
}

// A kernelGroup adapts a cgroup to package quota.
type kernelGroup struct {
	*cgroup.Group
	own   quota.Setting
	burst time.Duration // the kernel's burst (cpu.max.burst) at the granted quota; a lower quota lowers it
	usage *cgroup.UsageReader
	units *pendingUnits
	// freezer belongs to control, which closes it when the container is no longer charged; nil: none.
	freezer  *cgroup.Freezer
	isClosed bool
}

func (g *kernelGroup) Read() (cgroup.Usage, error) { return g.usage.Read() }

func (g *kernelGroup) Close() {
	g.usage.Close()
	g.isClosed = true
}

// Freeze freezes or thaws the processes of the cgroup.
func (g *kernelGroup) Freeze(frozen bool) error {
	if !frozen {
		return g.freezer.Thaw()
	}
	return g.freezer.Freeze()
}

func (g *kernelGroup) IsKilled() bool { return g.freezer.IsKilled() }

// Quota returns the present quota of the cgroup.
func (g *kernelGroup) Quota() (quota.Limit, error) {
	current, err := g.CPULimits()
	switch {
	case err == nil && current.Quota == 0:
		return quota.Unlimited, nil
	case err == nil && current.Quota == roundedUp(g.own.Quota, g.own.Period):
		return quota.Limit(g.own.Quota), nil
	}
	return quota.Limit(current.Quota), err
}

// roundedUp returns the quota that a cgroup gets from systemd, which rounds a quota up to whole percents.
func roundedUp(quota, period time.Duration) time.Duration {
	percent := (100*quota + period - 1) / period
	return (percent * period / 100).Truncate(time.Microsecond)
}

// SetQuota writes a quota. It waits while systemd units are updated (pendingUnits).
func (g *kernelGroup) SetQuota(limit quota.Limit) error {
	g.units.files.Lock()
	defer g.units.files.Unlock()
	if limit == quota.Unlimited {
		limit = 0
	}
	return g.Group.SetQuota(time.Duration(limit), g.burst)
}

// thawFreezers thaws the containers with a lease that permits freezing: containers whose lease has ended, and the container that
// the operation serves.
func (op *operation) thawFreezers() {
	for _, g := range op.info {
		if !g.Lease.Frozen || g.Lease.IsHeld() && !op.isSubject(g.ID) {
			continue
		}
		if err := op.groupOf(g).ThawFreezer(); err != nil && !errors.Is(err, cgroup.ErrNoGroup) {
			op.log.Warn("cannot thaw the processes of a container", logName(g.ID, &g.Engine), "error", err)
		}
	}
}
