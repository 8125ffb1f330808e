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
}

func newBound() bound { return bound{pivot: 999} }

// add counts a fraction in (sign 1) or out (sign -1).
func (b *bound) add(fraction, sign int64) {
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
