package cpumap

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// machine parses a machine in hwloc's notation.
func machine(t testing.TB, description string) *topology.Machine {
	t.Helper()
	m, err := topology.Parse(description)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sensitive returns a grant with exclusive CPUs and fractions.
func sensitive(id, own string, fractions ...hybrid.Fraction) hybrid.Grant {
	g := hybrid.Grant{Exclusive: cpuset.MustParse(own), Fractions: fractions}
	g.ID, g.CPUs = id, g.Exclusive
	g.Limit = hybrid.Milli(1000 * g.Exclusive.Count())
	for _, f := range fractions {
		g.CPUs.Add(f.CPU)
		g.Limit += f.Milli
	}
	return g
}

// flexible returns a grant of a flexible container on shared CPUs.
func flexible(id, cpus string, limit hybrid.Milli) hybrid.Grant {
	g := hybrid.Grant{CPUs: cpuset.MustParse(cpus)}
	g.ID, g.Class, g.Limit = id, hybrid.Flexible, limit
	return g
}

// small returns a map of 2 sockets with 4 cores of 2 CPUs, with exclusive, fractional, shared and reserved CPUs.
func small(t testing.TB) *Map {
	m := machine(t, "pack:2 numa:1 l3:1 core:4 pu:2")
	usable := m.Online
	usable.Remove(15)
	return &Map{Machine: m, Usable: usable, Shared: 400, Grants: []hybrid.Grant{
		sensitive("web", "0-2", hybrid.Fraction{CPU: 3, Milli: 500}),
		sensitive("db", "8-9", hybrid.Fraction{CPU: 10, Milli: 400}),
		sensitive("cache", "", hybrid.Fraction{CPU: 10, Milli: 250}),
		flexible("log", "4-7,10-14", 2000),
		flexible("a-batch-job-with-a-very-long-name-indeed", "4-7,10-14", 0),
	}}
}

// full returns a map of a machine that is filled with containers of 2 to 9 CPUs, in the order of the CPUs.
func full(t testing.TB, description string) *Map {
	m := machine(t, description)
	out := &Map{Machine: m, Usable: m.Online}
	cpus := m.Online.Slice()
	at := 0
	for n := 0; at+20 < len(cpus)*3/4; n++ {
		var own cpuset.Set
		for range 2 + n*3%7 {
			own.Add(cpus[at])
			at++
		}
		g := sensitive(fmt.Sprintf("job-%d", n), own.String(), hybrid.Fraction{CPU: cpus[at], Milli: hybrid.Milli(100 + n*170%900)})
		out.Grants = append(out.Grants, g)
		at++
	}
	out.Grants = append(out.Grants, flexible("log", cpuset.Range(cpus[at], cpus[len(cpus)-1]).String(), 0))
	return out
}

// irregular returns a map of a machine with two kinds of cores, a socket with two NUMA nodes, and CPUs that are
// isolated or offline.
func irregular() *Map {
	m := &topology.Machine{
		Sockets:  []topology.Socket{{ID: 3, CPUs: cpuset.MustParse("0-7,10-11")}},
		Nodes:    []topology.NUMANode{{ID: 0, CPUs: cpuset.MustParse("0-7")}, {ID: 8, CPUs: cpuset.MustParse("10-11")}},
		L3s:      []topology.Domain{{CPUs: cpuset.MustParse("0-7")}, {CPUs: cpuset.MustParse("10-11")}},
		Online:   cpuset.MustParse("0-7,10-11"),
		Offline:  cpuset.MustParse("8-9"),
		Isolated: cpuset.MustParse("11"),
		HasL3:    true,
		Kinds: []topology.Kind{{Name: topology.Performance, CPUs: cpuset.MustParse("0-3")},
			{Name: topology.Efficiency, CPUs: cpuset.MustParse("4-7,10-11")}},
	}
	for _, cpus := range []string{"0-1", "2-3", "4", "5", "6", "7", "10", "11"} {
		m.Cores = append(m.Cores, topology.Domain{CPUs: cpuset.MustParse(cpus)})
	}
	for cpu := range 12 {
		c := topology.CPU{ID: cpu, Online: m.Online.Contains(cpu)}
		if cpu >= 10 {
			c.Node, c.L3 = 1, 1
		}
		for i, core := range m.Cores {
			if core.CPUs.Contains(cpu) {
				c.Core = i
			}
		}
		m.CPUs = append(m.CPUs, c)
	}
	threads := sensitive("threads", "2-3")
	threads.Lost = cpuset.MustParse("8")
	return &Map{Machine: m, Usable: cpuset.MustParse("1-7,10"), Grants: []hybrid.Grant{
		threads,
		sensitive("efficient", "4", hybrid.Fraction{CPU: 5, Milli: 250}),
		flexible("log", "1,6-7,10", 500),
	}, ForeignUses: []ForeignUse{{CPUs: cpuset.MustParse("2-3"), Milli: 123}, {CPUs: cpuset.MustParse("4"), Milli: 0}}}
}

// drawMap draws a random machine with consistent grants.
func drawMap(t *rapid.T) *Map {
	n := func(name string, most int) int { return rapid.IntRange(1, most).Draw(t, name) }
	m, err := topology.Parse(fmt.Sprintf("pack:%d numa:%d l3:%d core:%d pu:%d",
		n("sockets", 2), n("nodes", 3), n("l3s", 3), n("cores", 9), n("threads", 4)))
	if err != nil {
		t.Fatal(err)
	}
	out := &Map{Machine: m}
	free := rapid.Permutation(m.Online.Slice()).Draw(t, "cpus")
	take := func(name string) (s cpuset.Set) {
		for k := rapid.IntRange(0, 5).Draw(t, name); k > 0 && len(free) > 1; k-- {
			s.Add(free[0])
			free = free[1:]
		}
		return s
	}
	out.Usable = m.Online.Minus(take("reserved"))
	name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z]{1,60}`))
	seen := map[string]bool{}
	var shared cpuset.Set
	for range rapid.IntRange(0, 40).Draw(t, "containers") {
		id := name.Draw(t, "id")
		own := take("own")
		if seen[id] || own.IsEmpty() {
			continue
		}
		seen[id] = true
		cpu := own.First()
		own.Remove(cpu)
		a := hybrid.Milli(rapid.IntRange(1, 999).Draw(t, "milli"))
		out.Grants = append(out.Grants, sensitive(id, own.String(), hybrid.Fraction{CPU: cpu, Milli: a}))
		if b := "beside " + id; a < 900 && !seen[b] {
			seen[b] = true
			out.Grants = append(out.Grants, sensitive(b, "", hybrid.Fraction{CPU: cpu, Milli: 1000 - a}))
		} else {
			shared.Add(cpu)
		}
	}
	for _, cpu := range free {
		shared.Add(cpu)
	}
	if !seen["flexible"] {
		out.Grants = append(out.Grants, flexible("flexible", shared.String(), 0))
	}
	return out
}

func sprint(v any) string { return fmt.Sprint(v) }
