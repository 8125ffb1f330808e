package hybrid

import "github.com/candor-project/candor/cpuset"

// admitFlexible finds the domain of a flexible container, by its wish: of those
// with room the one where the node shares the least, and among equals the one with the
// most room.
func (n *Node) admitFlexible(s int32) error {
	slot := &n.slots[s]
	wish := slot.Wish
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
	if best == wholeNode && wish.isDomain() && !n.admitByMoving(s) && slot.Policy == Strict {
		return ErrNoCapacity
	}
	if n.settle() == impossible {
		return ErrNoCapacity
	}
	return nil
}

// admitByMoving finds a domain of a flexible container's wish from which fractions
// can move away to make room for it. It reports whether there is one.
func (n *Node) admitByMoving(s int32) bool {
	if n.options.RescueMoves < 0 {
		return false
	}
	for d := range n.domains {
		if n.domains[d].kind != n.slots[s].Wish {
			continue
		}
		mark := n.mark()
		if n.clearDomain(s, int32(d)) {
			return true
		}
		n.undo(mark)
		n.setDomain(s, wholeNode)
	}
	return false
}

// clearDomain moves fractions out of a domain, the largest first, until a flexible
// container that comes into it has room. If it fails, the caller undoes.
func (n *Node) clearDomain(s, d int32) bool {
	if n.domains[d].kind == WholeCores {
		cpus := n.slots[s].guaranteed().CPUs()
		if !n.clearCores(s, (cpus+n.threads-1)/n.threads*n.threads) {
			return false
		}
	}
	n.setDomain(s, d)
	n.collect(s)
	for n.settle() == impossible {
		if n.domains[d].kind == WholeCores || !n.moveOut(n.domainCPUs(d)) || n.price(n.scratch.log) > n.options.RescueMoves {
			return false
		}
	}
	return true
}

// moveOut moves the largest fraction that can go out of a domain, and reports
// whether there was one.
func (n *Node) moveOut(domain *cpuset.Set) bool {
	places := n.available().Union(n.fractional.Set()).Minus(*domain)
	best, bestTo := int32(-1), -1
	for i := range n.scratch.items {
		it := &n.scratch.items[i]
		if it.pinned || !domain.Contains(int(it.cpu)) || best >= 0 && it.milli <= n.scratch.items[best].milli {
			continue
		}
		if to := n.bestFit(it, &places); to >= 0 {
			best, bestTo = int32(i), to
		}
	}
	if best < 0 {
		return false
	}
	n.move(best, bestTo)
	return true
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
