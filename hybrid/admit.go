package hybrid

// admitFlexible finds the domain of a flexible container, by its wish: of those
// with room the one where the node shares the least, and among equals the one with the
// most room.
func (n *Node) admitFlexible(s int32) error {
	slot := &n.slots[s]
	wish := slot.request.Wish
	best, bestShared, bestRoom := wholeNode, impossible, Milli(0)
	for d := range n.domains {
		if n.domains[d].kind != wish {
			continue
		}
		n.setDomain(s, int32(d))
		shared := n.settle()
		within := n.domainCPUs(int32(d))
		open := n.openWithin(within)
		room, _ := n.roomOn(&open, within)
		room -= n.domainNeed(int32(d))
		if shared < bestShared || shared == bestShared && shared < impossible && room > bestRoom {
			best, bestShared, bestRoom = int32(d), shared, room
		}
	}
	n.setDomain(s, best)
	isWish := wish == SingleNUMA || wish == SingleL3 || wish == WholeCores
	if best == wholeNode && isWish && slot.request.Policy == Strict {
		return ErrNoCapacity
	}
	if n.settle() == impossible {
		return ErrNoCapacity
	}
	return nil
}

// setDomain moves a flexible container, and what it needs, to a domain.
func (n *Node) setDomain(s, domain int32) {
	n.unpromise(s)
	n.slots[s].domain = domain
	n.promise(s)
}

// flexibleStillFits finds room for a flexible container that was resized: where
// it is, else in another domain.
func (n *Node) flexibleStillFits(s int32) error {
	if n.options.Algorithm == Paper {
		return n.paperAllocate(s)
	}
	if n.settle() < impossible {
		return nil
	}
	return n.admitFlexible(s)
}
