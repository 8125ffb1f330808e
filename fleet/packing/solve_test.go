package packing

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawCase draws a small problem.
func drawCase(t *rapid.T) (apps, nodes List) {
	resources := []string{CPU, "memory", "disk"}[:rapid.IntRange(1, 3).Draw(t, "resources")]
	things := func(what string, most int, cpu, other *rapid.Generator[int64]) List {
		l := List{Resources: resources}
		for i := range rapid.IntRange(1, most).Draw(t, what) {
			amounts := []int64{cpu.Draw(t, "cpu")}
			for range resources[1:] {
				amounts = append(amounts, other.Draw(t, "amount"))
			}
			l.Items = append(l.Items, Item{fmt.Sprint(what, i), amounts})
		}
		return l
	}
	appCPU := rapid.OneOf(rapid.Int64Range(0, 3000), rapid.SampledFrom([]int64{500, 1000, 1500}))
	apps = things("app", 6, appCPU, rapid.Int64Range(0, 6))
	nodes = things("node", 4, rapid.SampledFrom([]int64{1000, 2000, 4000, 2500}), rapid.SampledFrom([]int64{4, 6, 10}))
	return apps, nodes
}

// bruteForce evaluates all allocations. shared is the least sharing of the allocations with the lowest cost.
func bruteForce(apps, nodes List, goal Goal) (best, shared int64, found bool) {
	of := make([]int, len(apps.Items))
	var place func(a int)
	place = func(a int) {
		if a < len(of) {
			for of[a] = range nodes.Items {
				place(a + 1)
			}
			return
		}
		cost, ok := costOf(apps, nodes, of, goal)
		if !ok || found && cost > best {
			return
		}
		if shares, _ := costOf(apps, nodes, of, Sharing); !found || cost < best || shares < shared {
			best, shared, found = cost, shares, true
		}
	}
	place(0)
	return best, shared, found
}

// costOf returns the cost of an allocation, and reports whether the allocation respects the capacities.
func costOf(apps, nodes List, of []int, goal Goal) (cost int64, ok bool) {
	for n := range nodes.Items {
		var cpus []int64
		for r := range nodes.Resources {
			sum := int64(0)
			for a := range of {
				if of[a] == n {
					sum += apps.Items[a].Amounts[r]
					if r == 0 {
						cpus = append(cpus, apps.Items[a].Amounts[0])
					}
				}
			}
			if sum > nodes.Items[n].Amounts[r] {
				return 0, false
			}
		}
		switch {
		case goal == Sharing:
			cost += bruteSharing((nodes.Items[n].Amounts[0]+999)/1000, cpus)
		case len(cpus) > 0:
			cost++
		}
	}
	return cost, true
}

// bruteSharing tries every choice of the fractions that have a CPU of their own.
func bruteSharing(cpus int64, amounts []int64) int64 {
	least := int64(-1)
	for alone := range 1 << len(amounts) {
		bins, rest := cpus, int64(0)
		for i, amount := range amounts {
			bins -= amount / 1000
			if fraction := amount % 1000; fraction > 0 && alone>>i&1 == 1 {
				bins--
			} else {
				rest += fraction
			}
		}
		if rest <= bins*1000 && bins >= 0 && (least < 0 || rest < least) {
			least = rest
		}
	}
	return least
}

// Solve solves small problems exactly, and refuses problems without a solution.
func TestSolveIsExact(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		apps, nodes := drawCase(rt)
		goal := Goal(rapid.IntRange(0, 1).Draw(rt, "goal"))
		want, wantShared, feasible := bruteForce(apps, nodes, goal)
		solution, err := Solve(apps, nodes, goal)
		if no := (*Infeasible)(nil); !feasible {
			if !errors.As(err, &no) {
				rt.Fatalf("%v, %v; want that there is no allocation", solution, err)
			}
			checkReason(rt, apps, nodes, no)
			seen["infeasible"]++
			return
		}
		if err != nil {
			rt.Fatal(err)
		}
		cost, ok := costOf(apps, nodes, solution.NodeOf, goal)
		if !ok || !solution.Optimal || cost != want || solution.Bound != want {
			rt.Fatalf("%+v costs %d (capacities kept: %v); want %d", *solution, cost, ok, want)
		}
		if got := map[Goal]int64{Nodes: int64(solution.Used), Sharing: solution.Shared}[goal]; got != cost {
			rt.Fatalf("%+v costs %d, want %d", *solution, got, cost)
		}
		if solution.Shared != wantShared || !solution.SharesLeast {
			rt.Fatalf("%+v shares %d, with as many nodes %d will do", *solution, solution.Shared, wantShared)
		}
		seen[goal.String()]++
		if wantShared > 0 {
			seen["shares"]++
		}
	})
	t.Log(seen)
	if testing.Short() {
		return // too few cases to meet each kind
	}
	for _, what := range []string{"infeasible", "nodes", "sharing", "shares"} {
		if seen[what] == 0 {
			t.Errorf("never: %s", what)
		}
	}
}

