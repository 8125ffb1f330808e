package topology

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
)

// anyMachine generates a valid irregular machine: sparse IDs, offline CPUs, domains that do not nest.
func anyMachine(t *rapid.T) *Machine {
	m := &Machine{HasL3: rapid.Bool().Draw(t, "hasL3")}
	ids := rapid.SliceOfNDistinct(rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, cpuset.Max-1)), 1, 24, rapid.ID).Draw(t, "ids")
	slices.Sort(ids)
	for _, id := range ids {
		online := len(m.CPUs) == len(ids)-1 && m.Online.IsEmpty() || rapid.IntRange(0, 4).Draw(t, "online") > 0
		c := CPU{ID: id, Online: online, Socket: -1, Node: -1, L3: -1, Core: -1}
		if online {
			c.Capacity = rapid.SampledFrom([]int{0, 446, 1024}).Draw(t, "capacity")
			c.MaxKHz = rapid.SampledFrom([]int{0, 800000, 5200000}).Draw(t, "max")
			m.Online.Add(id)
		} else {
			m.Offline.Add(id)
		}
		if rapid.IntRange(0, 4).Draw(t, "isolated") == 0 {
			m.Isolated.Add(id)
		}
		m.CPUs = append(m.CPUs, c)
	}
	number := func() int { return rapid.IntRange(-1, 9).Draw(t, "number") }
	for i, d := range anyPartition(t, m, number) {
		m.Sockets = append(m.Sockets, Socket(d))
		mark(m, d.CPUs, func(c *CPU) { c.Socket = i })
	}
	node := 0
	nodes := anyPartition(t, m, func() int { node += rapid.IntRange(1, 9).Draw(t, "gap"); return node })
	if rapid.Bool().Draw(t, "nodes not in the order of their CPUs") {
		for i := range nodes {
			nodes[i].ID = node - nodes[i].ID
		}
	}
	for i, d := range nodes {
		row := rapid.SliceOfN(rapid.IntRange(10, 40), len(nodes), len(nodes)).Draw(t, "distances")
		m.Nodes = append(m.Nodes, NUMANode{ID: d.ID, CPUs: d.CPUs, Distances: row})
		mark(m, d.CPUs, func(c *CPU) { c.Node = i })
	}
	anyMemory(t, m)
	if m.HasL3 {
		m.L3s = anyPartition(t, m, number)
	} else {
		for _, d := range nodes {
			m.L3s = append(m.L3s, Domain{-1, d.CPUs})
		}
	}
	m.Cores = anyPartition(t, m, number)
	for i, d := range m.L3s {
		mark(m, d.CPUs, func(c *CPU) { c.L3 = i })
	}
	for i, d := range m.Cores {
		mark(m, d.CPUs, func(c *CPU) { c.Core = i })
	}
	anyKinds(t, m)
	return m
}

// anyKinds sets the kinds of cores: kinds with names, or the kinds that Read derives from the speeds.
func anyKinds(t *rapid.T, m *Machine) {
	if m.Kinds = m.KindsBySpeed(); m.Online.Count() < 2 || rapid.Bool().Draw(t, "kinds by speed") {
		return
	}
	names := rapid.Permutation([]string{Performance, Efficiency, LowPower}).Draw(t, "names of kinds")[:rapid.IntRange(2, 3).Draw(t, "kinds")]
	sets := map[string]cpuset.Set{}
	for i, id := range m.Online.Slice() {
		name := names[i%2]
		if i >= 2 {
			name = rapid.SampledFrom(names).Draw(t, "kind")
		}
		s := sets[name]
		s.Add(id)
		sets[name] = s
	}
	m.Kinds = nil
	for _, name := range []string{Performance, Efficiency, LowPower} {
		if s, ok := sets[name]; ok {
			m.Kinds = append(m.Kinds, Kind{name, s})
		}
	}
}

// anyMemory removes the memory of some nodes.
func anyMemory(t *rapid.T, m *Machine) {
	var with []int // indexes
	for i := range m.Nodes {
		if rapid.IntRange(0, 3).Draw(t, "memory") > 0 {
			with = append(with, i)
		}
	}
	if len(with) == 0 || len(with) == len(m.Nodes) {
		return
	}
	for i := range m.Nodes {
		n := &m.Nodes[i]
		slices.SortFunc(with, func(a, b int) int {
			return cmp.Or(cmp.Compare(n.Distances[a], n.Distances[b]), cmp.Compare(m.Nodes[a].ID, m.Nodes[b].ID))
		})
		for _, j := range with {
			n.Memory = append(n.Memory, m.Nodes[j].ID)
		}
	}
}

