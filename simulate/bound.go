package simulate

import "github.com/candor-project/candor/fleet"

// A cellBound computes lower bounds for the running sensitive containers, as if the whole cell (all nodes) were a single machine.
//
// The method minShared returns a lower bound on their shared time: the shared time if all containers could be rearranged at any moment over
// the CPUs of the cell. No algorithm has less shared time with the same containers. A fraction f avoids sharing only if it has a CPU of its
// own, whose rest, 1000 - f, stays idle. The idle time is at most the cell's unallocated CPU time. So the shared time is minimal if as many
// of the largest fractions as possible have CPUs of their own.
type cellBound struct {
	fractions [1000]int64 // number of fractions of each size in milli-CPU
	idle      int64       // idle time on the CPUs of the fractions above pivot, which have CPUs of their own
	shared    int64       // sum of the fractions up to pivot
	pivot     int         // fraction size, 0 to 999
	wholeCPUs int64       // sum of the whole CPUs in the limits
}

func newCellBound() cellBound { return cellBound{pivot: 999} }

// add adds a sensitive container's limit (sign 1), or subtracts it (sign -1).
func (b *cellBound) add(limit, sign int64) {
	fraction := limit % 1000
	b.wholeCPUs += sign * (limit / 1000)
	if fraction == 0 {
		return
	}
	b.fractions[fraction] += sign
	if fraction > int64(b.pivot) {
		b.idle += sign * (1000 - fraction)
	} else {
		b.shared += sign * fraction
	}
}

// minShared returns the lowest shared time if the idle time (b.idle) is at most slack, in milli-CPU.
func (b *cellBound) minShared(slack int64) int64 {
	for b.idle > slack { // too much idle time: the smallest fractions with CPUs of their own lose these CPUs
		b.pivot++
		b.idle -= b.fractions[b.pivot] * int64(1000-b.pivot)
		b.shared += b.fractions[b.pivot] * int64(b.pivot)
	}
	for b.pivot > 0 && b.idle+b.fractions[b.pivot]*int64(1000-b.pivot) <= slack {
		b.idle += b.fractions[b.pivot] * int64(1000-b.pivot)
		b.shared -= b.fractions[b.pivot] * int64(b.pivot)
		b.pivot--
	}
	if b.pivot == 0 {
		return 0
	}
	// The remaining slack gives CPUs to some of the fractions of size pivot. The last of these CPUs counts partly, so that the result
	// remains a lower bound.
	spared := (slack - b.idle) * int64(b.pivot)
	each := int64(1000 - b.pivot)
	return b.shared - (spared+each-1)/each
}

// minSharedOf returns the lowest shared time for the totals of a fleet.
func (b *cellBound) minSharedOf(t fleet.Totals) int64 {
	return b.minShared(int64(t.Capacity - t.Sensitive - t.Guaranteed))
}

// minCPUs returns a lower bound on the number of CPUs with which all running sensitive containers, and a further container with this limit,
// can have views equal to their limits. The result is the number of whole CPUs, plus a lower bound on the CPUs that hold the fractions (bin
// packing). This bound is L2 of Martello and Toth ("Knapsack Problems", 1990, section 8.3).
func (b *cellBound) minCPUs(limit int64) int64 {
	b.add(limit, 1)
	defer b.add(limit, -1)
	large, room, small := int64(0), int64(0), int64(0) // large fractions are above 500m; room is the rest of their CPUs
	for f, n := range b.fractions {
		if f > 500 {
			large, room = large+n, room+n*int64(1000-f)
		} else {
			small += n * int64(f)
		}
	}
	bins := int64(0)
	for smallest := range 501 { // ignore the fractions below smallest, and the room that only these fractions can use
		bins = max(bins, large+max(0, (small-room+999)/1000))
		small -= b.fractions[smallest] * int64(smallest)
		if beside := 1000 - smallest; beside > 500 && beside < 1000 {
			room -= b.fractions[beside] * int64(smallest)
		}
	}
	return b.wholeCPUs + bins
}
