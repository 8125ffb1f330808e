package hybrid

// An edit gives a CPU, or a part of a CPU, to a sensitive container or takes it away. Planning edits
// the node, records the edits and undoes them; Commit repeats them.
type edit struct {
	slot   int32
	cpu    int16
	milli  int16 // 1000: the whole CPU
	give   bool
	closed bool // no other container may use this CPU
}

// give gives a part of a CPU, or the whole CPU (1000), to a sensitive container.
func (n *Node) give(s int32, cpu int, milli Milli) {
	closed := n.slots[s].wholeCores && milli < 1000
	n.edits = append(n.edits, edit{s, int16(cpu), int16(milli), true, closed})
	n.put(s, cpu, milli, closed)
}

// take takes a CPU, or the container's part of it, from a sensitive container.
func (n *Node) take(s int32, cpu int) {
	milli := Milli(1000)
	if !n.slots[s].exclusive.Contains(cpu) {
		milli = n.slots[s].fractionOn(cpu)
	}
	n.edits = append(n.edits, edit{s, int16(cpu), int16(milli), false, n.load[cpu].closed})
	n.pull(s, cpu, milli)
}

// mark returns the current position in the list of edits. undo reverts all edits after it.
func (n *Node) mark() int { return len(n.edits) }

func (n *Node) undo(mark int) {
	for i := len(n.edits) - 1; i >= mark; i-- {
		e := n.edits[i]
		if e.give {
			n.pull(e.slot, int(e.cpu), Milli(e.milli))
		} else {
			n.put(e.slot, int(e.cpu), Milli(e.milli), e.closed)
		}
	}
	n.edits = n.edits[:mark]
}

// redo repeats the edits of a plan.
func (n *Node) redo(edits []edit) {
	for _, e := range edits {
		if e.give {
			n.put(e.slot, int(e.cpu), Milli(e.milli), e.closed)
		} else {
			n.pull(e.slot, int(e.cpu), Milli(e.milli))
		}
	}
}

// put applies an edit that gives. Only put and pull change the owners of a CPU.
func (n *Node) put(s int32, cpu int, milli Milli, closed bool) {
	c, g := &n.load[cpu], &n.slots[s]
	if c.sharers == 0 {
		n.leaveShared(cpu)
	} else {
		n.tally.remove(c)
	}
	c.milli += int16(milli)
	c.sharers++
	if milli == 1000 {
		n.exclusive.Add(cpu)
		g.exclusive.Add(cpu)
		return
	}
	c.closed = closed
	n.fractional.Add(cpu)
	n.tally.add(c)
	n.tally.addPart(milli)
	g.addFraction(part{int16(cpu), int16(milli)})
}

// pull reverts put.
func (n *Node) pull(s int32, cpu int, milli Milli) {
	c, g := &n.load[cpu], &n.slots[s]
	if milli == 1000 {
		n.exclusive.Remove(cpu)
		g.exclusive.Remove(cpu)
	} else {
		n.tally.remove(c)
		n.tally.removePart(milli)
		g.removeFraction(cpu)
	}
	c.milli -= int16(milli)
	c.sharers--
	if c.sharers == 0 {
		c.closed = false
		n.fractional.Remove(cpu)
		n.joinShared(cpu)
	} else {
		n.tally.add(c)
	}
}

// leaveShared removes a CPU from the shared pool and from the counts of its domains.
func (n *Node) leaveShared(cpu int) {
	at := &n.layout.cpus[cpu]
	n.shared.Remove(cpu)
	n.sharedCount--
	n.inL3[at.l3].free--
	n.inNUMA[at.numa].free--
	if n.wholeCores.Contains(cpu) {
		for _, sibling := range n.siblings[at.core] {
			n.wholeCores.Remove(int(sibling))
			place := &n.layout.cpus[sibling]
			n.inL3[place.l3].whole--
			n.inNUMA[place.numa].whole--
		}
	}
}

// joinShared reverts leaveShared.
func (n *Node) joinShared(cpu int) {
	at := &n.layout.cpus[cpu]
	n.shared.Add(cpu)
	n.sharedCount++
	n.inL3[at.l3].free++
	n.inNUMA[at.numa].free++
	if siblings := n.siblings[at.core]; n.areShared(siblings) {
		for _, sibling := range siblings {
			n.wholeCores.Add(int(sibling))
			place := &n.layout.cpus[sibling]
			n.inL3[place.l3].whole++
			n.inNUMA[place.numa].whole++
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