// Of the allocations with the fewest nodes, Solve returns the allocation with the least sharing. Best fit alone would fill the first node,
// on which two fractions would then share a CPU.
func TestFewestNodesShareLeast(t *testing.T) {
	apps, nodes := List{Resources: []string{CPU}}, List{Resources: []string{CPU}}
	for i, milli := range []int64{1500, 1500, 1500, 1000} {
		apps.Items = append(apps.Items, Item{fmt.Sprint("a", i), []int64{milli}})
	}
	for i := range 3 {
		nodes.Items = append(nodes.Items, Item{fmt.Sprint("n", i), []int64{4000}})
	}
	p, err := newProblem(apps, nodes)
	if err != nil {
		t.Fatal(err)
	}
	first := newSearch(p, Nodes)
	first.run()
	if shared, _ := costOf(apps, nodes, first.best, Sharing); shared != 1000 {
		t.Errorf("the first search shares %d: the case tests nothing", shared)
	}
	s, err := Solve(apps, nodes, Nodes)
	if err != nil || s.Used != 2 || s.Shared != 0 || !s.Optimal || !s.SharesLeast {
		t.Errorf("%+v, %v; want 2 nodes that share nothing", s, err)
	}
}

// checkReason checks that the problem has a solution without the demand for the resource that the error names.
func checkReason(t *rapid.T, apps, nodes List, no *Infeasible) {
	if no.Resource == "" {
		return
	}
	p, err := newProblem(apps, nodes)
	if err != nil {
		t.Fatal(err)
	}
	// Without all other resources it still lacks, or without it alone there is an allocation.
	r := slices.Index(apps.Resources, no.Resource)
	only := p
	for other := range p.resources {
		if other != r {
			only = only.withoutDemand(other)
		}
	}
	_, _, alone := bruteForce(List{apps.Resources, only.apps}, nodes, Nodes)
	_, _, without := bruteForce(List{apps.Resources, p.withoutDemand(r).apps}, nodes, Nodes)
	if alone && !without {
		t.Fatalf("%s is said to lack (%v), but it does not", no.Resource, no)
	}
}

// The error of a problem without a solution names the resource that is lacking.
func TestInfeasible(t *testing.T) {
	node := List{[]string{CPU, "memory"}, []Item{{"n1", []int64{4000, 10}}, {"n2", []int64{4000, 10}}}}
	for _, test := range []struct {
		name     string
		apps     []Item
		resource string
		reason   string
	}{
		{"too large", []Item{{"a", []int64{5000, 1}}}, CPU, "a needs 5 of cpu, the largest node has 4"},
		{"too much", []Item{{"a", []int64{100, 8}}, {"b", []int64{100, 8}}, {"c", []int64{100, 8}}}, "memory", "memory: the applications need 24 in all, the nodes have 20"},
		{"not by pieces", []Item{{"a", []int64{100, 6}}, {"b", []int64{100, 6}}, {"c", []int64{100, 6}}}, "memory", "memory is what lacks: there is enough in all"},
		{"both", []Item{{"a", []int64{3000, 6}}, {"b", []int64{2000, 3}}, {"c", []int64{1000, 6}}, {"d", []int64{2000, 3}}}, "", "cpu and memory do not fit on the nodes together"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Solve(List{node.Resources, test.apps}, node, Nodes)
			no := (*Infeasible)(nil)
			if !errors.As(err, &no) || no.Resource != test.resource || !strings.Contains(no.Reason, test.reason) {
				t.Errorf("%v; want %q, %q", err, test.resource, test.reason)
			}
		})
	}
}

// The solution of a problem that is too large for an exact search respects the capacities, and has a bound.
func TestLargeCase(t *testing.T) {
	apps, nodes := List{Resources: []string{CPU, "memory"}}, List{Resources: []string{CPU, "memory"}}
	for i := range 60 {
		apps.Items = append(apps.Items, Item{fmt.Sprint("a", i), []int64{int64(300 + i*137%1900), int64(10 + i*71%90)}})
	}
	for i := range 20 {
		nodes.Items = append(nodes.Items, Item{fmt.Sprint("n", i), []int64{8000, int64(250 + i%3*100)}})
	}
	for _, goal := range []Goal{Nodes, Sharing} {
		s, err := Solve(apps, nodes, goal)
		if err != nil {
			t.Fatal(err)
		}
		cost, ok := costOf(apps, nodes, s.NodeOf, Nodes)
		if !ok || cost != int64(s.Used) || s.Bound > map[Goal]int64{Nodes: cost, Sharing: s.Shared}[goal] {
			t.Errorf("%v: %d nodes, %v; %+v", goal, cost, ok, *s)
		}
		t.Logf("%v: %d nodes, %dm shared, optimal %v, bound %d, shares least %v", goal, s.Used, s.Shared, s.Optimal, s.Bound, s.SharesLeast)
	}
}
