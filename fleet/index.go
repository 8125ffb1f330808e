package fleet

import (
	"math/bits"

	"github.com/candor-project/candor/hybrid"
)

// refresh brings the index up to date with a node.
func (f *Fleet) refresh(id NodeID) {
	n, s := &f.nodes[id], &f.summaries[id]
	n.Summarize(s)
	f.figures[id] = s.Figures()
	n.refused = 0
	shelves := f.shelves(&f.kinds[n.kind])
	for class := range shelves {
		key, before := f.key(id, hybrid.Class(class)), n.keys[class]
		switch {
		case n.shelved && before == key:
			f.touch(&shelves[class], item{key, id})
			continue
		case n.shelved:
			f.remove(&shelves[class], item{before, id})
		}
		n.keys[class] = key
		f.insert(&shelves[class], item{key, id})
	}
	n.shelved = true
}

// unshelve takes a node out of the index.
func (f *Fleet) unshelve(id NodeID) {
	n := &f.nodes[id]
	shelves := f.shelves(&f.kinds[n.kind])
	for class := range shelves {
		f.remove(&shelves[class], item{n.keys[class], id})
	}
}

// oneShelf reports whether containers of both classes are placed from one shelf.
func (f *Fleet) oneShelf() bool { return f.options.Order == Least || f.options.Order == Most }

// shelves returns the shelves of a kind, by class, or the one for both.
func (f *Fleet) shelves(k *kind) []shelf {
	if f.oneShelf() {
		return k.shelves[:1]
	}
	return k.shelves[:]
}

// shelfFor returns the shelf of a kind from which containers of a class are placed.
func (f *Fleet) shelfFor(k *kind, class hybrid.Class) *shelf {
	shelves := f.shelves(k)
	return &shelves[min(int(class), len(shelves)-1)]
}

// byShare reports whether the share of what is free decides for a class.
func (f *Fleet) byShare(class hybrid.Class) bool {
	return f.oneShelf() || f.options.Order == Paper && class == hybrid.Flexible
}

// key says where a node stands on the shelf for a class: beside those that
// containers see as it.
func (f *Fleet) key(id NodeID, class hybrid.Class) int64 {
	g := &f.figures[id]
	if f.byShare(class) {
		w := &f.kinds[f.nodes[id].kind].weigher
		sum := w.weigh(int64(g.Free[hybrid.Flexible]), f.freeOf(id))
		if f.options.Order == Most {
			return sum
		}
		return -sum
	}
	full := f.fullness(id)
	switch {
	case class == hybrid.Flexible:
		return line(g.Spare, uint16(min(g.Ease+1, 1<<14))>>6, full)
	case f.options.Order == Candor && g.Spare > 0:
		return line(g.Shared, g.Spare, 0, 0, 0, full)
	case f.options.Order == Paper:
		with := uint16(0)
		if g.WithFlexible {
			with = 1
		}
		return line(with, g.Shared, g.MultiRoom>>7, g.Room>>7, full)
	default:
		return line(g.Shared, g.Spare, g.MultiRoom>>7, min(g.NextLent>>7, 8), g.Room>>7, full)
	}
}

// line makes one key of figures below 1024: the first one decides.
func line(figures ...uint16) int64 {
	var key int64
	for _, figure := range figures {
		key = key<<10 | int64(min(figure, 1023))
	}
	return key
}

// fullness is how scarce a node's scarcest further resource is: how often what
// is free must be doubled to be more than half of what the node has; 7 at most.
func (f *Fleet) fullness(id NodeID) uint16 {
	full := uint16(0)
	for i, free := range f.freeOf(id) {
		if whole := f.kinds[f.nodes[id].kind].capacity[i]; whole > 0 {
			full = max(full, uint16(bits.Len64(uint64(whole/max(free, 1)))))
		}
	}
	return min(full, 7)
}
