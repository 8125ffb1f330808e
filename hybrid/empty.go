package hybrid

// A smallNode is a node on a small machine, of one domain, and the memory that it needs at first: in one piece,
// since thousands of nodes are more memory than caches hold and a page table knows at once.
type smallNode struct {
	Node
	load   [smallCPUs]cpuLoad
	counts [2]poolCount
	rungs  [3 * smallCPUs]int16
	order  [30]int32
	_      [56]byte // with the word that Go's allocator puts before such an object, each slot is a cache line
	slots  [smallSlots]slot
}

const (
	smallCPUs  = 16
	smallSlots = 16
)

// newEmpty returns a node without containers.
func newEmpty(l *layout, s *scratch) (n *Node) {
	if cpus := len(l.cpus); cpus <= smallCPUs && len(l.l3s)+len(l.numas) <= 2 {
		small := new(smallNode)
		n = &small.Node
		n.load, n.tally, n.order = small.load[:cpus], newTally(small.rungs[:3*cpus]), small.order[:0]
		n.slots = small.slots[:0]
		n.inL3, n.inNUMA = small.counts[:len(l.l3s)], small.counts[len(l.l3s):][:len(l.numas)]
	} else {
		n = &Node{load: make([]cpuLoad, cpus), tally: newTally(make([]int16, 3*cpus))}
		n.inL3, n.inNUMA = make([]poolCount, len(l.l3s)), make([]poolCount, len(l.numas))
	}
	n.layout, n.scratch, n.firstEmpty = l, s, -1
	n.shared.Assign(&l.usable)
	n.wholeCores.Assign(&l.usable)
	n.sharedCount = int32(n.shared.Count())
	n.countFree()
	return n
}

// countFree counts the shared CPUs of each domain while all are shared.
func (n *Node) countFree() {
	for i := range n.l3s {
		count := int16(n.l3s[i].Count())
		n.inL3[i] = poolCount{count, count}
	}
	for i := range n.numas {
		count := int16(n.numas[i].Count())
		n.inNUMA[i] = poolCount{count, count}
	}
}
