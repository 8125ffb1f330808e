package cpumap

import (
	"fmt"
	"testing"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// machine reads a written-down machine.
func machine(t testing.TB, description string) *topology.Machine {
	t.Helper()
	m, err := topology.Parse(description)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sensitive returns a grant with the given own CPUs and fractions.
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

// flexible returns a grant on shared CPUs.
func flexible(id, cpus string, limit hybrid.Milli) hybrid.Grant {
	g := hybrid.Grant{CPUs: cpuset.MustParse(cpus)}
	g.ID, g.Class, g.Limit = id, hybrid.Flexible, limit
	return g
}

// small is a map with something of everything, on 2 x 4 x 2 CPUs.
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

// full fills a machine with containers of 2.5 to 8 CPUs, one after the other.
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