// anyPartition puts the online CPUs into domains at random.
func anyPartition(t *rapid.T, m *Machine, number func() int) []Domain {
	most := rapid.IntRange(0, 5).Draw(t, "domains")
	sets := map[int]cpuset.Set{}
	for id := range m.Online.All() {
		k := rapid.IntRange(0, most).Draw(t, "domain")
		s := sets[k]
		s.Add(id)
		sets[k] = s
	}
	var domains []Domain
	for _, s := range sets {
		domains = append(domains, Domain{CPUs: s})
	}
	slices.SortFunc(domains, func(a, b Domain) int { return cmp.Compare(a.CPUs.First(), b.CPUs.First()) })
	for i := range domains {
		domains[i].ID = number()
	}
	return domains
}

func mark(m *Machine, cpus cpuset.Set, set func(*CPU)) {
	for id := range cpus.All() {
		set(m.CPU(id))
	}
}

// anyDescription draws a description of at most 64 CPUs.
func anyDescription(t *rapid.T) string {
	count := func() int { return rapid.SampledFrom([]int{1, 1, 2, 2, 3}).Draw(t, "count") }
	large := rapid.SampledFrom([]string{
		"", "pack:%d", "numa:%d", "l3:%d", "pack:%d numa:%d", "numa:%d pack:%d", "pack:%d l3:%d", "l3:%d numa:%d",
		"pack:%d [numa] l3:%d", "[numa] pack:%d die:%d", "pack:%d numa:%d l3:%d", "numa:%d l3:%d pack:%d",
	}).Draw(t, "large")
	small := rapid.SampledFrom([]string{" core:%d", " core:%d pu:%d", " l2:1 core:%d l1:%d", " pu:%d"}).Draw(t, "small")
	format := large + small
	var counts []any
	for range strings.Count(format, "%d") {
		counts = append(counts, count())
	}
	return strings.TrimSpace(fmt.Sprintf(format, counts...))
}

// TestReadKernelFiles: Read returns the machine whose files were written, in any dialect of the kernel.
func TestReadKernelFiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyMachine(t)
		if err := m.Validate(); err != nil {
			t.Fatalf("the test's own machine is invalid: %v", err)
		}
		d := dialect{lists: rapid.Bool().Draw(t, "lists"), old: rapid.Bool().Draw(t, "old")}
		got, err := Read(sysfsOf(m, d))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, m) {
			t.Fatalf("got  %+v\nwant %+v", got, m)
		}
		all := m.Online.Union(m.Offline)
		for id := -2; id < cpuset.Max+2; id++ {
			if c := got.CPU(id); (c != nil) != all.Contains(id) || c != nil && c.ID != id {
				t.Fatalf("CPU(%d) is %v", id, c)
			}
		}
	})
}

// TestJSONIsLossless: a machine can be encoded as JSON without loss, and can be printed as a tree.
func TestJSONIsLossless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyMachine(t)
		text, err := m.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var again Machine
		if err := again.UnmarshalJSON(text); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(&again, m) {
			t.Fatalf("got  %+v\nwant %+v", &again, m)
		}
		if err := m.WriteTree(&strings.Builder{}); err != nil {
			t.Fatal(err)
		}
	})
}

// TestParsedMachine: a parsed machine is the same after it is written as sysfs and read, and after its
// description is parsed.
func TestParsedMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		description := anyDescription(t)
		m, err := Parse(description)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Validate(); err != nil {
			t.Fatalf("%q: %v", description, err)
		}
		got, err := Read(sysfsOf(m, dialect{}))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, m) {
			t.Fatalf("%q through sysfs\ngot  %+v\nwant %+v", description, got, m)
		}
		canonical := m.Description()
		again, err := Parse(canonical)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(again, m) {
			t.Fatalf("%q describes itself as %q\ngot  %+v\nwant %+v", description, canonical, again, m)
		}
	})
}
