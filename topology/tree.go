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
	b.WriteString(m.DescribeCores() + ", " + plural(m.Online.Count(), "CPU"))
	if n := m.Offline.Count(); n > 0 {
		fmt.Fprintf(b, " (and %d offline)", n)
	}
	if s := m.speedOf(&m.Online); !m.hasMixedSpeeds() && s.maxKHz.high > 0 { // omit the capacity, because it is relative and equal for all CPUs
		b.WriteString(", " + speed{maxKHz: s.maxKHz}.String())
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
	mixed := m.hasMixedSpeeds()
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

// A speed holds the ranges of the capacity and of the maximum frequency of several CPUs.
type speed struct{ capacity, maxKHz valueRange }

// A valueRange is the range of the known values of several CPUs; 0 to 0 if all values are unknown.
type valueRange struct{ low, high int }

// add adds a value to the range. 0 means that the value is unknown.
func (r *valueRange) add(value int) {
	if value > 0 && (r.low == 0 || value < r.low) {
		r.low = value
	}
	r.high = max(r.high, value)
}

// format returns the range in a unit, such as "5.5 to 5.7".
func (r valueRange) format(unit float64) string {
	text := func(value int) string { return strconv.FormatFloat(float64(value)/unit, 'f', -1, 64) }
	if r.low == r.high {
		return text(r.high)
	}
	return text(r.low) + " to " + text(r.high)
}

func (s speed) String() string {
	var parts []string
	if s.capacity.high > 0 {
		parts = append(parts, "capacity "+s.capacity.format(1))
	}
	if s.maxKHz.high > 0 {
		parts = append(parts, "max "+s.maxKHz.format(1e6)+" GHz")
	}
	return strings.Join(parts, ", ")
}

// speedOf returns the speed of several CPUs.
func (m *Machine) speedOf(cpus *cpuset.Set) (s speed) {
	for i := range m.CPUs {
		if c := &m.CPUs[i]; cpus.Contains(c.ID) {
			s.capacity.add(c.Capacity)
			s.maxKHz.add(c.MaxKHz)
		}
	}
	return s
}

// hasMixedSpeeds reports whether the online CPUs have different speeds or are of different kinds.
func (m *Machine) hasMixedSpeeds() bool {
	s := m.speedOf(&m.Online)
	return len(m.Kinds) > 0 || s.capacity.low != s.capacity.high || s.maxKHz.low != s.maxKHz.high
}

// A coreGroup is a list of cores of the same kind with the same number of CPUs.
type coreGroup struct {
	threads, kind int
	cores         []Domain
}

// coreLines returns a line for each group of equal cores in a set of CPUs. If mixed is true, the line has their speed.
func (m *Machine) coreLines(cpus *cpuset.Set, mixed bool) []branch {
	var groups []coreGroup
	for _, core := range domainsIn(m.Cores, cpus) {
		threads, kind := core.CPUs.Count(), m.KindOf(core.CPUs.First())
		i := slices.IndexFunc(groups, func(g coreGroup) bool { return g.threads == threads && g.kind == kind })
		if i < 0 {
			i = len(groups)
			groups = append(groups, coreGroup{threads: threads, kind: kind})
		}
		groups[i].cores = append(groups[i].cores, core)
	}
	var lines []branch
	for i := range groups {
		g := &groups[i]
		noun := "core"
		if len(m.Kinds) > 0 {
			noun = kindPrefix(m.Kinds[g.kind].Name) + noun
		}
		label := plural(len(g.cores), noun)
		if g.threads > 1 {
			label += " of " + plural(g.threads, "CPU")
		}
		if s := m.speedOf(g.cpus()).String(); mixed && s != "" {
			label += ", " + s
		}
		lines = append(lines, branch{label: label + ": " + coreSets(g.cores), shape: label, isRedundant: g.threads == 1})
	}
	return lines
}

// cpus returns the CPUs of the group.
func (g *coreGroup) cpus() *cpuset.Set {
	all := &cpuset.Set{}
	for i := range g.cores {
		all.AddAll(&g.cores[i].CPUs)
	}
	return all
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
