package hybrid

import "github.com/candor-project/candor/cpuset"

// A move is the only change that the Candor algorithm makes to a running sensitive container when another
// container arrives or leaves: it moves a fraction to another CPU. The number of CPUs that the container sees
// and its exclusive CPUs stay the same. Each operation may move a limited number of fractions to lower the
// shared time, and a larger number to make room for a request that would otherwise be refused.

// Defaults of Options.Moves and Options.RescueMoves.
const (
	DefaultMoves       = 4
	DefaultRescueMoves = 64
)

// An item is a fraction of a container, as the searches for moves use it.
type item struct {
	slot     int32
	cpu      int16
	milli    int16
	isPinned bool // the item must stay on its CPU
	isOwn    bool // the item belongs to the container of the plan, so its moves do not count as moves of the plan
}

// A step is a move of an item. cpu is the new CPU in scratch.best, but the old CPU in scratch.log.
type step struct {
	item int32
	cpu  int16
}

// A scratch holds the data of the plan in progress, and memory that searches reuse.
type scratch struct {
	flexibleBefore cpuset.Set // CPUs of flexible containers before the plan

	// Room that flexible containers lack before the plan because the node has lost CPUs. A plan is valid if it
	// does not increase the shortage.
	shortage      Milli // on the node as a whole
	isDomainShort bool  // a domain lacks room

	// CPUs of the plan's container before a resize, and the CPU of its fraction (-1: none). The plan prefers these CPUs.
	oldCPUs     cpuset.Set
	oldFraction int

	plans      uint64   // number of plans started
	edits      []edit   // edits of the plan in progress
	others     []Change // memory for Plan.Others
	otherSlots []int32  // slots of the containers in others
	touched    []uint64 // by slot: number of the last plan that edited the slot

	wholeCoreSet cpuset.Set     // result of domainCPUs for whole cores
	items        []item         // fractions of the node (collectItems)
	log          []step         // moves made, each with the CPU that the item left
	best         []step         // best moves found
	fractions    []Fraction     // memory for Grant.Fractions
	targets      []int16        // result of search.distinctTargets
	targetByLoad [2][1000]int16 // index into targets plus 1, by number of grants (1, several) and load of a CPU; 0: none
	pack         packer
}

// collectItems lists the fractions of the node as items. ownSlot is the slot of the plan's container, or -1.
func (n *Node) collectItems(ownSlot int32) {
	items := n.scratch.items[:0]
	for _, s := range n.order {
		items = n.appendItems(items, s, s == ownSlot, n.slots[s].Immovable)
	}
	if ownSlot >= 0 && !n.slots[ownSlot].isLinked {
		// A new container does not run yet, so even an immovable fraction may move.
		items = n.appendItems(items, ownSlot, true, false)
	}
	n.scratch.items = items
	n.scratch.log = n.scratch.log[:0]
}

func (n *Node) appendItems(items []item, s int32, own, immovable bool) []item {
	slot := &n.slots[s]
	pinned := slot.wholeCores || immovable
	for i := range slot.fractions() {
		f := slot.fraction(i)
		items = append(items, item{s, f.cpu, f.milli, pinned, own})
	}
	return items
}

// canUse reports whether the topology policy and the view of an item's container permit a move of the item to a
// CPU. It does not check the CPU's room.
func (n *Node) canUse(it *item, cpu int) bool {
	slot := &n.slots[it.slot]
	if it.isPinned || n.load[cpu].isClosed || slot.fractionOn(cpu) > 0 || slot.exclusive.Contains(cpu) {
		return false
	}
	loc := n.layout.cpus[cpu]
	switch slot.Topology {
	case SingleNUMA:
		return n.staysInDomain(it, &n.numas[loc.numa]) && n.staysOnKind(it, cpu)
	case SingleL3:
		return n.staysInDomain(it, &n.l3s[loc.l3])
	case NoTopology:
		return true
	default:
		return n.staysOnKind(it, cpu)
	}
}

// staysInDomain reports whether the container of an item has other CPUs in the domain, or has no other CPUs. The CPUs
// of a best-effort container can span several domains: then the item may move to each of these domains.
func (n *Node) staysInDomain(it *item, domain *cpuset.Set) bool {
	heldCPUs := n.otherCPUs(it)
	return heldCPUs.IsEmpty() || heldCPUs.Overlaps(domain)
}

