package topology

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/candor-project/candor/cpuset"
)

// Distances that the kernel assumes between NUMA nodes if the firmware has no distance table.
const (
	localDistance  = 10
	remoteDistance = 20
)

// buildMachine builds a Machine from the facts.
func (f *facts) buildMachine() (*Machine, error) {
	nodes, err := f.groupNodes()
	if err != nil {
		return nil, err
	}
	sockets, err := f.group("socket", func(c *cpuFacts) *claim { return &c.socket })
	if err != nil {
		return nil, err
	}
	l3s, err := f.group("L3", func(c *cpuFacts) *claim { return &c.l3 })
	if err != nil {
		return nil, err
	}
	cores, err := f.group("core", func(c *cpuFacts) *claim { return &c.core })
	if err != nil {
		return nil, err
	}
	hasL3 := len(l3s.domains) > 0
	// Group the CPUs without a reported group: an L3 domain per NUMA node, a socket per package number, a core per CPU.
	l3s.groupRest(f, func(c *cpuFacts) (key, id int) { return nodes.domainOf[c.id], -1 })
	sockets.groupRest(f, func(c *cpuFacts) (key, id int) { return c.socket.id, c.socket.id })
	cores.groupRest(f, func(c *cpuFacts) (key, id int) { return c.id, c.core.id })

	m := &Machine{
		Online: f.online, Offline: f.offline, Isolated: f.isolated, HasL3: hasL3,
		L3s: l3s.sorted(), Cores: cores.sorted(),
	}
	for _, d := range sockets.sorted() {
		m.Sockets = append(m.Sockets, Socket(d))
	}
	f.addNodes(m, nodes.sorted())
	f.addCPUs(m)
	if m.Kinds = f.kinds; !f.kindsKnown {
		m.Kinds = m.KindsBySpeed()
	}
	return m, nil
}

// A groups is a partition of the CPUs into domains, under construction.
type groups struct {
	domains  []Domain
	domainOf [cpuset.Max]int // index into domains by CPU id; -1: no domain yet
}

func newGroups() *groups {
	g := &groups{}
	for i := range g.domainOf {
		g.domainOf[i] = -1
	}
	return g
}

// group partitions the online CPUs by the group that each CPU reports. A CPU remains without a domain if it
// reports no group and is in no group that another CPU reports.
func (f *facts) group(kind string, claimOf func(*cpuFacts) *claim) (*groups, error) {
	g := newGroups()
	var reporter [cpuset.Max]int // the CPU that reported each domain
	for i := range f.cpus {
		c := &f.cpus[i]
		reported := claimOf(c)
		cpus := reported.cpus.Intersect(f.online)
		if cpus.IsEmpty() {
			continue
		}
		if !cpus.Contains(c.id) {
			return nil, fmt.Errorf("%s/cpu%d: the CPU is not in its own %s, which has CPUs %v", cpuDir, c.id, kind, cpus)
		}
		if at := g.domainOf[c.id]; at >= 0 && g.domains[at].CPUs == cpus {
			continue
		}
		for cpu := range cpus.All() {
			if at := g.domainOf[cpu]; at >= 0 {
				return nil, fmt.Errorf("%s/cpu%d: its %s has CPUs %v, but cpu%d reports %v",
					cpuDir, c.id, kind, cpus, reporter[at], g.domains[at].CPUs)
			}
			g.domainOf[cpu] = len(g.domains)
		}
		reporter[len(g.domains)] = c.id
		g.domains = append(g.domains, Domain{ID: reported.id, CPUs: cpus})
	}
	return g, nil
}

// groupNodes partitions the online CPUs into NUMA nodes. A CPU that is in no node's set of CPUs belongs to the
// node that is named in the CPU's directory, even if that node has no directory. If the kernel reports no nodes,
// all CPUs belong to node 0.
func (f *facts) groupNodes() (*groups, error) {
	g := newGroups()
	at := map[int]int{} // index into domains by node number
	for i := range f.nodes {
		n := &f.nodes[i]
		cpus := n.cpus.Intersect(f.online)
		for cpu := range cpus.All() {
			if other := g.domainOf[cpu]; other >= 0 {
				return nil, fmt.Errorf("%s/node%d: CPU %d is also in node%d", nodeDir, n.id, cpu, g.domains[other].ID)
			}
			g.domainOf[cpu] = len(g.domains)
		}
		if !cpus.IsEmpty() {
			at[n.id] = len(g.domains)
			g.domains = append(g.domains, Domain{ID: n.id, CPUs: cpus})
		}
	}
	for i := range f.cpus {
		c := &f.cpus[i]
		if g.domainOf[c.id] >= 0 {
			continue
		}
		id := c.node
		if len(f.nodes) == 0 {
			id = 0
		}
		index, ok := at[id]
		if !ok {
			index = len(g.domains)
			at[id] = index
			g.domains = append(g.domains, Domain{ID: id})
		}
		g.domainOf[c.id] = index
		g.domains[index].CPUs.Add(c.id)
	}
	return g, nil
}

