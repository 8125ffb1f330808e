package state

import (
	"slices"
	"time"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
)

// A Grant is what a container of this machine holds, and what Candor has to
// know to keep it. Its ID names the container and its cgroup below Candor's.
type Grant struct {
	hybrid.Grant
	spec.Spec
	Engine Engine // who makes and ends its group, if not Candor

	State    Phase
	Creator  Process       // who asked for it; while it lives the grant is not reaped
	Main     Process       // the program's first process; zero if Candor did not start it
	Since    time.Duration // time since boot at which it was granted
	Deadline time.Duration // a pending grant that is not running by then is reaped; 0: never
	Loan     Loan          // who may give it more than its quota
}

// Phase is where in its life a grant is.
type Phase string

const (
	Pending Phase = "pending" // planned; its creator makes the cgroup
	Running Phase = "running"
	Held    Phase = "held" // stopped, kept for a restart
)

// VisibleCPUs is the number of CPUs that the container should count: the CPUs
// of its cpuset, or those that its limit is worth where that is less.
func (g *Grant) VisibleCPUs() int {
	n := g.CPUs.Count()
	if g.Class == hybrid.Flexible && g.Limit > 0 {
		n = min(n, g.Limit.CPUs())
	}
	return n
}

// WithLost returns a grant together with the CPUs that it has lost, as it was
// saved before: that is what is saved again, so that it has them when they return.
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