// otherCPUs returns the CPUs of an item's container except the item's CPU.
func (n *Node) otherCPUs(it *item) cpuset.Set {
	heldCPUs := n.slots[it.slot].cpus()
	heldCPUs.Remove(int(it.cpu))
	return heldCPUs
}

// move moves an item and logs the CPU that the item left.
func (n *Node) move(i int32, cpu int) {
	it := &n.scratch.items[i]
	n.scratch.log = append(n.scratch.log, step{i, it.cpu})
	n.take(it.slot, int(it.cpu))
	n.give(it.slot, cpu, Milli(it.milli))
	it.cpu = int16(cpu)
}

// undoMoves reverts all moves after the given number of logged moves, and all edits after the mark.
func (n *Node) undoMoves(logged, mark int) {
	log := n.scratch.log
	for i := len(log) - 1; i >= logged; i-- {
		n.scratch.items[log[i].item].cpu = log[i].cpu
	}
	n.scratch.log = log[:logged]
	n.undo(mark)
}

// countMoves counts the steps that move fractions of containers other than the plan's container.
func (n *Node) countMoves(steps []step) int {
	moves := 0
	for _, s := range steps {
		if !n.scratch.items[s.item].isOwn {
			moves++
		}
	}
	return moves
}

// improve lowers the shared time with at most budget moves, and returns the number of moves. own is the slot of the
// plan's container, or -1.
func (n *Node) improve(own int32, budget int) int {
	shared := n.sharedIfValid()
	if budget <= 0 || shared == 0 || shared == impossible {
		return 0
	}
	bound := n.leastShared()
	if shared == bound {
		return 0
	}
	n.collectItems(own)
	moves := 0
	for shared > bound {
		s := search{Node: n, start: shared, best: shared, bound: bound, budget: budget - moves}
		s.run()
		if s.best == shared {
			break
		}
		moves += n.countMoves(n.scratch.best)
		for _, step := range n.scratch.best {
			n.move(step.item, int(step.cpu))
		}
		shared = s.best
	}
	if shared > bound {
		moves += n.improveByRepacking(own, shared, budget-moves)
	}
	return moves
}

// evacuate moves every fraction off a CPU, the largest first, to the fractional CPU with the best fit (bestFit). If
// the set elsewhere is not nil, its CPUs are candidates too. evacuate reports whether the CPU is empty; if
// not, the caller undoes the moves.
func (n *Node) evacuate(cpu int, elsewhere *cpuset.Set) bool {
	for n.load[cpu].sharers > 0 {
		largest := int32(-1)
		for i := range n.scratch.items {
			it := &n.scratch.items[i]
			if int(it.cpu) == cpu && (largest < 0 || it.milli > n.scratch.items[largest].milli) {
				largest = int32(i)
			}
		}
		if largest < 0 {
			return false
		}
		candidates := n.fractional.Set()
		if elsewhere != nil {
			candidates.AddAll(elsewhere)
		}
		to := n.bestFit(&n.scratch.items[largest], &candidates)
		if to < 0 {
			return false
		}
		n.move(largest, to)
	}
	return true
}

// bestFit returns the candidate with the best fit for an item, except the item's present CPU; -1 if the item fits on no
// candidate. The best candidates are CPUs of several grants, the fullest first, because their time is shared already;
// then shared CPUs; then CPUs of a single grant, the least loaded first. Of equal CPUs, bestFit returns the CPU nearest
// to the container's other CPUs.
func (n *Node) bestFit(it *item, candidates *cpuset.Set) int {
	best := -1
	var bestKey [3]int
	heldCPUs := n.otherCPUs(it)
	for cpu := candidates.First(); cpu >= 0; cpu = candidates.Next(cpu + 1) {
		c := &n.load[cpu]
		if cpu == int(it.cpu) || c.room() < Milli(it.milli) || !n.canUse(it, cpu) {
			continue
		}
		// On a CPU of a single grant, the grant's time would become shared.
		key := [3]int{0, int(c.room()), n.remoteness(&heldCPUs, cpu)}
		if c.sharers == 1 {
			key[0], key[1] = 1, int(c.used())
		}
		if best < 0 || isLessKey(&key, &bestKey) {
			best, bestKey = cpu, key
		}
	}
	return best
}
