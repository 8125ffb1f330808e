package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/burst"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/spec"
	"golang.org/x/sys/unix"
)

// loanFor is how long one is. The loop asks again while it needs it.
const loanFor = time.Minute

// mostShare is how many times its limit a flexible container may have at the most.
const mostShare = 3

// mostQuota is the highest quota that a container is given: a sensitive one's CPUs, all of them; a
// flexible one a multiple of its limit, and no more than its CPUs.
func mostQuota(g *Grant) time.Duration {
	most := hybrid.Milli(1000 * g.CPUs.Count())
	if g.Class == hybrid.Flexible {
		most = min(most, mostShare*g.Limit)
	}
	return most.Quota(g.Period)
}

// lent reports whether a quota that a group has is within its container's loan. A container that is resized
// begins anew.
func (op *operation) lent(g *Grant, has cgroup.Settings) bool {
	isLent := g.ID != op.resized && has.Period == g.Period && has.Quota > quota(g) && has.Quota <= mostQuota(g)
	return isLent && g.Loan.IsHeld()
}

// isRaised reports whether the loop looks after a container.
func isRaised(g *Grant) bool {
	return g.Burst.Raises() && g.State == Running && g.Quota > 0 && g.Period >= bandwidth.MinRaisePeriod && mostQuota(g) > quota(g)
}

// RaiseOwn raises the quota of a program of this process while stop is not called.
func (h *Host) RaiseOwn(g *Grant) (stop func()) {
	if !g.Burst.Raises() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := h.RaiseQuotas(ctx, func(one *Grant) bool { return one.ID == g.ID && one.Creator == g.Creator })
		if err != nil {
			h.log.Warn("its quota is not raised", "container", g.ID, "error", err)
		}
	}()
	return func() { cancel(); <-ended }
}

// RaiseQuotas raises the quotas of those of the containers that wish it, while they are throttled and there
// is room, until ctx is done. mine says which are this process's to look after.
func (h *Host) RaiseQuotas(ctx context.Context, mine func(*Grant) bool) error {
	self, err := state.OwnProcess()
	if err != nil {
		return err
	}
	return burst.New(&raising{Host: h, mine: mine, self: self}, h.log).Run(ctx)
}

// A raising is a host as package burst sees it.
type raising struct {
	*Host
	mine func(*Grant) bool
	self Process
	seen unix.Stat_t // the state file
}

// Changed reports whether the state is another one: it is replaced, never written to.
func (r *raising) Changed() bool {
	now := r.stat()
	return now.Ino != r.seen.Ino || now.Mtim != r.seen.Mtim
}

func (r *raising) stat() (s unix.Stat_t) {
	if unix.Stat(r.store.File(), &s) != nil {
		return unix.Stat_t{}
	}
	return s
}

// Groups returns the groups of the containers to look after.
func (r *raising) Groups() ([]burst.Group, error) {
	r.seen = r.stat() // first: what is written after it is seen later
	loaded, err := r.store.Load()
	if err != nil {
		return nil, err
	}
	boot, err := procfs.BootID()
	if err != nil || loaded.Boot != boot {
		return nil, err
	}
	var groups []burst.Group
	for _, g := range loaded.Grants {
		if !isRaised(g) || !r.mine(g) {
			continue
		}
		one, err := r.group(g)
		if errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, fs.ErrNotExist) { // its end is an operation's business
			continue
		}
		if err != nil {
			r.log.Warn("its quota is not raised", "container", g.ID, "error", err)
		}
		groups = append(groups, one)
	}
	return groups, nil
}

func (r *raising) group(g *Grant) (burst.Group, error) {
	one := burst.Group{
		Name: g.ID, CPUs: g.CPUs,
		Setting: burst.Setting{Quota: quota(g).Truncate(time.Microsecond), Period: g.Period, Most: mostQuota(g)},
	}
	kernel := &raisedGroup{Group: r.groupOf(g), units: &r.units, own: one.Setting}
	var err error
	if one.InForce, err = kernel.Quota(); err != nil {
		return one, err
	}
	kernel.usage, err = r.tree.OpenUsage(usageName(g))
	one.Kernel = kernel
	return one, err
}

// usageName is how package cgroup calls the group of a container.
func usageName(g *Grant) string {
	if g.Engine.Cgroup != "" {
		return g.Engine.Cgroup
	}
	return g.ID
}

// Lend notes loans to this process in the state.
func (r *raising) Lend(ctx context.Context, names []string) (time.Duration, error) {
	on := about{}
	if len(names) == 1 {
		on.name = names[0]
	}
	loan := state.Loan{To: r.self, Until: (state.SinceBoot() + loanFor).Truncate(time.Millisecond)}
	err := r.operateOn(ctx, on, func(op *operation) error {
		for _, name := range names {
			if g := op.info[name]; g != nil {
				g.Loan = loan
			}
		}
		return nil
	})
	return loanFor, err
}

// Idle is how long each CPU has had nothing to do.
func (r *raising) Idle() (map[int]time.Duration, error) {
	times, err := procfs.ReadCPUTimes()
	idle := make(map[int]time.Duration, len(times))
	for cpu, t := range times {
		idle[cpu] = t.Idle
	}
	return idle, err
}

// A raisedGroup is a group as package burst sees it.
type raisedGroup struct {
	*cgroup.Group
	own   burst.Setting
	usage *cgroup.UsageReader
	units *pendingUnits
}

func (g *raisedGroup) Read() (cgroup.Usage, error) { return g.usage.Read() }
func (g *raisedGroup) Close()                      { g.usage.Close() }

// Quota is the quota that the group has.
func (g *raisedGroup) Quota() (time.Duration, error) {
	has, err := g.CPULimits()
	if err == nil && has.Quota == roundedUp(g.own.Quota, g.own.Period) {
		return g.own.Quota, nil
	}
	return has.Quota, err
}

// roundedUp is the quota that a group has for another one where systemd makes it: it keeps whole percents.
func roundedUp(quota, period time.Duration) time.Duration {
	percent := (100*quota + period - 1) / period
	return (percent * period / 100).Truncate(time.Microsecond)
}

// SetQuota raises the quota, or puts it back.
func (g *raisedGroup) SetQuota(quota time.Duration) error {
	g.units.files.Lock()
	defer g.units.files.Unlock()
	return g.Group.SetQuota(quota)
}

// checkKernelBurst refuses a burst that this kernel does not have.
func checkKernelBurst(b spec.Burst) error {
	if needs := b.By == spec.BurstKernel || b.Time > 0; needs && !kernelSavesUp() {
		return fmt.Errorf("%w: burst %v: this kernel saves nothing up (Linux 5.14 and later do): want quota, auto or none", ErrBadSpec, b)
	}
	return nil
}

// kernelBurst returns the burst that the kernel gets for a container.
func kernelBurst(g *Grant) time.Duration {
	most := quota(g).Truncate(time.Microsecond)
	switch by := g.Burst.By; {
	case by == spec.BurstTime:
		return min(g.Burst.Time, most)
	case by == spec.BurstKernel, by == spec.BurstAuto && kernelSavesUp():
		return most
	default:
		return 0
	}
}
