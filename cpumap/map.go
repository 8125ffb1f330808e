// Package cpumap draws the CPU map of a node: sockets, NUMA nodes, L3 domains, cores and CPUs with their containers. It draws
// text for terminals and pipes, and SVG. It reads nothing and decides nothing: the caller provides all data.
package cpumap

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/internal/seencpus"
	"github.com/candor-project/candor/topology"
)

// A Map is the data of a drawing: a machine and the grants on it.
type Map struct {
	Machine  *topology.Machine
	Usable   cpuset.Set                  // CPUs for containers; other online CPUs are reserved or isolated
	Grants   []hybrid.Grant              // in order of arrival
	Shared   hybrid.Milli                // the node's shared time (hybrid.Node.Shared)
	Names    map[string]podname.Name     // names of the containers in pods, by container ID
	SeenCPUs map[string]seencpus.Summary // CPU counts that containers see, by container ID
	Tags     *Tags                       // gives a container the same letter in every map; nil: letters in order of arrival

	// ForeignUses are the uses of exclusive CPUs by foreign processes.
	ForeignUses []ForeignUse

	Limits       []GroupLimit  // quotas of ancestors of the containers' cgroups
	Foreign      []Foreign     // running containers that Candor does not manage; nil if candor did not search for them
	Reservations []Reservation // CPUs that foreign cgroups reserve, and that are therefore not usable
}

// A GroupLimit is the quota of an ancestor of containers' cgroups. The containers share this quota.
type GroupLimit struct {
	Group      string       `json:"group"`
	Limit      hybrid.Milli `json:"limitMilli"`
	Containers []string     `json:"containers"` // IDs
}

// String returns a text such as "limited to 1 CPU by /m.slice".
func (l GroupLimit) String() string {
	if l.Limit == 1000 {
		return "limited to 1 CPU by " + Clean(l.Group)
	}
	return fmt.Sprintf("limited to %s CPUs by %s", decimal(l.Limit), Clean(l.Group))
}

// A Reservation is a set of CPUs that a foreign cgroup reserves.
type Reservation struct {
	Group string     `json:"group"`
	CPUs  cpuset.Set `json:"cpus"`
}

// A ForeignUse is the CPU time that foreign processes (processes that Candor does not manage) use on exclusive CPUs. It covers a
// single CPU, or several CPUs together if the kernel reports only the sum.
type ForeignUse struct {
	CPUs  cpuset.Set   `json:"cpus"`
	Milli hybrid.Milli `json:"useMilli"`
}

// FromNode returns the map of a node.
func FromNode(node *hybrid.Node) *Map {
	return &Map{Machine: node.Machine(), Usable: node.Usable(), Grants: node.Grants(), Shared: node.Shared()}
}

// Name returns the display name of a container without control characters: namespace/pod/container in a pod, otherwise its ID.
func (m *Map) Name(id string) string { return Clean(cmp.Or(m.Names[id].String(), id)) }

// Tags assigns a number to every sensitive container. The number determines the letter and the color of the container. A container
// keeps its number until it is removed.
type Tags struct {
	number map[string]int
	used   []bool
}

// update releases the numbers of removed containers. Then it assigns the lowest free numbers to new containers.
func (t *Tags) update(grants []hybrid.Grant) {
	if t.number == nil {
		t.number = map[string]int{}
	}
	here := map[string]bool{}
	for i := range grants {
		here[grants[i].ID] = grants[i].Class == hybrid.Sensitive
	}
	for id, n := range t.number {
		if !here[id] {
			delete(t.number, id)
			t.used[n] = false
		}
	}
	for i := range grants {
		id := grants[i].ID
		if _, known := t.number[id]; known || !here[id] {
			continue
		}
		n := slices.Index(t.used, false)
		if n < 0 {
			n = len(t.used)
			t.used = append(t.used, false)
		}
		t.used[n] = true
		t.number[id] = n
	}
}

// letters is the number of different letters. Containers whose numbers differ by a multiple of letters have the same letter.
const letters = 26

// A pool is a group of CPUs with the same kind of use.
type pool uint8

const (
	shared pool = iota
	exclusive
	fractional
	reserved
	isolated
	poolCount
)

var poolNames = []string{"shared", "exclusive", "fractional", "reserved", "isolated"}

func (p pool) String() string { return poolNames[p] }

// A cell is an online CPU with its containers.
type cell struct {
	cpu        int
	pool       pool
	parts      []part // sensitive containers, in order of arrival
	flexible   bool   // flexible containers run here
	hasForeign bool   // foreign processes use this exclusive CPU
	reservedBy string // foreign cgroup that reserves the CPU, safe to print; "": none
}

// A part is the share that a sensitive container has of a CPU.
type part struct {
	tag   int // number in Tags
	id    string
	name  string // display name
	milli hybrid.Milli
}

// cells returns the cells of the online CPUs, by CPU ID.
func (m *Map) cells() map[int]*cell {
	cells := make(map[int]*cell, len(m.Machine.CPUs))
	for cpu := range m.Machine.Online.All() {
		c := &cell{cpu: cpu}
		switch {
		case m.Usable.Contains(cpu):
		case m.Machine.Isolated.Contains(cpu):
			c.pool = isolated
		default:
			c.pool = reserved
		}
		cells[cpu] = c
	}
	for _, r := range m.Reservations {
		for cpu := range r.CPUs.All() {
			if c := cells[cpu]; c != nil && c.pool == reserved {
				c.reservedBy = Clean(r.Group)
			}
		}
	}
	tags := m.tags()
	for i := range m.Grants {
		g := &m.Grants[i]
		addGrant(cells, g, part{tag: tags.number[g.ID], id: g.ID, name: m.Name(g.ID)})
	}
	for _, s := range m.ForeignUses {
		for cpu := range s.CPUs.All() {
			if c := cells[cpu]; c != nil {
				c.hasForeign = c.hasForeign || s.Milli > 0
			}
		}
	}
	return cells
}

// addGrant adds a container to the cells of its CPUs. An offline CPU has no cell; only the legend lists this CPU.
func addGrant(cells map[int]*cell, g *hybrid.Grant, of part) {
	if g.Class == hybrid.Flexible {
		for cpu := range g.CPUs.All() {
			if c := cells[cpu]; c != nil {
				c.flexible = true
			}
		}
		return
	}
	for cpu := range g.Exclusive.All() {
		if c := cells[cpu]; c != nil {
			c.pool = exclusive
			of.milli = 1000
			c.parts = append(c.parts, of)
		}
	}
	for _, f := range g.Fractions {
		if c := cells[f.CPU]; c != nil {
			c.pool = fractional
			of.milli = f.Milli
			c.parts = append(c.parts, of)
		}
	}
}

// tags updates the numbers for the current grants, and returns the updated Tags.
func (m *Map) tags() *Tags {
	if m.Tags == nil {
		m.Tags = &Tags{}
	}
	m.Tags.update(m.Grants)
	return m.Tags
}
