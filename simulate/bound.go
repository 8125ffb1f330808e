package simulate

import "github.com/candor-project/candor/fleet"

// A bound is the least shared time that the running containers could have, if all
// of them could be rearranged at any moment over the CPUs of the whole cell, as if that were
// one machine. No algorithm has less, with the same containers placed.
//
// A fraction f shares no CPU only if the rest of its CPU, 1000 - f, stays idle.
// What may stay idle is what no container was promised. So the least time is shared where the
// largest fractions have CPUs of their own, as many as that allows.
type bound struct {
	count [1000]int64 // of the fractions, by size
	idle  int64       // what the fractions above pivot leave idle with CPUs of their own
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
	// Of those at the pivot some have a CPU of their own; the last one by a part, so that this stays
	// a bound from below.
	spared := (slack - b.idle) * int64(b.pivot)
	each := int64(1000 - b.pivot)
	return b.below - (spared+each-1)/each
}

// least returns the least shared time under a fleet's totals.
func (b *bound) least(t fleet.Totals) int64 {
	return b.shared(int64(t.Capacity - t.Sensitive - t.Guaranteed))
}

// cpus returns how many CPUs the containers need at least, and one more of some
// limit, each with a view that equals its limit: the whole ones, and those that the fractions
// need as the bins of a bin packing. Of these it is the lower bound L2 of Martello and Toth
// ("Knapsack Problems", 1990, section 8.3).
func (b *bound) cpus(limit int64) int64 {
	b.add(limit, 1)
	defer b.add(limit, -1)
	large, room, small := int64(0), int64(0), int64(0) // room is what the large fractions leave
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
