// Package topology describes the CPUs of a machine: sockets, NUMA nodes, L3 domains, cores and logical
// CPUs.
//
// A Machine is plain data. Read builds it from sysfs, through any fs.FS whose root is the machine's
// "/". Parse builds it from hwloc's synthetic notation, such as "pack:2 numa:2 l3:2 core:4 pu:2". A
// Machine can be encoded as JSON, and WriteTree prints it for people.
//
// The package only describes machines. It allocates no CPUs and writes no files.
package topology

import (
	"cmp"
	"slices"

	"github.com/candor-project/candor/cpuset"
)

// A Machine is the CPU topology of a machine. Every online CPU is in exactly one socket, NUMA node, L3
// domain and core. Offline CPUs are in none, because Linux does not report their location. A Machine
// is read-only after its construction.
type Machine struct {
	Sockets []Socket   // in ascending order of their lowest CPU; Nodes, L3s and Cores are sorted in the same way
	Nodes   []NUMANode // nodes that have online CPUs; at least one
	L3s     []Domain   // L3 domains; equal to the NUMA nodes if the kernel reports no L3
	Cores   []Domain
	Kinds   []Kind // kinds of cores, the fastest first; nil if all cores are of one kind
	CPUs    []CPU  // by ID, online and offline

	Online   cpuset.Set
	Offline  cpuset.Set // present, but not online
	Isolated cpuset.Set // isolated from the scheduler by isolcpus=
	HasL3    bool       // false if the kernel reports no L3
}

// A Domain is a group of online CPUs that share a hardware resource.
type Domain struct {
	ID   int // number in the kernel (core_id, cache id), -1 if unknown; a core's number is unique only within its socket
	CPUs cpuset.Set
}

// A Socket is a physical package.
type Socket struct {
	ID   int // physical_package_id
	CPUs cpuset.Set
}

// A NUMANode is a set of CPUs with equal distances to memory. Most nodes have local memory. A node has no memory if
// its DIMM slots are empty, or if the node is a die without a memory controller.
type NUMANode struct {
	ID        int // the kernel's node number; not always dense
	CPUs      cpuset.Set
	Distances []int // distance to each node, in the order of Machine.Nodes and in the firmware's unit (10 = local)
	// Memory lists the IDs of all nodes with memory, the nearest first, including nodes without CPUs. It is nil
	// if exactly the nodes of Machine.Nodes have memory, or if the kernel does not report memory.
	Memory []int
}

// MemoryOrder returns the IDs of the nodes with memory, the nearest to Nodes[node] first. Of equally near nodes, the
// node with the lowest ID comes first.
func (m *Machine) MemoryOrder(node int) []int {
	n := &m.Nodes[node]
	if n.Memory != nil {
		return n.Memory
	}
	nodes := make([]int, len(m.Nodes)) // indexes into m.Nodes
	for i := range nodes {
		nodes[i] = i
	}
	slices.SortFunc(nodes, func(a, b int) int {
		return cmp.Or(cmp.Compare(n.Distances[a], n.Distances[b]), cmp.Compare(m.Nodes[a].ID, m.Nodes[b].ID))
	})
	for i, j := range nodes {
		nodes[i] = m.Nodes[j].ID
	}
	return nodes
}

// HasMemory reports whether the node has local memory.
func (n *NUMANode) HasMemory() bool { return n.Memory == nil || slices.Contains(n.Memory, n.ID) }

// A CPU is a logical CPU. Socket, Node, L3 and Core are indexes into the slices of Machine; they are
// -1 if the CPU is offline.
type CPU struct {
	ID       int
	Online   bool
	Socket   int
	Node     int
	L3       int
	Core     int
	Capacity int // cpu_capacity, where 1024 is the capacity of the machine's fastest CPU; 0 if unknown
	MaxKHz   int // cpuinfo_max_freq in kHz; 0 if unknown
}

// CPU returns the CPU with the given id, or nil if the machine has no such CPU.
func (m *Machine) CPU(id int) *CPU {
	// CPUs is sorted by ID and usually dense, so the index is the ID or slightly less.
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
