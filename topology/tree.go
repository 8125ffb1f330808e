package topology

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/candor-project/candor/cpuset"
)

// WriteTree prints the machine as a tree of sockets, NUMA nodes, L3 domains and cores with their CPUs. Domains with
// the same CPUs are on the same line. The distances, the offline CPUs and the isolated CPUs follow. For a large
// machine, WriteTree expands only the first of several equal parts. Later versions can change the format, so programs
// should use the JSON form.
func (m *Machine) WriteTree(w io.Writer) error {
	var b strings.Builder
	layers, nested := m.layers()
	m.writeSummary(&b, layers)
	root := m.branches(layers, nested)
	const page = 40 // maximum number of lines of a tree that is not folded
	if countLines(root) > page {
		root = fold(root)
	}
	writeBranches(&b, root, "")
	m.writeDistances(&b)
	m.writeMemory(&b)
	if !m.Offline.IsEmpty() {
		fmt.Fprintf(&b, "offline: %v\n", m.Offline)
	}
	if !m.Isolated.IsEmpty() {
		fmt.Fprintf(&b, "isolated by isolcpus: %v\n", m.Isolated)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeSummary writes the numbers of domains and CPUs, such as "2 sockets, 4 NUMA nodes, …".
func (m *Machine) writeSummary(b *strings.Builder, layers []layer) {
	for _, l := range layers {
		name := l.name
		if name == "L3" {
			name = "L3 domain"
		}
		b.WriteString(plural(len(l.domains), name) + ", ")
	}
	b.WriteString(plural(len(m.Cores), "core") + ", " + plural(m.Online.Count(), "CPU"))
	if n := m.Offline.Count(); n > 0 {
		fmt.Fprintf(b, " (and %d offline)", n)
	}
	if s := m.speeds(); len(s) == 1 && s[0].maxKHz > 0 { // omit the capacity, because it is relative and equal for all CPUs
		b.WriteString(", " + speed{maxKHz: s[0].maxKHz}.String())
	}
	b.WriteByte('\n')
}

// A branch is a line of the tree with its children.
type branch struct {
	label       string
	shape       string // describes the structure of the branch; equal for parts with the same structure
	cpus        cpuset.Set
	isRedundant bool // a line of cores with a single CPU each, which repeats the CPUs of the parent
	children    []branch
}

// branches returns the branches of the root. If the domains do not nest, it lists the domains of each kind separately.
func (m *Machine) branches(layers []layer, nested bool) []branch {
	mixed := len(m.speeds()) > 1
	if nested {
		return m.branchesIn(layers, &m.Online, mixed)
	}
	var root []branch
	for _, l := range layers {
		for _, d := range l.domains {
			root = append(root, branch{label: domainLabel(l, d) + ": " + d.CPUs.String()})
		}
	}
	return append(root, m.coreLines(&m.Online, mixed)...)
}

// branchesIn returns the branches for a set of CPUs. layers are the layers of domains within this set.
func (m *Machine) branchesIn(layers []layer, cpus *cpuset.Set, mixed bool) []branch {
	if len(layers) == 0 {
		return m.coreLines(cpus, mixed)
	}
	var branches []branch
	for _, d := range domainsIn(layers[0].domains, cpus) {
		label, rest := domainLabel(layers[0], d), layers[1:]
		for len(rest) > 0 { // domains of further layers with the same CPUs are on the same line
			same := domainsIn(rest[0].domains, &d.CPUs)
			if len(same) != 1 {
				break
			}
			label += ", " + domainLabel(rest[0], same[0])
			rest = rest[1:]
		}
		b := branch{label: label + ": " + d.CPUs.String(), cpus: d.CPUs, children: m.branchesIn(rest, &d.CPUs, mixed)}
		b.shape = strconv.Itoa(len(rest))
		for _, c := range b.children {
			b.shape += "(" + c.shape + ")"
		}
		if len(b.children) == 1 && b.children[0].isRedundant {
			b.label += "  (" + b.children[0].shape + ")"
			b.children = nil
		}
		branches = append(branches, b)
	}
	return branches
}

func domainLabel(l layer, d Domain) string {
	if d.ID < 0 {
		return l.name
	}
	return l.name + " " + strconv.Itoa(d.ID)
}

// A speed holds the values by which fast and slow cores differ.
type speed struct{ capacity, maxKHz int }

func (s speed) String() string {
	var parts []string
	if s.capacity > 0 {
		parts = append(parts, "capacity "+strconv.Itoa(s.capacity))
	}
	if s.maxKHz > 0 {
		parts = append(parts, "max "+strconv.FormatFloat(float64(s.maxKHz)/1e6, 'f', -1, 64)+" GHz")
	}
	return strings.Join(parts, ", ")
}

// speeds returns the distinct speeds of the online CPUs.
func (m *Machine) speeds() []speed {
	var all []speed
	for i := range m.CPUs {
		c := &m.CPUs[i]
		if s := (speed{c.Capacity, c.MaxKHz}); c.Online && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// coreLines returns a line for each kind of core in a set of CPUs. Cores of a kind have the same number of CPUs. If mixed
// is true, they also have the same speed.
func (m *Machine) coreLines(cpus *cpuset.Set, mixed bool) []branch {
	type kind struct {
		threads int
		speed   speed
	}
	var kinds []kind
	cores := map[kind][]Domain{}
	for _, core := range domainsIn(m.Cores, cpus) {
		k := kind{threads: core.CPUs.Count()}
		if mixed {
			c := m.CPU(core.CPUs.First())
			k.speed = speed{c.Capacity, c.MaxKHz}
		}
		if cores[k] == nil {
			kinds = append(kinds, k)
		}
		cores[k] = append(cores[k], core)
	}
	var lines []branch
	for _, k := range kinds {
		label := plural(len(cores[k]), "core")
		if k.threads > 1 {
			label += " of " + plural(k.threads, "CPU")
		}
		if s := k.speed.String(); s != "" {
			label += ", " + s
		}
		lines = append(lines, branch{label: label + ": " + coreSets(cores[k]), shape: label, isRedundant: k.threads == 1})
	}
	return lines
}

// coreSets formats the CPUs of several cores of equal size. If the text is short, it lists the CPUs of each core, such as
// "0,8 1,9 2,10". Otherwise it lists the first CPUs of all cores, then the second CPUs, and so on, such as
// "0-31 + 32-63".
func coreSets(cores []Domain) string {
	const short = 48
	single := cores[0].CPUs.Count() == 1
	var lists []string
	var nth []cpuset.Set
	for i := range cores {
		lists = append(lists, cores[i].CPUs.String())
		for t, cpu := range cores[i].CPUs.Slice() {
			if t == len(nth) {
				nth = append(nth, cpuset.Set{})
			}
			nth[t].Add(cpu)
		}
	}
	if list := strings.Join(lists, " "); !single && len(list) <= short {
		return list
	}
	var columns []string
	for _, s := range nth {
		columns = append(columns, s.String())
	}
	return strings.Join(columns, " + ")
}

// countLines returns the number of lines of a tree.
func countLines(branches []branch) int {
	n := len(branches)
	for i := range branches {
		n += countLines(branches[i].children)
	}
	return n
}

// fold removes the children of every branch that has the same structure as the previous branch. It replaces long runs of
// such branches by a single line.
func fold(branches []branch) []branch {
	const limit = 8
	var out []branch
	for i := 0; i < len(branches); {
		b := branches[i]
		b.children = fold(b.children)
		out = append(out, b)
		end := i + 1
		for b.shape != "" && end < len(branches) && branches[end].shape == b.shape {
			end++
		}
		run := branches[i+1 : end]
		if i = end; len(run) <= limit {
			for _, closed := range run {
				out = append(out, branch{label: closed.label + "  (alike)"})
			}
			continue
		}
		var cpus cpuset.Set
		for j := range run {
			cpus = cpus.Union(run[j].cpus)
		}
		out = append(out, branch{label: fmt.Sprintf("%d more alike: %v", len(run), cpus)})
	}
	return out
}

// writeBranches writes the branches and their children as lines of a tree.
func writeBranches(b *strings.Builder, branches []branch, indent string) {
	for i := range branches {
		stem, below := "├─ ", "│  "
		if i == len(branches)-1 {
			stem, below = "└─ ", "   "
		}
		b.WriteString(indent + stem + branches[i].label + "\n")
		writeBranches(b, branches[i].children, indent+below)
	}
}

// writeDistances writes the table of distances between NUMA nodes.
func (m *Machine) writeDistances(b *strings.Builder) {
	const limit = 16 // maximum number of columns that fit on a line
	if len(m.Nodes) < 2 {
		return
	}
	if len(m.Nodes) > limit {
		low, high := m.Nodes[0].Distances[1], 0
		for i := range m.Nodes {
			for j, d := range m.Nodes[i].Distances {
				if i != j {
					low, high = min(low, d), max(high, d)
				}
			}
		}
		fmt.Fprintf(b, "distances between NUMA nodes: %d to %d\n", low, high)
		return
	}
	b.WriteString("distances between NUMA nodes:\n    ")
	for i := range m.Nodes {
		fmt.Fprintf(b, "%5d", m.Nodes[i].ID)
	}
	b.WriteByte('\n')
	for i := range m.Nodes {
		fmt.Fprintf(b, "%4d", m.Nodes[i].ID)
		for _, d := range m.Nodes[i].Distances {
			fmt.Fprintf(b, "%5d", d)
		}
		b.WriteByte('\n')
	}
}

// writeMemory writes a line for each node without local memory.
func (m *Machine) writeMemory(b *strings.Builder) {
	for i := range m.Nodes {
		if n := &m.Nodes[i]; !n.HasMemory() {
			fmt.Fprintf(b, "NUMA node %d has no memory; node %d is the nearest with memory\n", n.ID, n.Memory[0])
		}
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
