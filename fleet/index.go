package fleet

import "github.com/candor-project/candor/hybrid"

// refresh brings the index up to date with a node.
func (f *Fleet) refresh(id NodeID) {
	n, s := &f.nodes[id], &f.summaries[id]
	n.Summarize(s)
	f.figures[id] = s.Figures()
	f.countShares(id)
	n.refused = [4]int32{}
	before, now := n.traits, f.traitsOf(id)
	shelves := f.shelves(f.kinds[n.kind])
	for class := range shelves {
		shelf, key := &shelves[class], f.key(id, hybrid.Class(class))<<idBits|int64(id)
		was := item{n.keys[class], id, &before}
		switch {
		case n.shelved && was.key == key:
			shelf.touch(was, &now)
			continue
		case n.shelved:
			shelf.remove(was)
		}
		n.keys[class] = key
		shelf.insert(item{key, id, &now})
	}
	n.shelved, n.traits = true, now
}

// unshelve takes a node out of the index.
func (f *Fleet) unshelve(id NodeID) {
	n := &f.nodes[id]
	shelves := f.shelves(f.kinds[n.kind])
	for class := range shelves {
		shelves[class].remove(item{n.keys[class], id, &n.traits})
	}
}

// oneShelf reports whether containers of both classes are placed from one shelf.
func (f *Fleet) oneShelf() bool { return f.options.Order == Least || f.options.Order == Most }

// byShare reports whether the share of what is free decides for a class.
func (f *Fleet) byShare(class hybrid.Class) bool {
	return f.oneShelf() || f.options.Order == Paper && class == hybrid.Flexible
}

// keyBits are those of Fleet.key.
const keyBits = 63 - idBits

// key says where a node stands on the shelf for a class: beside those that
// containers see as it.
func (f *Fleet) key(id NodeID, class hybrid.Class) int64 {
	g := &f.figures[id]
	free := uint16(max(0, g.Free[class]) >> 7)
	switch {
	case f.byShare(class):
		return mix(free, f.scarcest(id))
	case class == hybrid.Flexible:
		return mix(uint16(g.Calm+1)>>5, g.NextLent>>4, free, f.scarcest(id))
	case f.options.Order == Paper && g.WithFlexible:
		return 1<<12 | int64(min(g.Shared, 2))
	case f.options.Order == Paper:
		return int64(min(g.Shared, 2))
	}
	switch full := f.scarcest(id); {
	case g.Spare > 0:
		return 2<<40 | int64(g.Shared)<<20 | int64(g.Spare)<<10 | int64(full)
	case g.Shared > 0:
		return 1<<40 | mix(g.TakeOne>>4, g.SharedRoom>>4, free, full)<<10 | int64(g.Shared)
	default:
		return mix(g.SharedRoom>>4, g.JoinLeast>>4, uint16(max(0, g.Most)>>7), full)
	}
}

// mix makes one figure of several below 64 (what is above counts as 63), so that nodes which
// are alike in all stand near to each other: bit by bit in turn.
func mix(figures ...uint16) int64 {
	var mixed int64
	for bit := 5; bit >= 0; bit-- {
		for _, figure := range figures {
			mixed = mixed<<1 | int64(min(figure, 63)>>bit&1)
		}
	}
	return mixed
}

// scarcest is how much a node has left of its scarcest further resource, in 64ths.
func (f *Fleet) scarcest(id NodeID) uint16 {
	least := int64(63)
	for i, free := range f.freeOf(id) {
		if whole := f.kinds[f.nodes[id].kind].capacity[i]; whole > 0 {
			least = min(least, max(0, free)/max(1, whole/64))
		}
	}
	return uint16(least)
}
