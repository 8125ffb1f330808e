package hybrid

import "github.com/candor-project/candor/cpuset"

// Moving a fraction is the only thing that candor does to a running container:
// the number of CPUs that it sees stays, and so do its exclusive CPUs. Each operation
// may move a bounded number of fractions, to lower the shared time or, more of them, to
// make room where a request would be refused otherwise.

// Bounds on moves where the options set none.
const (
	DefaultMoves       = 4
	DefaultRescueMoves = 64
)

// An item is a fraction, for the time of one search.
type item struct {
	slot   int32
	cpu    int16
	milli  int16
	pinned bool // must stay
	own    bool // of the container that the plan is for: moving it costs nothing
}

// A step moves an item to a CPU.
type step struct {
	item int32
	cpu  int16
}

// scratch is what is known of the plan that is being made, and memory that searches use again and again.
type scratch struct {
	before cpuset.Set // where flexible containers run before it

	// What flexible containers lack before the plan, on a node that has lost CPUs: a plan
	// which takes nothing from them is none the worse for it.
	owed        Milli
	owedDomains bool

	// Of the container that is being resized: the CPUs that it had, and the one
	// that carried its fraction (-1: none). They are its first choice.
	old         cpuset.Set
	oldFraction int

	plans   uint64 // counts what was planned
	edits   []edit // of the plan that is being made
	others  []Change
	whose   []int32  // slots of the others
	touched []uint64 // by slot: the plan that changed it last

	whole     cpuset.Set // what domainCPUs returned
	items     []item
	log       []step // moves made, with the CPU that each came from
	best      []step
	fractions []Fraction
	targets   []int16
	alike     [2][1000]int16 // by whether several grants are on a CPU, and their time: which of the targets, from 1; 0: none
	pack      packer
}

// collect lists the fractions of the node; own is the slot that the plan is for, or -1.
func (n *Node) collect(own int32) {
	items := n.scratch.items[:0]
	for _, s := range n.order {
		items = n.appendItems(items, s, s == own, n.slots[s].Immovable)
	}
	if own >= 0 && !n.slots[own].linked {
		items = n.appendItems(items, own, true, false) // a new one: nothing runs yet
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

// mayUse reports whether an item could be on a CPU as far as its container's
// wish and view allow; room is not looked at.
func (n *Node) mayUse(it *item, cpu int) bool {
	slot := &n.slots[it.slot]
	if it.pinned || n.load[cpu].closed || slot.fractionOn(cpu) > 0 || slot.exclusive.Contains(cpu) {
		return false
	}
	at := n.layout.cpus[cpu]
	switch slot.Topology {
	case SingleNUMA:
		return n.keepsDomain(it, &n.numas[at.numa])
	case SingleL3:
		return n.keepsDomain(it, &n.l3s[at.l3])
	default:
		return true
	}
}

// keepsDomain reports whether a container that wished for one domain has all its
// CPUs, but for the one that the item leaves, in this one. (A best-effort container
// may have got more than one: then its fraction may go to any domain that it uses.)
func (n *Node) keepsDomain(it *item, domain *cpuset.Set) bool {
	holds := n.otherCPUs(it)
	return holds.IsEmpty() || holds.Overlaps(domain)
}

// otherCPUs returns the CPUs of an item's container but for the item's own.
func (n *Node) otherCPUs(it *item) cpuset.Set {
	holds := n.slots[it.slot].cpus()
	holds.Remove(int(it.cpu))
	return holds
}

// move moves an item and notes where it came from.
func (n *Node) move(i int32, cpu int) {
	it := &n.scratch.items[i]
	n.scratch.log = append(n.scratch.log, step{i, it.cpu})
	n.take(it.slot, int(it.cpu))
	n.give(it.slot, cpu, Milli(it.milli))
	it.cpu = int16(cpu)
}

// unmove undoes the moves after the first logged ones.
func (n *Node) unmove(logged, mark int) {
	log := n.scratch.log
	for i := len(log) - 1; i >= logged; i-- {
		n.scratch.items[log[i].item].cpu = log[i].cpu
	}
	n.scratch.log = log[:logged]
	n.undo(mark)
}

// price returns how many moves of other containers a list of steps is.
func (n *Node) price(steps []step) int {
	moves := 0
	for _, s := range steps {
		if !n.scratch.items[s.item].own {
			moves++
		}
	}
	return moves
}

// improve lowers the shared time with up to budget moves, and returns how many it made.
func (n *Node) improve(own int32, budget int) int {
	shared := n.settle()
	if budget <= 0 || shared == 0 || shared == impossible {
		return 0
	}
	least := n.leastShared()
	if shared == least {
		return 0
	}
	n.collect(own)
	moves := 0
	for shared > least {
		s := search{Node: n, start: shared, best: shared, least: least, budget: budget - moves}
		s.run()
		if s.best == shared {
			break
		}
		moves += n.price(n.scratch.best)
		for _, step := range n.scratch.best {
			n.move(step.item, int(step.cpu))
		}
		shared = s.best
	}
	if shared > least {
		moves += n.improveByRepacking(own, shared, budget-moves)
	}
	return moves
}

// evacuate moves every fraction away from a CPU, the largest first, to the
// fractional CPUs where they fit best: fullest first, those of several containers before
// those of one, since their time is shared already. Where elsewhere is not nil its CPUs can be
// used too. It reports whether the CPU is empty; if not, the caller undoes.
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
		places := n.fractional.Set()
		if elsewhere != nil {
			places.AddAll(elsewhere)
		}
		to := n.bestFit(&n.scratch.items[largest], &places)
		if to < 0 {
			return false
		}
		n.move(largest, to)
	}
	return true
}

// bestFit returns the CPU of places where an item fits best, but the one where
// it is; -1: none. Of CPUs that are as good it is the nearest to the container's other ones.
func (n *Node) bestFit(it *item, places *cpuset.Set) int {
	best := -1
	var bestKey [3]int
	holds := n.otherCPUs(it)
	for cpu := places.First(); cpu >= 0; cpu = places.Next(cpu + 1) {
		c := &n.load[cpu]
		if cpu == int(it.cpu) || c.room() < Milli(it.milli) || !n.mayUse(it, cpu) {
			continue
		}
		// Sharing costs what the other one has there, if it was alone.
		key := [3]int{0, int(c.room()), n.remoteness(&holds, cpu)}
		if c.sharers == 1 {
			key[0], key[1] = 1, int(c.used())
		}
		if best < 0 || lessKey(&key, &bestKey) {
			best, bestKey = cpu, key
		}
	}
	return best
}
