package hybrid

import (
	"cmp"
	"slices"
)

// A packer solves a bin packing problem: the items are fractions, and the bins are CPUs. It uses best-fit
// decreasing and, if that fails, a bounded depth-first search. Sizes and room are in milli-CPU.
type packer struct {
	items        []packItem
	room         []int32    // free room of each bin
	rest         []int32    // rest[i]: sum of the sizes from items[i] on
	tries        int        // number of placements that the search can still try
	affinityList []affinity // memory for affinities
	cpus         []int16    // CPU of each bin; -1: not assigned yet
}

type packItem struct {
	milli int32
	item  int32 // index into scratch.items, or newFraction
	bin   int32 // index into packer.cpus
}

// newFraction marks the item that is the fraction of the plan's container, which is on no CPU yet.
const newFraction int32 = -1

// Maximum number of placements in a packing search. Few instances need more than a hundred placements. An
// infeasible instance can use up all placements unless exceedsBound proves that it is infeasible.
const (
	packTries    = 4_000
	packTriesAny = 400_000 // if Options.RescueMoves permits any number of moves
)

// sort orders the items, the largest first.
func (p *packer) sort() {
	slices.SortFunc(p.items, func(a, b packItem) int {
		if a.milli != b.milli {
			return int(b.milli - a.milli)
		}
		return int(a.item - b.item)
	})
}

// solve packs items[from:] and reports whether it found a packing. The items must be sorted.
func (p *packer) solve(from, tries int) bool {
	if p.bestFit(from) {
		return true
	}
	if p.exceedsBound(from) {
		return false
	}
	p.rest = append(p.rest[:0], make([]int32, len(p.items)+1)...)
	for i := len(p.items) - 1; i >= from; i-- {
		p.rest[i] = p.rest[i+1] + p.items[i].milli
	}
	p.tries = tries
	return p.search(from)
}

// bestFit packs items[from:] by best-fit decreasing. On failure, the bins are unchanged.
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

// tightest returns the bin with the least room among the bins whose room is at least the parameter size and more than the
// parameter above. It returns -1 if there is no such bin.
func (p *packer) tightest(size, above int32) int {
	best := -1
	for b, room := range p.room {
		if room >= size && room > above && (best < 0 || room < p.room[best]) {
			best = b
		}
	}
	return best
}

// search packs items[i:]. It tries the tightest bins first and gives up after p.tries placements.
func (p *packer) search(i int) bool {
	if i == len(p.items) {
		return true
	}
	if p.isHopeless(i) {
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
			return false // no other bin is better than a perfect fit
		}
		bin = p.tightest(size, before)
	}
	return false
}

// isHopeless reports whether the bins with room for the smallest item have too little room for
// items[i:].
func (p *packer) isHopeless(i int) bool {
	smallest := p.items[len(p.items)-1].milli
	var room int32
	for _, r := range p.room {
		if r >= smallest {
			room += r
		}
	}
	return room < p.rest[i]
}

// itemIn returns an item in a bin, as an index into scratch.items; -1 if the bin has no item except newFraction.
func (p *packer) itemIn(bin int32) int32 {
	for i := range p.items {
		if p.items[i].bin == bin && p.items[i].item != newFraction {
			return p.items[i].item
		}
	}
	return -1
}

// An affinity is the number of items of a bin whose present CPU is cpu.
type affinity struct {
	bin   int32
	cpu   int16
	items int16
}

// affinities returns the affinities of all bins with all CPUs, the affinity with the most items first.
func (p *packer) affinities(items []item) []affinity {
	list := p.affinityList[:0]
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
	p.affinityList = list
	list = list[:min(last+1, len(list))]
	slices.SortFunc(list, func(a, b affinity) int {
		return cmp.Or(cmp.Compare(b.items, a.items), cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.bin, b.bin))
	})
	return list
}

// A search that finds no packing usually uses all of its tries. exceedsBound proves most of these instances infeasible at once: nine in ten
// on full nodes in a replay of Google's trace of 2011 in which all containers are sensitive. It computes a lower bound on the number of
// bins with the dual feasible functions u(k) of Fekete and Schepers ("New classes of fast lower bounds for bin packing problems", 2001). A
// function u(k) assigns a weight to each item so that the items of a bin never weigh more than 1 in total. For example, u(3) gives each
// item above a quarter of a bin a weight of at least a third, because no bin holds four of these items.

// weighings is the number of functions that exceedsBound tries. Function k helps with items above 1/(k+1) of a bin.
const weighings = 12

// exceedsBound reports whether a bound proves that no packing of items[from:] exists.
func (p *packer) exceedsBound(from int) bool {
	for k := int32(1); k <= weighings; k++ {
		if p.weigh(from, k) > k*1000*int32(len(p.room)) {
			return true
		}
	}
	return false
}

// weigh returns k*1000 times the total weight, under u(k), of items[from:] and of the present content of each bin.
// The content of a bin counts as one item.
func (p *packer) weigh(from int, k int32) (sum int32) {
	for i := from; i < len(p.items); i++ {
		sum += weightOf(p.items[i].milli, k)
	}
	for _, room := range p.room {
		sum += weightOf(1000-room, k)
	}
	return sum
}

// weightOf returns the weight that the function u(k) of exceedsBound assigns to an item of this size, times k*1000.
func weightOf(milli, k int32) int32 {
	if whole := (k + 1) * milli / 1000; whole*1000 != (k+1)*milli {
		return whole * 1000
	}
	return k * milli
}
