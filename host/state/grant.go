package state

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
)

// A Grant holds the CPUs of a container of this machine, its settings and its processes. Its ID names the container
// and its cgroup below Candor's parent cgroup.
type Grant struct {
	hybrid.Grant
	spec.Spec
	Engine Engine // the engine that owns the cgroup; zero: Candor

	State    Phase
	Creator  Process       // process that requested the grant; after its end, a grant without processes can be reaped
	Main     Process       // the program's first process; zero if Candor did not start it
	Since    time.Duration // creation of the grant, as time since boot
	Deadline time.Duration // time since boot at which a pending grant is reaped; 0: never
	Lease    Lease         // allows a process to change the quota

	// HasHelper reports that a helper is placed in the cgroup. The cpuset of the container does not bound the helper,
	// so the cgroup always has a quota then.
	HasHelper bool
}

// DisplayName returns the name of the container for texts: namespace/pod/container, the name in its engine, or its ID.
func (g *Grant) DisplayName() string { return cmp.Or(g.Engine.DisplayName().String(), g.ID) }

// QuotaTime returns the CPU time per period that the cgroup gets. 0 means no quota.
func (g *Grant) QuotaTime() time.Duration {
	if g.Quota == 0 && g.HasHelper {
		return g.Limit.Quota(g.Period)
	}
	return g.Quota.Quota(g.Period)
}

// Phase is the life phase of a grant.
type Phase string

// Phases.
const (
	Pending Phase = "pending" // planned; the cgroup is created later
	Running Phase = "running"
	Held    Phase = "held" // stopped; reserved for a restart
)

// VisibleCPUs returns the number of CPUs that the programs of the container should find: the CPUs of its cpuset. For a flexible
// container, it is at most the limit, rounded up to whole CPUs.
func (g *Grant) VisibleCPUs() int {
	n := g.CPUs.Count()
	if g.Class == hybrid.Flexible && g.Limit > 0 {
		n = min(n, g.Limit.CPUs())
	}
	return n
}

// WithLost returns the present grant (now) with its lost CPUs added. A lost CPU is exclusive, or has a fraction, as in the saved grant. The
// state keeps the lost CPUs, so that the container gets them back when the machine has them again.
func WithLost(now, saved hybrid.Grant) hybrid.Grant {
	if now.Lost.IsEmpty() {
		return now
	}
	now.CPUs = now.CPUs.Union(now.Lost)
	now.Exclusive = now.Exclusive.Union(saved.Exclusive.Intersect(now.Lost))
	for _, f := range saved.Fractions {
		if now.Lost.Contains(f.CPU) {
			now.Fractions = append(now.Fractions, f)
		}
	}
	slices.SortFunc(now.Fractions, func(a, b hybrid.Fraction) int { return a.CPU - b.CPU })
	now.Lost = cpuset.Set{}
	return now
}

// Between operations, candor run, candor nri and candor ledger agent can change the quota of a container for a short time, and can freeze
// the container (package quota). In this time, the grant has a lease, and an operation does not reset a quota that the lease permits. If
// the process has died or has not renewed the lease in time, the next operation thaws the container and resets the quota. It treats the
// quota like a write by a foreign process.

// A Lease allows a process to change the quota of a container. The zero value allows nothing.
type Lease struct {
	To       Process
	Until    time.Duration // time since boot
	Min, Max time.Duration // bounds of the quota, as CPU time per period; both 0: the process only raises the quota
	Frozen   bool          // the process can freeze the container
}

// fileLease is a Lease in the state file. Version 2 of the file has neither bounds nor frozen.
type fileLease struct {
	To     Process `json:"to"`
	Until  int64   `json:"untilMs"`
	MinUs  int64   `json:"minUs,omitempty"`
	MaxUs  int64   `json:"maxUs,omitempty"`
	Frozen bool    `json:"frozen,omitempty"`
}

func newFileLease(l Lease) *fileLease {
	if l == (Lease{}) {
		return nil
	}
	return &fileLease{l.To, l.Until.Milliseconds(), l.Min.Microseconds(), l.Max.Microseconds(), l.Frozen}
}

// maxLeasedQuota is the maximum of a lease's bounds in microseconds: more than the quota of all CPUs of any machine.
const maxLeasedQuota = 1 << 40

func (f *fileLease) lease() (Lease, error) {
	switch {
	case f == nil:
		return Lease{}, nil
	case f.Until < 0 || f.Until > maxUptime:
		return Lease{}, fmt.Errorf("lease until %d ms: must be a time since boot", f.Until)
	case f.MinUs < 0 || f.MinUs > f.MaxUs || f.MaxUs > maxLeasedQuota:
		return Lease{}, fmt.Errorf("lease of quotas from %d to %d us: must be from 0 to %d, in this order", f.MinUs, f.MaxUs, int64(maxLeasedQuota))
	}
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	return Lease{f.To, time.Duration(f.Until) * time.Millisecond, us(f.MinUs), us(f.MaxUs), f.Frozen}, nil
}

// IsHeld reports whether the lease is valid: it has not expired, and its process lives.
func (l Lease) IsHeld() bool { return l.Until > SinceBoot() && l.To.Alive() }

// IsCharged reports whether the given quota, read from the kernel, is below the container's limit because of its
// helpers.
func (g *Grant) IsCharged(quota time.Duration) bool {
	limit := g.Limit.Quota(g.Period).Truncate(time.Microsecond)
	return g.Lease.IsHeld() && g.Lease.Max > 0 && g.Lease.Min < limit && quota > 0 && quota < limit
}
