package hybrid

// An edit gives a CPU, or a fraction of a CPU, to a sensitive container, or takes the CPU or the fraction from
// the container. A plan edits the node, records the edits and undoes them. Commit applies the edits again.
type edit struct {
	slot     int32
	cpu      int16
	milli    int16 // 1000: the whole CPU
	isGive   bool
	isClosed bool // a whole-cores grant gets or loses its fraction on a closed CPU, which no other grant may join
}

// give gives a CPU (1000m) or a fraction of a CPU to a sensitive container.
func (n *Node) give(s int32, cpu int, milli Milli) {
	isClosed := n.slots[s].wholeCores && milli < 1000
	n.edits = append(n.edits, edit{s, int16(cpu), int16(milli), true, isClosed})
	n.applyGive(s, cpu, milli, isClosed)
}

// take takes a CPU, or the container's fraction on the CPU, from a sensitive container.
func (n *Node) take(s int32, cpu int) {
	milli := Milli(1000)
	if !n.slots[s].exclusive.Contains(cpu) {
		milli = n.slots[s].fractionOn(cpu)
	}
	n.edits = append(n.edits, edit{s, int16(cpu), int16(milli), false, n.load[cpu].isClosed})
	n.applyTake(s, cpu, milli)
}

// mark returns the number of edits so far, as the argument for a later undo.
func (n *Node) mark() int { return len(n.edits) }

// undo reverts all edits after the mark.
func (n *Node) undo(mark int) {
	for i := len(n.edits) - 1; i >= mark; i-- {
		e := n.edits[i]
		if e.isGive {
			n.applyTake(e.slot, int(e.cpu), Milli(e.milli))
		} else {
			n.applyGive(e.slot, int(e.cpu), Milli(e.milli), e.isClosed)
		}
	}
	n.edits = n.edits[:mark]
}

// redo applies the edits of a plan.
func (n *Node) redo(edits []edit) {
	for _, e := range edits {
		if e.isGive {
			n.applyGive(e.slot, int(e.cpu), Milli(e.milli), e.isClosed)
		} else {
			n.applyTake(e.slot, int(e.cpu), Milli(e.milli))
		}
	}
}

// applyGive gives a CPU or a fraction without recording an edit. Only applyGive and applyTake change which
// containers a CPU belongs to.
func (n *Node) applyGive(s int32, cpu int, milli Milli, isClosed bool) {
	c, slot := &n.load[cpu], &n.slots[s]
	if c.sharers == 0 {
		n.removeFromShared(cpu)
	} else {
		n.tally.remove(c)
	}
	c.milli += int16(milli)
	c.sharers++
	if milli == 1000 {
		n.exclusive.Add(cpu)
		slot.exclusive.Add(cpu)
		return
	}
	c.isClosed = isClosed
	n.fractional.Add(cpu)
	n.tally.add(c)
	n.tally.addFraction(milli)
	slot.addFraction(compactFraction{int16(cpu), int16(milli)})
}

// applyTake reverts applyGive.
func (n *Node) applyTake(s int32, cpu int, milli Milli) {
	c, slot := &n.load[cpu], &n.slots[s]
	if milli == 1000 {
		n.exclusive.Remove(cpu)
		slot.exclusive.Remove(cpu)
	} else {
		n.tally.remove(c)
		n.tally.removeFraction(milli)
		slot.removeFraction(cpu)
	}
	c.milli -= int16(milli)
	c.sharers--
	if c.sharers == 0 {
		c.isClosed = false
		n.fractional.Remove(cpu)
		n.addToShared(cpu)
	} else {
		n.tally.add(c)
	}
}

// removeFromShared removes a CPU from the shared pool, and updates n.sharedCount, n.inL3, n.inNUMA and n.wholeCores.
func (n *Node) removeFromShared(cpu int) {
	loc := &n.layout.cpus[cpu]
	n.shared.Remove(cpu)
	n.sharedCount--
	n.inL3[loc.l3].free--
	n.inNUMA[loc.numa].free--
	if n.wholeCores.Contains(cpu) {
		for _, sibling := range n.siblings[loc.core] {
			n.wholeCores.Remove(int(sibling))
			loc := &n.layout.cpus[sibling]
			n.inL3[loc.l3].whole--
			n.inNUMA[loc.numa].whole--
		}
	}
}

// addToShared reverts removeFromShared.
func (n *Node) addToShared(cpu int) {
	loc := &n.layout.cpus[cpu]
	n.shared.Add(cpu)
	n.sharedCount++
	n.inL3[loc.l3].free++
	n.inNUMA[loc.numa].free++
	if siblings := n.siblings[loc.core]; n.areShared(siblings) && !n.partial.Contains(cpu) {
		for _, sibling := range siblings {
			n.wholeCores.Add(int(sibling))
			loc := &n.layout.cpus[sibling]
			n.inL3[loc.l3].whole++
			n.inNUMA[loc.numa].whole++
		}
	}
}

// areShared reports whether all CPUs of the list are shared.
func (n *Node) areShared(cpus []int16) bool {
	for _, cpu := range cpus {
		if !n.shared.Contains(int(cpu)) {
			return false
		}
	}
	return true
}
