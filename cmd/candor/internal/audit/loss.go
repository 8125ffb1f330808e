package audit

import (
	"cmp"
	"slices"
	"strings"
)

// Gain is whether a container would likely gain from seeing what it has.
type Gain string

const (
	Likely Gain = "likely" // it has more threads than CPUs by its limit, and is throttled for it
	Maybe  Gain = "maybe"  // it has as many threads, and has not been throttled
	No     Gain = "no"
)

// What counts as being throttled: so many periods, and this share of them.
const (
	leastPeriods = 50
	leastShare   = 0.01
)

// Differs reports whether a container sees another number of CPUs than its limit is worth: 1.5 CPUs
// are two to be seen. One without a limit may use what it sees.
func (c *Container) Differs() bool { return c.Limit != 0 && c.Sees != c.Limit.CPUs() }

// Share is the share of the periods with work in which the quota ran out, 0 to 1.
func (c *Container) Share() float64 {
	if c.Periods == 0 {
		return 0
	}
	return min(float64(c.Throttled)/float64(c.Periods), 1)
}

// Gain is a guess from counts. A program that sizes itself by the CPUs that it sees has more threads
// than its limit is worth; what that costs shows in the periods in which the quota ran out.
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

// sortByLoss puts what stood still longest first; of equals what has most threads beyond its
// limit; then by name and group.
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

// excess is how many threads find no CPU of the limit's.
func (c *Container) excess() int {
	if c.Limit == 0 {
		return 0
	}
	return max(c.Threads-c.Limit.CPUs(), 0)
}
