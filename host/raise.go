package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/burst"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/spec"
)

// loanDuration is the length of a loan. The loop renews the loan while it needs it.
const loanDuration = time.Minute

// maxShare limits the raised quota of a flexible container to a multiple of its limit.
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

// isLent reports whether the present quota of a cgroup is within the container's loan. A resize ends the loan.
func (op *operation) isLent(g *Grant, current cgroup.Settings) bool {
	isLent := g.ID != op.resized && current.Period == g.Period && current.Quota > quota(g) && current.Quota <= maxQuota(g)
	return isLent && g.Loan.IsHeld()
}

// isRaised reports whether the loop raises the quota of a container.
func isRaised(g *Grant) bool {
	return g.Burst.Raises() && g.State == Running && g.Quota > 0 && g.Period >= bandwidth.MinRaisePeriod && maxQuota(g) > quota(g)
}

// RaiseOwn raises the quota of a program of this process until stop is called.
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
			h.log.Warn("cannot raise a container's quota", "container", g.ID, "error", err)
		}
	}()
	return func() { cancel(); <-ended }
}

// RaiseQuotas raises the quotas of containers that request it, while they are throttled and their CPUs have idle time.
// It runs until ctx is done. isOwn selects the containers that this process manages.
func (h *Host) RaiseQuotas(ctx context.Context, isOwn func(*Grant) bool) error {
	self, err := state.OwnProcess()
	if err != nil {
		return err
	}
	return burst.New(&raising{Host: h, isOwn: isOwn, self: self}, h.log).Run(ctx)
}

// A raising adapts a host to package burst.
type raising struct {
	*Host
	isOwn func(*Grant) bool
	self  Process
	seen  unix.Stat_t // the state file at the last read
}

// Changed reports whether the state file has been replaced. The file is never written in place.
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

// Groups returns the cgroups of the selected containers.
func (r *raising) Groups() ([]burst.Group, error) {
	r.seen = r.stat() // before Load, so that Changed notices later writes
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
		if !isRaised(g) || !r.isOwn(g) {
			continue
		}
		raised, err := r.group(g)
		if errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, fs.ErrNotExist) { // the container has ended; an operation reaps it
			continue
		}
		if err != nil {
			r.log.Warn("cannot raise a container's quota", "container", g.ID, "error", err)
		}
		groups = append(groups, raised)
	}
	return groups, nil
}

func (r *raising) group(g *Grant) (burst.Group, error) {
	raised := burst.Group{
		Name: g.ID, CPUs: g.CPUs,
		Setting: burst.Setting{Quota: quota(g).Truncate(time.Microsecond), Period: g.Period, MaxQuota: maxQuota(g)},
	}
	kernel := &raisedGroup{Group: r.groupOf(g), units: &r.units, own: raised.Setting}
	var err error
	if raised.InForce, err = kernel.Quota(); err != nil {
		return raised, err
	}
	kernel.usage, err = r.tree.OpenUsage(usageName(g))
	raised.Kernel = kernel
	return raised, err
}

// usageName returns the name of a container's cgroup in package cgroup.
func usageName(g *Grant) string {
	if g.Engine.Cgroup != "" {
		return g.Engine.Cgroup
	}
	return g.ID
}

// Lend records loans to this process in the state.
func (r *raising) Lend(ctx context.Context, names []string) (time.Duration, error) {
	s := scope{}
	if len(names) == 1 {
		s.name = names[0]
	}
	loan := state.Loan{To: r.self, Until: (state.SinceBoot() + loanDuration).Truncate(time.Millisecond)}
	err := r.operateOn(ctx, s, func(op *operation) error {
		for _, name := range names {
			if g := op.info[name]; g != nil {
				g.Loan = loan
			}
		}
		return nil
	})
	return loanDuration, err
}

// Idle returns the idle time of each CPU since boot.
func (r *raising) Idle() (map[int]time.Duration, error) {
	times, err := procfs.ReadCPUTimes()
	idle := make(map[int]time.Duration, len(times))
	for cpu, t := range times {
		idle[cpu] = t.Idle
	}
	return idle, err
}

// A raisedGroup adapts a cgroup to package burst.
type raisedGroup struct {
	*cgroup.Group
	own   burst.Setting
	usage *cgroup.UsageReader
	units *pendingUnits
}

func (g *raisedGroup) Read() (cgroup.Usage, error) { return g.usage.Read() }
func (g *raisedGroup) Close()                      { g.usage.Close() }

// Quota returns the present quota of the cgroup.
func (g *raisedGroup) Quota() (time.Duration, error) {
	current, err := g.CPULimits()
	if err == nil && current.Quota == roundedUp(g.own.Quota, g.own.Period) {
		return g.own.Quota, nil
	}
	return current.Quota, err
}

// roundedUp returns the quota that a cgroup gets from systemd, which rounds a quota up to whole percents.
func roundedUp(quota, period time.Duration) time.Duration {
	percent := (100*quota + period - 1) / period
	return (percent * period / 100).Truncate(time.Microsecond)
}

// SetQuota raises or restores the quota.
func (g *raisedGroup) SetQuota(quota time.Duration) error {
	g.units.files.Lock()
	defer g.units.files.Unlock()
	return g.Group.SetQuota(quota)
}

// checkKernelBurst refuses a burst that this kernel does not support.
func checkKernelBurst(b spec.Burst) error {
	if needs := b.By == spec.BurstKernel || b.Time > 0; needs && !kernelHasBurst() {
		return fmt.Errorf("%w: burst %v: this kernel has no burst (Linux 5.14 and later have it); use quota, auto or none", ErrBadSpec, b)
	}
	return nil
}

// kernelBurst returns the burst that Candor writes for a container.
func kernelBurst(g *Grant) time.Duration {
	limit := quota(g).Truncate(time.Microsecond)
	switch by := g.Burst.By; {
	case by == spec.BurstTime:
		return min(g.Burst.Time, limit)
	case by == spec.BurstKernel, by == spec.BurstAuto && kernelHasBurst():
		return limit
	default:
		return 0
	}
}
