package topology

import (
	"strconv"
	"strings"

	"github.com/candor-project/candor/cpuset"
)

// A layer holds all domains of a kind, in ascending order.
type layer struct {
	name     string // "socket", "NUMA node", "L3" or "core"
	notation string // name of the level in hwloc's synthetic notation, such as "pack"
	domains  []Domain
}

// layers returns the layers of sockets, NUMA nodes and, if the machine has an L3, L3 domains, from the fewest to the
// most domains. nested reports whether each domain of a layer lies within a domain of the previous layer, and each
// core within a domain of the last layer. On real machines, an L3 can span NUMA nodes, and a NUMA node can span
// sockets.
func (m *Machine) layers() (layers []layer, nested bool) {
	sockets := layer{"socket", "pack", make([]Domain, len(m.Sockets))}
	for i, s := range m.Sockets {
		sockets.domains[i] = Domain(s)
	}
	nodes := layer{"NUMA node", "numa", make([]Domain, len(m.Nodes))}
	for i := range m.Nodes {
		nodes.domains[i] = Domain{m.Nodes[i].ID, m.Nodes[i].CPUs}
	}
	layers = []layer{sockets, nodes}
	if m.HasL3 {
		layers = append(layers, layer{"L3", "l3", m.L3s})
	}
	for i := 1; i < len(layers); i++ { // stable insertion sort of at most three layers
		for j := i; j > 0 && len(layers[j].domains) < len(layers[j-1].domains); j-- {
			layers[j], layers[j-1] = layers[j-1], layers[j]
		}
	}
	for i := range layers {
		smaller := m.Cores
		if i+1 < len(layers) {
			smaller = layers[i+1].domains
		}
		if !areNested(layers[i].domains, smaller) {
			return layers, false
		}
	}
	return layers, true
}

// areNested reports whether each domain of the list small lies within a single domain of the list large. Both lists
// partition the same CPUs.
func areNested(large, small []Domain) bool {
	for i := range small {
		n := 0
		for j := range large {
			if small[i].CPUs.Overlaps(&large[j].CPUs) {
				n++
			}
		}
		if n != 1 {
			return false
		}
	}
	return true
}

// Description returns the machine in the notation of Parse. It returns "" if the domains do not nest or differ in size,
// because the notation cannot express such a machine. The description contains only the counts of domains and CPUs. It
// omits IDs, distances, offline and isolated CPUs, capacities and frequencies.
func (m *Machine) Description() string {
	layers, nested := m.layers()
	if !nested {
		return ""
	}
	layers = append(layers, layer{"core", "core", m.Cores})
	before := 1
	var b strings.Builder
	for _, l := range layers {
		if !areEqualSize(l.domains, m.Online.Count()) || len(l.domains)%before != 0 {
			return ""
		}
		b.WriteString(l.notation + ":" + strconv.Itoa(len(l.domains)/before) + " ")
		before = len(l.domains)
	}
	return b.String() + "pu:" + strconv.Itoa(m.Online.Count()/before)
}

// areEqualSize reports whether all domains have the same number of CPUs.
func areEqualSize(domains []Domain, cpus int) bool {
	for i := range domains {
		if domains[i].CPUs.Count()*len(domains) != cpus {
			return false
		}
	}
	return true
}

// domainsIn returns the domains that are subsets of cpus.
func domainsIn(domains []Domain, cpus *cpuset.Set) []Domain {
	var subset []Domain
	for i := range domains {
		if domains[i].CPUs.SubsetOf(cpus) {
			subset = append(subset, domains[i])
		}
	}
	return subset
}
