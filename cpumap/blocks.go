package cpumap

import (
	"fmt"

	"github.com/candor-project/candor/internal/cputext"
	"github.com/candor-project/candor/topology"
)

// A block is a framed part of the map: the CPUs of a NUMA node within a socket.
type block struct {
	socket, node int    // indexes into Sockets and Nodes of topology.Machine
	title        string // socketTitle and nodeTitle
	socketTitle  string
	nodeTitle    string
	l3s          []l3
}

// An l3 is an L3 domain with its cores. Each core is a list of CPUs in the order of their IDs.
type l3 struct {
	index int // index into L3s of topology.Machine
	cores [][]*cell
}

// blocks groups the online CPUs into blocks, in the order of the machine's cores.
func blocks(m *topology.Machine, cells map[int]*cell) []block {
	var all []block
	at := map[[2]int]int{} // index into all, by socket and NUMA node
	for _, core := range m.Cores {
		column := column(core, cells)
		if len(column) == 0 {
			continue
		}
		cpu := m.CPU(column[0].cpu)
		key := [2]int{cpu.Socket, cpu.Node}
		i, known := at[key]
		if !known {
			i = len(all)
			at[key] = i
			all = append(all, newBlock(m, cpu))
		}
		all[i].add(cpu.L3, column)
	}
	return all
}

// column returns the online CPUs of a core in the order of their IDs.
func column(core topology.Domain, cells map[int]*cell) []*cell {
	var column []*cell
	for cpu := range core.CPUs.All() {
		if c := cells[cpu]; c != nil {
			column = append(column, c)
		}
	}
	return column
}

// add adds a core to its L3 domain in the block.
func (b *block) add(index int, column []*cell) {
	for i := range b.l3s {
		if b.l3s[i].index == index {
			b.l3s[i].cores = append(b.l3s[i].cores, column)
			return
		}
	}
	b.l3s = append(b.l3s, l3{index, [][]*cell{column}})
}

// newBlock returns an empty block for the socket and the NUMA node of a CPU. Its titles contain the kernel's numbers.
func newBlock(m *topology.Machine, cpu *topology.CPU) block {
	socket := fmt.Sprintf("socket %d", m.Sockets[cpu.Socket].ID)
	node := fmt.Sprintf("NUMA %d", m.Nodes[cpu.Node].ID)
	return block{socket: cpu.Socket, node: cpu.Node, title: socket + " · " + node, socketTitle: socket, nodeTitle: node}
}

// summary returns the numbers of a machine's parts: "2 sockets · 4 NUMA nodes · …".
func summary(m *topology.Machine) string {
	l3 := "L3 unknown"
	if m.HasL3 {
		l3 = cputext.Count(len(m.L3s), "L3 domain")
	}
	return cputext.Count(len(m.Sockets), "socket") + " · " + cputext.Count(len(m.Nodes), "NUMA node") + " · " + l3 +
		" · " + m.DescribeCores() + " · " + cputext.Count(m.Online.Count(), "CPU")
}
