package audit

import (
	"cmp"
	"slices"
	"strings"

	"github.com/candor-project/candor/auditreport"
)

// Gain estimates whether a container would gain from a view that matches its limit.
type Gain = auditreport.Gain

// The estimates; Container.Gain returns No in all other cases.
const (
	Likely = auditreport.Likely
	Maybe  = auditreport.Maybe
	No     = auditreport.No
)

// A container counts as throttled if it had at least leastPeriods periods and its quota ran out in at least leastShare of them.
const (
	leastPeriods = 50
	leastShare   = 0.01
)

// Differs reports whether a CPU count of a container, in its affinity or in its files, differs from its limit, rounded up: 1.5 CPUs are two
// CPUs. For a container without a limit, Differs is false: the container can use all CPUs that it sees.
func (c *Container) Differs() bool {
	limit := c.Limit.CPUs()
	return limit != 0 && (c.Sees != limit || c.SeesFiles != 0 && c.SeesFiles != limit)
}

// Share returns the share of the periods with work in which the quota ran out, 0 to 1.
func (c *Container) Share() float64 {
	if c.Periods == 0 {
		return 0
	}
	return min(float64(c.Throttled)/float64(c.Periods), 1)
}

// Gain returns an estimate from the numbers of threads and throttled periods. A program that sizes itself by the CPUs that it sees
// has more threads than its limit has CPUs. The throttled periods show the cost of these threads.
func (c *Container) Gain() Gain {
	has := c.Limit.CPUs()
	switch {
	case !c.Differs() || c.Sees < has || c.Threads <= has:
		return No
	case c.Periods >= leastPeriods && c.Share() >= leastShare:
		return Likely
	default:
		return Maybe
	}
}

// sortByLoss sorts containers by throttled time and then by their threads beyond the limit, the highest first, then by name and cgroup.
func sortByLoss(all []Container) {
	slices.SortFunc(all, func(a, b Container) int {
		return cmp.Or(
			cmp.Compare(b.ThrottledTime, a.ThrottledTime),
			cmp.Compare(b.excess(), a.excess()),
			strings.Compare(a.Name, b.Name),
			strings.Compare(a.Group, b.Group),
		)
	})
}

// excess returns the number of threads beyond the CPUs of the limit.
func (c *Container) excess() int {
	if c.Limit == 0 {
		return 0
	}
	return max(c.Threads-c.Limit.CPUs(), 0)
}
