package hybrid_test

import (
	"slices"
	"testing"

	"github.com/candor-project/candor/hybrid"
)

// A plan gives a reason exactly if the reason is true.
func TestExplainReasons(t *testing.T) {
	sensitive := func(id string, limit hybrid.Milli) hybrid.Request { return hybrid.Request{ID: id, Limit: limit} }
	flexible := hybrid.Request{ID: "batch", Limit: 1500, Class: hybrid.Flexible}
	tests := map[string]struct {
		machine   string
		before    []hybrid.Request
		last      hybrid.Request
		want      string // a step of the last one's plan
		algorithm hybrid.Algorithm
	}{
		"a fraction alone": {"core:2", nil, sensitive("web", 600), "600m of CPU 0: no other container uses it", hybrid.Candor},
		"no CPU left": {"core:2", []hybrid.Request{sensitive("a", 600), sensitive("b", 600)}, sensitive("web", 300),
			"300m of CPU 0: 1 other container uses it, since no CPU is left to keep them apart", hybrid.Candor},
		"a CPU is left": {"core:3", []hybrid.Request{sensitive("a", 600), sensitive("b", 300), flexible}, sensitive("web", 100),
			"100m of CPU 1: 2 other containers use it", hybrid.Candor},
		"a split core":     {"numa:2 core:2 pu:2", nil, sensitive("web", 3000), "all in NUMA node 0, 1 core split", hybrid.Candor},
		"no core is split": {"numa:2 core:2 pu:2", nil, sensitive("web", 2000), "all in NUMA node 0, 0 cores split", hybrid.Candor},
		"no node has room": {"numa:2 core:2", nil, sensitive("web", 3000), "in 2 NUMA nodes, since none has room for all", hybrid.Candor},
		"a node had room": {"numa:2 core:3", []hybrid.Request{sensitive("a", 1000), sensitive("b", 1000)}, sensitive("web", 3000),
			"in 2 NUMA nodes", hybrid.Paper},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			node, err := hybrid.NewNode(parse(t, test.machine), hybrid.Options{Algorithm: test.algorithm})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range test.before {
				plan, err := node.Plan(r)
				if err != nil {
					t.Fatal(err)
				}
				if err := node.Commit(plan); err != nil {
					t.Fatal(err)
				}
			}
			plan, err := node.Plan(test.last)
			if err != nil {
				t.Fatal(err)
			}
			steps := plan.Explain()
			if !slices.ContainsFunc(steps, func(s hybrid.Step) bool { return s.Text == test.want }) {
				t.Errorf("want %q among %v", test.want, steps)
			}
		})
	}
}
