package topology

import (
	"fmt"
	"slices"

	"github.com/candor-project/candor/cpuset"
)

// Validate checks the invariants of a Machine:
//
//   - Every online CPU is in exactly one socket, NUMA node, L3 domain and core.
//   - If there are several kinds of cores, every online CPU is of exactly one kind.
//   - No offline CPU is in any of these sets.
//   - The lists are sorted.
//   - The indexes in CPUs agree with the sets of the domains.
//
// Domains need not nest: an L3 can span NUMA nodes, and a node can span sockets. The error names the first violation.
//
// The results of Read, Parse and UnmarshalJSON are valid.
func (m *Machine) Validate() error {
	if m.Online.IsEmpty() {
		return fmt.Errorf("no online CPU")
	}
	if m.Online.Overlaps(&m.Offline) {
		return fmt.Errorf("CPUs %v are both online and offline", m.Online.Intersect(m.Offline))
	}
	all := m.Online.Union(m.Offline)
	if !m.Isolated.SubsetOf(&all) {
		return fmt.Errorf("isolated CPUs %v are not on the machine", m.Isolated.Minus(all))
	}
	if err := m.validateCPUs(all); err != nil {
		return err
	}
	if err := m.validateDomains(); err != nil {
		return err
	}
	if err := m.validateKinds(); err != nil {
		return err
	}
	return m.validateNodes()
}

// validateKinds checks that the kinds of cores partition the online CPUs.
func (m *Machine) validateKinds() error {
	if len(m.Kinds) == 0 {
		return nil
	}
	if len(m.Kinds) == 1 {
		return fmt.Errorf("a single kind of cores: must be none or several kinds")
	}
	var seen cpuset.Set
	for i := range m.Kinds {
		cpus := &m.Kinds[i].CPUs
		switch {
		case cpus.IsEmpty() || !cpus.SubsetOf(&m.Online):
			return fmt.Errorf("kind of cores %d of the list has CPUs %q: must be one or more online CPUs", i, cpus)
		case cpus.Overlaps(&seen):
			return fmt.Errorf("CPUs %v are of two kinds of cores", cpus.Intersect(seen))
		}
		seen.AddAll(cpus)
	}
	if seen != m.Online {
		return fmt.Errorf("CPUs %v are of no kind of cores", m.Online.Minus(seen))
	}
	return nil
}

// validateCPUs checks the list of CPUs, but not their domains.
func (m *Machine) validateCPUs(all cpuset.Set) error {
	next := all.First()
	for i := range m.CPUs {
		c := &m.CPUs[i]
		switch {
		case next < 0:
			return fmt.Errorf("CPU %d is neither online nor offline", c.ID)
		case c.ID != next:
			return fmt.Errorf("CPU %d is in the place of CPU %d", c.ID, next)
		case c.Online != m.Online.Contains(c.ID):
			return fmt.Errorf("CPU %d is online in one place and offline in another", c.ID)
		case c.Capacity < 0 || c.MaxKHz < 0:
			return fmt.Errorf("CPU %d has a negative capacity or frequency", c.ID)
		case !c.Online && (c.Socket != -1 || c.Node != -1 || c.L3 != -1 || c.Core != -1):
			return fmt.Errorf("CPU %d is offline, but on a socket, node, L3 or core", c.ID)
		}
		next = all.Next(c.ID + 1)
	}
	if next >= 0 {
		return fmt.Errorf("CPU %d is not among the CPUs", next)
	}
	return nil
}

// A domainKind gives access to the domains of a kind, such as the sockets.
type domainKind struct {
	name  string
	count int
	cpus  func(index int) *cpuset.Set // CPUs of a domain
	index func(*CPU) int              // index of a CPU's domain
}

// validateDomains checks that each kind of domain partitions the online CPUs.
func (m *Machine) validateDomains() error {
	kinds := []domainKind{
		{"socket", len(m.Sockets), func(i int) *cpuset.Set { return &m.Sockets[i].CPUs }, func(c *CPU) int { return c.Socket }},
		{"NUMA node", len(m.Nodes), func(i int) *cpuset.Set { return &m.Nodes[i].CPUs }, func(c *CPU) int { return c.Node }},
		{"L3 domain", len(m.L3s), func(i int) *cpuset.Set { return &m.L3s[i].CPUs }, func(c *CPU) int { return c.L3 }},
		{"core", len(m.Cores), func(i int) *cpuset.Set { return &m.Cores[i].CPUs }, func(c *CPU) int { return c.Core }},
	}
	for i := range kinds {
		if err := m.validateKind(&kinds[i]); err != nil {
			return err
		}
	}
	return nil
}

// validateKind checks that the domains of a kind partition the online CPUs.
func (m *Machine) validateKind(k *domainKind) error {
	var seen cpuset.Set
	last := -1
	for i := range k.count {
		cpus := k.cpus(i)
		if cpus.IsEmpty() || !cpus.SubsetOf(&m.Online) {
			return fmt.Errorf("%s %d of the list has CPUs %q: must be one or more online CPUs", k.name, i, cpus)
		}
		if cpus.Overlaps(&seen) {
			return fmt.Errorf("CPUs %v are in two %ss", cpus.Intersect(seen), k.name)
		}
		if cpus.First() < last {
			return fmt.Errorf("%ss are not in rising order of their lowest CPU", k.name)
		}
		last = cpus.First()
		seen = seen.Union(*cpus)
		for cpu := range cpus.All() {
			if c := m.CPU(cpu); k.index(c) != i {
				return fmt.Errorf("CPU %d is in %s %d of the list, but its own entry has %d", cpu, k.name, i, k.index(c))
			}
		}
	}
	if seen != m.Online {
		return fmt.Errorf("CPUs %v are in no %s", m.Online.Minus(seen), k.name)
	}
	return nil
}

// validateNodes checks the distances and the memory order of the nodes. On a machine without an L3, it also checks that the
// L3 domains equal the nodes.
func (m *Machine) validateNodes() error {
	for i := range m.Nodes {
		n := &m.Nodes[i]
		if len(n.Distances) != len(m.Nodes) {
			return fmt.Errorf("NUMA node %d has %d distances to %d nodes", n.ID, len(n.Distances), len(m.Nodes))
		}
		for _, d := range n.Distances {
			if d <= 0 {
				return fmt.Errorf("NUMA node %d has a distance of %d: must be 10 (local) or more", n.ID, d)
			}
		}
		if err := n.validateMemory(); err != nil {
			return err
		}
		if !m.HasL3 && (i >= len(m.L3s) || m.L3s[i].CPUs != n.CPUs) {
			return fmt.Errorf("without an L3, the L3 domains must be those of the NUMA nodes")
		}
	}
	return nil
}

// validateMemory checks the memory order of a node.
func (n *NUMANode) validateMemory() error {
	if n.Memory != nil && len(n.Memory) == 0 {
		return fmt.Errorf("NUMA node %d: the list of nodes with memory is empty; omit it", n.ID)
	}
	for i, id := range n.Memory {
		if id < 0 || id >= cpuset.Max || slices.Contains(n.Memory[:i], id) {
			return fmt.Errorf("NUMA node %d: memory of node %d: must be distinct nodes from 0 to %d", n.ID, id, cpuset.Max-1)
		}
	}
	return nil
}