// groupRest forms a domain of all CPUs that have the same key and no domain yet. The function key returns the key of a CPU
// and the ID of its new domain.
func (g *groups) groupRest(f *facts, key func(*cpuFacts) (key, id int)) {
	at := map[int]int{}
	for i := range f.cpus {
		c := &f.cpus[i]
		if g.domainOf[c.id] >= 0 {
			continue
		}
		k, id := key(c)
		index, ok := at[k]
		if !ok {
			index = len(g.domains)
			at[k] = index
			g.domains = append(g.domains, Domain{ID: id})
		}
		g.domainOf[c.id] = index
		g.domains[index].CPUs.Add(c.id)
	}
}

// sorted returns the domains in ascending order of their lowest CPU.
func (g *groups) sorted() []Domain {
	slices.SortFunc(g.domains, func(a, b Domain) int { return cmp.Compare(a.CPUs.First(), b.CPUs.First()) })
	return g.domains
}

// addNodes adds the NUMA nodes with their distances and their memory order to the machine.
func (f *facts) addNodes(m *Machine, nodes []Domain) {
	table := f.distanceTable()
	for _, from := range nodes {
		n := NUMANode{ID: from.ID, CPUs: from.CPUs, Distances: make([]int, len(nodes))}
		for j, to := range nodes {
			n.Distances[j] = table.between(from.ID, to.ID)
		}
		if !f.eachHasMemory(nodes) {
			n.Memory = f.memory.Slice()
			slices.SortStableFunc(n.Memory, func(a, b int) int {
				return cmp.Compare(table.between(from.ID, a), table.between(from.ID, b))
			})
		}
		m.Nodes = append(m.Nodes, n)
	}
}

// eachHasMemory reports whether exactly these nodes have memory. If the kernel does not report memory, it returns
// true.
func (f *facts) eachHasMemory(nodes []Domain) bool {
	lacks := func(n Domain) bool { return !f.memory.Contains(n.ID) }
	return f.memory.IsEmpty() || f.memory.Count() == len(nodes) && !slices.ContainsFunc(nodes, lacks)
}

// A distanceTable holds the firmware's distances by pair of node numbers.
type distanceTable map[[2]int]int

func (f *facts) distanceTable() distanceTable {
	table := distanceTable{}
	for i := range f.nodes {
		n := &f.nodes[i]
		if len(n.distances) == len(f.distanceTo) {
			for j, to := range f.distanceTo {
				table[[2]int{n.id, to}] = n.distances[j]
			}
		}
	}
	return table
}

// between returns the distance from one node to another. If the table has no such distance, between returns the
// distance in the other direction or, if that is missing too, the distance that the kernel assumes.
func (t distanceTable) between(from, to int) int {
	assumed := remoteDistance
	if from == to {
		assumed = localDistance
	}
	return cmp.Or(t[[2]int{from, to}], t[[2]int{to, from}], assumed)
}

// addCPUs adds the CPUs, with the indexes of their domains, to the machine.
func (f *facts) addCPUs(m *Machine) {
	all := f.online.Union(f.offline)
	m.CPUs = make([]CPU, 0, all.Count())
	var at [cpuset.Max]int
	for id := range all.All() {
		at[id] = len(m.CPUs)
		m.CPUs = append(m.CPUs, CPU{ID: id, Online: f.online.Contains(id), Socket: -1, Node: -1, L3: -1, Core: -1})
	}
	mark := func(cpus cpuset.Set, set func(*CPU)) {
		for id := range cpus.All() {
			set(&m.CPUs[at[id]])
		}
	}
	for i := range m.Sockets {
		mark(m.Sockets[i].CPUs, func(c *CPU) { c.Socket = i })
	}
	for i := range m.Nodes {
		mark(m.Nodes[i].CPUs, func(c *CPU) { c.Node = i })
	}
	for i := range m.L3s {
		mark(m.L3s[i].CPUs, func(c *CPU) { c.L3 = i })
	}
	for i := range m.Cores {
		mark(m.Cores[i].CPUs, func(c *CPU) { c.Core = i })
	}
	for i := range f.cpus {
		c := &m.CPUs[at[f.cpus[i].id]]
		c.Capacity, c.MaxKHz = f.cpus[i].capacity, f.cpus[i].maxKHz
	}
}
