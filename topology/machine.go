// Package topology describes the CPUs of one machine: sockets, NUMA nodes, L3
// domains, cores and the logical CPUs on them.
//
// A Machine is plain data. It comes from sysfs (Read, through any fs.FS whose
// root is the machine's "/") or from hwloc's synthetic notation (Parse), the way
// the field writes machines down: "pack:2 numa:2 l3:2 core:4 pu:2".
//
// The package reads and describes; it allocates no CPU and writes no file.
package topology

import (
	"cmp"
	"slices"

	"github.com/candor-project/candor/cpuset"
)

// A Machine is the CPU topology of one machine. Every online CPU is in exactly
// one socket, NUMA node, L3 domain and core; an offline one is in none (Linux
// does not tell where it would be). Machines are read-only once made.
type Machine struct {
	Sockets []Socket   // in rising order of their lowest CPU; so are Nodes, L3s and Cores
	Nodes   []NUMANode // nodes that have online CPUs; at least one
	L3s     []Domain   // L3 domains; where the kernel knows no L3, one a NUMA node
	Cores   []Domain
	CPUs    []CPU // by ID, online and offline

	Online   cpuset.Set
	Offline  cpuset.Set // present, but not online
	Isolated cpuset.Set // kept from the scheduler by isolcpus=
	HasL3    bool       // false: the kernel told no L3, and L3s repeats the NUMA nodes
}

// A Domain is a group of online CPUs that share something.
type Domain struct {
	ID   int // the kernel's number (core_id, cache id); unique only within a socket for cores, -1 if unknown
	CPUs cpuset.Set
}

// A Socket is a physical package.
type Socket struct {
	ID   int // physical_package_id
	CPUs cpuset.Set
}

// A NUMANode is a set of CPUs with equal distances to memory. Most nodes have
// memory of their own; some have none (empty DIMM slots, dies without a memory
// controller).
type NUMANode struct {
	ID        int // the kernel's node number; not always dense
	CPUs      cpuset.Set
	Distances []int // to Machine.Nodes[i], in the firmware's unit (10 = local)
	// Memory has the numbers of all nodes with memory, the nearest first, and
	// includes nodes without CPUs. It is nil if exactly the nodes of
	// Machine.Nodes have memory, or if the kernel does not report which do.
	Memory []int
}

// MemoryOrder returns the numbers of the nodes with memory, the nearest to
// Nodes[node] first. Of equally near nodes the lowest number is first.
func (m *Machine) MemoryOrder(node int) []int {
	n := &m.Nodes[node]
	if n.Memory != nil {
		return n.Memory
	}
	near := make([]int, len(m.Nodes)) // indexes
	for i := range near {
		near[i] = i
	}
	slices.SortFunc(near, func(a, b int) int {
		return cmp.Or(cmp.Compare(n.Distances[a], n.Distances[b]), cmp.Compare(m.Nodes[a].ID, m.Nodes[b].ID))
	})
	for i, j := range near {
		near[i] = m.Nodes[j].ID
	}
	return near
}

// HasMemory reports whether the node has memory of its own.
func (n *NUMANode) HasMemory() bool { return n.Memory == nil || slices.Contains(n.Memory, n.ID) }

// A CPU is one logical CPU. Socket, Node, L3 and Core are indexes into the
// slices of Machine, -1 if it is offline.
type CPU struct {
	ID       int
	Online   bool
	Socket   int
	Node     int
	L3       int
	Core     int
	Capacity int // cpu_capacity, 1024 = the machine's fastest CPU; 0 if the kernel does not tell
	MaxKHz   int // cpuinfo_max_freq in kHz; 0 if the kernel does not tell
}

// CPU returns the CPU with the given id, or nil if the machine has none such.
func (m *Machine) CPU(id int) *CPU {
	// CPUs is sorted and usually dense: the id is the index, or near it.
	for i := min(id, len(m.CPUs)-1); i >= 0; i-- {
		if m.CPUs[i].ID == id {
			return &m.CPUs[i]
		}
		if m.CPUs[i].ID < id {
			break
		}
	}
	return nil
}
