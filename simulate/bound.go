package simulate

import "github.com/candor-project/candor/fleet"

// A bound is a lower bound on the shared time of the running containers: the shared time if all of them could be rearranged at any
// moment over the CPUs of the whole cell, as in a single machine. No algorithm has less shared time with the same containers.
//
// A fraction f shares no CPU only if the rest of its CPU, 1000 - f, stays idle. The cell's unallocated CPU time bounds the idle time.
// So the shared time is minimal if the largest fractions have CPUs of their own, as many as the idle time allows.
type bound struct {
	count [1000]int64 // of the fractions, by size
	idle  int64       // idle time of exclusive CPUs for the fractions above pivot
	below int64       // sum of the fractions up to pivot
	pivot int         // 0 to 999
	whole int64       // whole CPUs
}

func newBound() bound { return bound{pivot: 999} }

// add counts a sensitive container's limit in (sign 1) or out (sign -1).
func (b *bound) add(limit, sign int64) {
	fraction := limit % 1000
	b.whole += sign * (limit / 1000)
	if fraction == 0 {
		return
	}
	b.count[fraction] += sign
	if fraction > int64(b.pivot) {
		b.idle += sign * (1000 - fraction)
	} else {
		b.below += sign * fraction
	}
}

// shared returns the least shared time where so much may stay idle.
func (b *bound) shared(slack int64) int64 {
	for b.idle > slack { // the smallest of those with a CPU of their own goes first
		b.pivot++
		b.idle -= b.count[b.pivot] * int64(1000-b.pivot)
		b.below += b.count[b.pivot] * int64(b.pivot)
	}
	for b.pivot > 0 && b.idle+b.count[b.pivot]*int64(1000-b.pivot) <= slack {
		b.idle += b.count[b.pivot] * int64(1000-b.pivot)
		b.below -= b.count[b.pivot] * int64(b.pivot)
		b.pivot--
	}
	if b.pivot == 0 {
		return 0
	}
	// Some of the fractions at the pivot have an exclusive CPU, the last of them partly, so that this stays a lower bound.
	spared := (slack - b.idle) * int64(b.pivot)
	each := int64(1000 - b.pivot)
	return b.below - (spared+each-1)/each
}

// least returns the least shared time under a fleet's totals.
func (b *bound) least(t fleet.Totals) int64 {
	return b.shared(int64(t.Capacity - t.Sensitive - t.Guaranteed))
}

// cpus returns a lower bound on the CPUs that the containers need, and a further container with a limit, each with a view that equals
// its limit: the whole CPUs, and the bins of a bin packing of the fractions, by the lower bound L2 of Martello and Toth ("Knapsack
// Problems", 1990, section 8.3).
func (b *bound) cpus(limit int64) int64 {
	b.add(limit, 1)
	defer b.add(limit, -1)
	large, room, small := int64(0), int64(0), int64(0) // room is the capacity beside the large fractions
	for f, n := range b.count {
		if f > 500 {
			large, room = large+n, room+n*int64(1000-f)
		} else {
			small += n * int64(f)
		}
	}
	bins := int64(0)
	for least := range 501 { // fractions below it are left out, and the room that is for them only
		bins = max(bins, large+max(0, (small-room+999)/1000))
		small -= b.count[least] * int64(least)
		if beside := 1000 - least; beside > 500 && beside < 1000 {
			room -= b.count[beside] * int64(least)
		}
	}
	return b.whole + bins
}
