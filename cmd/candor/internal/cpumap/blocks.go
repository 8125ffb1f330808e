package cpumap

import (
	"fmt"

	"github.com/candor-project/candor/topology"
)

// A block is a part of a machine with a frame of its own: the CPUs of a NUMA node in a socket.
type block struct {
	socket, node int    // indexes of topology.Machine
	title        string // both
	socketTitle  string
	nodeTitle    string
	l3s          []l3
}

// An l3 is an L3 domain: its cores, each with its CPUs by rising id.
type l3 struct {
	index int // of topology.Machine.L3s
	cores [][]*cell
}

// blocks sorts the online CPUs into blocks, in the machine's order.
func blocks(m *topology.Machine, cells map[int]*cell) []block {
	var all []block
	at := map[[2]int]int{} // socket and node -> index of all
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

// column returns a core's CPUs by rising id.
func column(core topology.Domain, cells map[int]*cell) []*cell {
	var column []*cell
	for cpu := range core.CPUs.All() {
		if c := cells[cpu]; c != nil {
			column = append(column, c)
		}
	}
	return column
}

// add puts a core into its L3 domain.
func (b *block) add(index int, column []*cell) {
	for i := range b.l3s {
		if b.l3s[i].index == index {
			b.l3s[i].cores = append(b.l3s[i].cores, column)
			return
		}
	}
	b.l3s = append(b.l3s, l3{index, [][]*cell{column}})
}

// newBlock returns the empty block of a CPU, named by the kernel's numbers.
func newBlock(m *topology.Machine, cpu *topology.CPU) block {
	socket := fmt.Sprintf("socket %d", m.Sockets[cpu.Socket].ID)
	node := fmt.Sprintf("NUMA %d", m.Nodes[cpu.Node].ID)
	return block{socket: cpu.Socket, node: cpu.Node, title: socket + " · " + node, socketTitle: socket, nodeTitle: node}
}

// summary counts a machine's parts: "2 sockets · 4 NUMA nodes · …".
func summary(m *topology.Machine) string {
	l3 := "L3 unknown"
	if m.HasL3 {
		l3 = count(len(m.L3s), "L3 domain")
	}
	return count(len(m.Sockets), "socket") + " · " + count(len(m.Nodes), "NUMA node") + " · " + l3 +
		" · " + count(len(m.Cores), "core") + " · " + count(m.Online.Count(), "CPU")
}

// count writes a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
