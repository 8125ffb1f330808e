package state

import (
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
	Creator  Process       // process that requested the grant; the grant is not reaped while it lives
	Main     Process       // the program's first process; zero if Candor did not start it
	Since    time.Duration // time since boot of the grant
	Deadline time.Duration // time since boot at which a pending grant is reaped; 0: never
	Loan     Loan          // allows a process to raise the quota

	// HasHelper reports that a helper is placed in the cgroup. The cpuset of the container does not bound it, so the
	// cgroup always has a quota then.
	HasHelper bool
}

// QuotaTime returns the CPU time per period that the cgroup gets; 0: no quota.
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

// VisibleCPUs returns the number of CPUs that the container should count: the CPUs of its cpuset, or its limit rounded
// up to whole CPUs if that is less.
func (g *Grant) VisibleCPUs() int {
	n := g.CPUs.Count()
	if g.Class == hybrid.Flexible && g.Limit > 0 {
		n = min(n, g.Limit.CPUs())
	}
	return n
}

// WithLost returns a grant together with its lost CPUs, as in the saved grant. The state keeps the lost CPUs, so that
// the container gets them back when they return.
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

// Between operations, the loop of package burst in candor run and candor nri can raise the quota of a container for a
// short time. The grant carries a loan then, and an operation does not reset a quota within the loan. If the process
// has died or has not renewed the loan in time, the next operation resets the quota as it resets a foreign write.

// A Loan allows a process to raise the quota of a container. The zero value allows nothing.
type Loan struct {
	To    Process
	Until time.Duration // time since boot
}

// fileLoan is a Loan in the state file.
type fileLoan struct {
	To    Process `json:"to"`
	Until int64   `json:"untilMs"`
}

func newFileLoan(l Loan) *fileLoan {
	if l == (Loan{}) {
		return nil
	}
	return &fileLoan{l.To, l.Until.Milliseconds()}
}

func (f *fileLoan) loan() (Loan, error) {
	if f == nil {
		return Loan{}, nil
	}
	if f.Until < 0 || f.Until > maxUptime {
		return Loan{}, fmt.Errorf("loan until %d ms: must be a time since boot", f.Until)
	}
	return Loan{f.To, time.Duration(f.Until) * time.Millisecond}, nil
}

// IsHeld reports whether the loan is valid: it has not expired, and its process lives.
func (l Loan) IsHeld() bool { return l.Until > SinceBoot() && l.To.Alive() }
