package hybrid_test

import (
	"fmt"
	"testing"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// Each case tests a rule of the choice of CPUs. Its two candidates differ only in this rule.
func TestTopologyOrder(t *testing.T) {
	tests := []struct {
		rule           string
		machine        string
		held           []string // exclusive CPUs of containers that are there
		limit          hybrid.Milli
		topologyPolicy hybrid.TopologyPolicy
		want           string
	}{
		{"one NUMA node, though the first has free CPUs", "numa:2 core:4", []string{"0-1"}, 3000, hybrid.Prefer, "4-6"},
		{"one L3 domain, though the first has free CPUs", "numa:1 l3:2 core:4", []string{"0-1"}, 3000, hybrid.Prefer, "4-6"},
		{"no split core, though the fit is worse", "l3:2 core:4 pu:2", []string{"0-2", "12-14"}, 2000, hybrid.Prefer, "3,11"},
		{"the fullest L3 domain that has room", "numa:1 l3:3 core:4", []string{"4-5"}, 2000, hybrid.Prefer, "6-7"},
		{"an L3 domain of the fullest NUMA node", "numa:2 l3:2 core:2", []string{"8-9", "6"}, 2000, hybrid.Prefer, "4-5"},
		{"the CPUs of cores that are split already", "core:4 pu:2", []string{"1"}, 1000, hybrid.Prefer, "5"},
		{"the lowest of equals", "numa:2 core:4", nil, 2000, hybrid.Prefer, "0-1"},
		{"two NUMA nodes, and the third is left whole", "numa:3 core:4", []string{"0-1"}, 6000, hybrid.Prefer, "2-7"},
		{"no policy: the lowest ids", "numa:2 core:4", []string{"0-1"}, 3000, hybrid.NoTopology, "2-4"},
		{"the fraction near to the whole CPUs", "l3:2 core:4", []string{"0-1"}, 2500, hybrid.Prefer, "4-6"},
		{"whole cores only", "core:4 pu:2", []string{"0"}, 2000, hybrid.WholeCores, "1,5"},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			node := nodeWithExclusive(t, parse(t, test.machine), test.held...)
			plan, err := node.Plan(hybrid.Request{ID: "new", Limit: test.limit, Topology: test.topologyPolicy})
			if err != nil {
				t.Fatal(err)
			}
			if got := plan.Grant.CPUs.String(); got != test.want {
				t.Errorf("%s with %v held: %v gets %s, want %s", test.machine, test.held, test.limit, got, test.want)
			}
		})
	}
}

// A container that needs two NUMA nodes gets two nodes that are near each other, even if no node is near the first node.
func TestNearestNUMANodes(t *testing.T) {
	m := parse(t, "pack:2 numa:2 core:4")
	for i := range m.Nodes {
		for j := range m.Nodes {
			switch {
			case i == j:
			case i/2 == j/2:
				m.Nodes[i].Distances[j] = 12
			default:
				m.Nodes[i].Distances[j] = 32
			}
		}
	}
	node := nodeWithExclusive(t, m, "4-7") // the neighbor of the first node is full
	plan, err := node.Plan(hybrid.Request{ID: "new", Limit: 6000})
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Grant.CPUs.String(); got != "8-13" {
		t.Errorf("6 CPUs are %s, want 8-13, all in one socket", got)
	}
}

func parse(t testing.TB, description string) *topology.Machine {
	t.Helper()
	m, err := topology.Parse(description)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// nodeWithExclusive returns a node on which containers have these sets of CPUs exclusively.
func nodeWithExclusive(t testing.TB, m *topology.Machine, sets ...string) *hybrid.Node {
	t.Helper()
	node, err := hybrid.NewNode(m, hybrid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var grants []hybrid.Grant
	for i, list := range sets {
		cpus, err := cpuset.Parse(list)
		if err != nil {
			t.Fatal(err)
		}
		request := hybrid.Request{ID: fmt.Sprint("held", i), Limit: hybrid.Milli(1000 * cpus.Count())}
		grants = append(grants, hybrid.Grant{Request: request, CPUs: cpus, Exclusive: cpus})
	}
	if err := node.Restore(grants); err != nil {
		t.Fatal(err)
	}
	return node
}
