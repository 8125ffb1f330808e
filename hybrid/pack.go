package hybrid

import (
	"cmp"
	"slices"
)

// packer packs items into bins: the classic problem, solved by best-fit
// decreasing and, where that fails, by a bounded search. Sizes and room are in milli-CPU.
type packer struct {
	items  []packItem
	room   []int32 // of each bin
	rest   []int32 // rest[i]: sum of the sizes from items[i] on
	tries  int     // placements that may still be tried
	affine []affinity
	home   []int16 // by bin: its CPU, -1 while it has none
}

type packItem struct {
	milli int32
	item  int32 // index into scratch.items, or newFraction
	bin   int32
}

// newFraction stands for the fraction of the container that asks for room.
const newFraction int32 = -1

// Bounds on the search for a packing. Few instances need more than a hundred
// tries; those that no packing solves may need all of them, where isTooMuch does not tell.
const (
	packTries    = 4_000
	packTriesAny = 400_000 // where any number of moves is allowed
)

// sort orders the items, largest first.
func (p *packer) sort() {
	slices.SortFunc(p.items, func(a, b packItem) int {
		if a.milli != b.milli {
			return int(b.milli - a.milli)
		}
		return int(a.item - b.item)
	})
}

// solve packs items[from:] and reports whether that was possible. Items need to be sorted.
func (p *packer) solve(from, tries int) bool {
	if p.bestFit(from) {
		return true
	}
	if p.isTooMuch(from) {
		return false
	}
	p.rest = append(p.rest[:0], make([]int32, len(p.items)+1)...)
	for i := len(p.items) - 1; i >= from; i-- {
		p.rest[i] = p.rest[i+1] + p.items[i].milli
	}
	p.tries = tries
	return p.search(from)
}

// bestFit packs by best-fit decreasing; on failure the bins are as before.
func (p *packer) bestFit(from int) bool {
	for i := from; i < len(p.items); i++ {
		bin := p.tightest(p.items[i].milli, -1)
		if bin < 0 {
			for j := i - 1; j >= from; j-- {
				p.room[p.items[j].bin] += p.items[j].milli
			}
			return false
		}
		p.items[i].bin = int32(bin)
		p.room[bin] -= p.items[i].milli
	}
	return true
}

// tightest returns the bin with the least room that is at least size and more than above.
func (p *packer) tightest(size, above int32) int {
	best := -1
	for b, room := range p.room {
		if room >= size && room > above && (best < 0 || room < p.room[best]) {
			best = b
		}
	}
	return best
}

// search packs items[i:], the tightest bins first, and gives up after tries placements.
func (p *packer) search(i int) bool {
	if i == len(p.items) {
		return true
	}
	if p.hopeless(i) {
		return false
	}
	size := p.items[i].milli
	for bin := p.tightest(size, -1); bin >= 0; {
		if p.tries--; p.tries < 0 {
			return false
		}
		before := p.room[bin]
		p.items[i].bin = int32(bin)
		p.room[bin] -= size
		if p.search(i + 1) {
			return true
		}
		p.room[bin] = before
		if before == size {
			return false // a perfect fit is never worse than another
		}
		bin = p.tightest(size, before)
	}
	return false
}

// hopeless reports whether the room that the smallest item could use is too
// little for all items from i on.
func (p *packer) hopeless(i int) bool {
	smallest := p.items[len(p.items)-1].milli
	var room int32
	for _, r := range p.room {
		if r >= smallest {
			room += r
		}
	}
	return room < p.rest[i]
}

// anyIn returns an item that is in a bin, as an index into scratch.items; -1: none
// that exists.
func (p *packer) anyIn(bin int32) int32 {
	for i := range p.items {
		if p.items[i].bin == bin && p.items[i].item != newFraction {
			return p.items[i].item
		}
	}
	return -1
}

// An affinity is how many items of a bin are on a CPU already.
type affinity struct {
	bin   int32
	cpu   int16
	items int16
}

// affinities returns those of all bins, the strongest first.
func (p *packer) affinities(items []item) []affinity {
	list := p.affine[:0]
	for i := range p.items {
		if it := p.items[i].item; it != newFraction {
			list = append(list, affinity{p.items[i].bin, items[it].cpu, 1})
		}
	}
	slices.SortFunc(list, func(a, b affinity) int { return cmp.Or(cmp.Compare(a.bin, b.bin), cmp.Compare(a.cpu, b.cpu)) })
	last := 0
	for i := 1; i < len(list); i++ {
		if list[i].bin == list[last].bin && list[i].cpu == list[last].cpu {
			list[last].items++
		} else {
			last++
			list[last] = list[i]
		}
	}
	p.affine = list
	list = list[:min(last+1, len(list))]
	slices.SortFunc(list, func(a, b affinity) int {
		return cmp.Or(cmp.Compare(b.items, a.items), cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.bin, b.bin))
	})
	return list
}

// A packing that is not found does not exist, as a rule, and a search may need all of its tries to find none. A bound says
// so at once for many of them; of what full nodes of Google's cell of 2011 could not pack, where all containers
// are sensitive, for nine in ten. It weighs the items by functions under which no bin's items weigh more than one (u(k) of Fekete and
// Schepers, "New classes of fast lower bounds for bin packing problems", 2001): of items above a quarter of a bin, say, each weighs
// a third at least, since no bin holds four.

// weighings is how many such functions are tried: that of k tells of items above a (k+1)-th of a bin.
const weighings = 12

// isTooMuch reports that no packing of items[from:] exists; false says nothing.
func (p *packer) isTooMuch(from int) bool {
	for k := int32(1); k <= weighings; k++ {
		if p.weigh(from, k) > k*1000*int32(len(p.room)) {
			return true
		}
	}
	return false
}

// weigh returns the sum of what items[from:] weigh by u(k), and what is in the bins already, where a bin holds k*1000.
func (p *packer) weigh(from int, k int32) (sum int32) {
	for i := from; i < len(p.items); i++ {
		sum += weighed(p.items[i].milli, k)
	}
	for _, room := range p.room {
		sum += weighed(1000-room, k)
	}
	return sum
}

// weighed is k*1000 times u(k) of a part of a bin.
func weighed(milli, k int32) int32 {
	if whole := (k + 1) * milli / 1000; whole*1000 != (k+1)*milli {
		return whole * 1000
	}
	return k * milli
}
