package hybrid_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// Each case is a rule of the choice of kinds. The machine has 4 P cores of two CPUs (0-7) and 8 E cores (8-15).
func TestKindOrder(t *testing.T) {
	tests := []struct {
		rule           string
		held           []string // exclusive CPUs of containers that are there
		limit          hybrid.Milli
		topologyPolicy hybrid.TopologyPolicy
		want           string
	}{
		{"P cores first", nil, 2000, hybrid.Prefer, "0-1"},
		{"P cores next", []string{"0-1"}, 2000, hybrid.Prefer, "2-3"},
		{"a split P core before an E core", []string{"0-6"}, 1000, hybrid.Prefer, "7"},
		{"E cores instead of a mixture", []string{"0-3"}, 5000, hybrid.Prefer, "8-12"},
		{"E cores instead of a mixture with a fraction", []string{"0-4"}, 3500, hybrid.Prefer, "8-11"},
		{"all P cores with a fraction", nil, 7500, hybrid.Prefer, "0-7"},
		{"a mixture if no kind has room: the P cores, then E cores", nil, 9000, hybrid.Prefer, "0-8"},
		{"a mixture of the rest", []string{"0-5", "8-13"}, 3000, hybrid.Prefer, "6-7,14"},
		{"an L3 domain of P cores", nil, 2000, hybrid.SingleL3, "0-1"},
		{"an L3 domain of E cores", []string{"0-5"}, 3000, hybrid.SingleL3, "8-10"},
		{"a NUMA node, one kind", []string{"0-3"}, 5000, hybrid.SingleNUMA, "8-12"},
		{"a NUMA node, a mixture", []string{"0-3"}, 9000, hybrid.SingleNUMA, "4-12"},
		{"whole P cores", []string{"0"}, 2000, hybrid.WholeCores, "2-3"},
		{"whole E cores for an odd number", nil, 3000, hybrid.WholeCores, "8-10"},
		{"whole E cores instead of a mixture", []string{"0-3"}, 6000, hybrid.WholeCores, "8-13"},
		{"whole cores of both kinds", []string{"8-13"}, 9000, hybrid.WholeCores, "0-7,14"},
		{"no policy: the lowest ids", []string{"0-5"}, 4000, hybrid.NoTopology, "6-9"},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			node := nodeWithExclusive(t, hybridMachine(4, 2, 8), test.held...)
			plan, err := node.Plan(hybrid.Request{ID: "new", Limit: test.limit, Topology: test.topologyPolicy})
			if err != nil {
				t.Fatal(err)
			}
			if got := plan.Grant.CPUs.String(); got != test.want {
				t.Errorf("with %v held: %v gets %s, want %s", test.held, test.limit, got, test.want)
			}
		})
	}
}

// A plan names the kinds of the container's cores.
func TestExplainKinds(t *testing.T) {
	for limit, want := range map[hybrid.Milli]string{2000: "0 cores split, on P cores", 9000: "0 cores split, on P cores and E cores"} {
		node := nodeWithExclusive(t, hybridMachine(4, 2, 8))
		plan, err := node.Plan(hybrid.Request{ID: "new", Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprint(plan.Explain()); !strings.Contains(text, want) {
			t.Errorf("%v: %s; want %q in it", limit, text, want)
		}
	}
}

// The E cores outside of the L3 cache come last, although fewer of them are free.
func TestSlowL3ComesLast(t *testing.T) {
	m := hybridMachine(1, 2, 6) // P core 0-1, E cores 2-5, slow E cores 6-7 outside of the L3
	for i := range m.CPUs {
		c := &m.CPUs[i]
		switch {
		case i < 2:
			c.MaxKHz = 4_500_000
		case i < 6:
			c.MaxKHz = 3_600_000
		default:
			c.MaxKHz, c.L3 = 2_500_000, 1
		}
	}
	index(m)
	for _, policy := range []hybrid.TopologyPolicy{hybrid.Prefer, hybrid.SingleL3} {
		for _, want := range []struct {
			held, cpus string
		}{{"0-1", "2-3"}, {"0-3", "4-5"}, {"0-4", "6-7"}} {
			node := nodeWithExclusive(t, m, want.held)
			plan, err := node.Plan(hybrid.Request{ID: "new", Limit: 2000, Topology: policy})
			if err != nil {
				t.Fatal(err)
			}
			if got := plan.Grant.CPUs.String(); got != want.cpus {
				t.Errorf("%v, %s held: CPUs %s, want %s", policy, want.held, got, want.cpus)
			}
		}
	}
}

// A container that grows retains its kind if the kind has room. A container that shrinks loses the kind with fewer CPUs.
func TestResizeKinds(t *testing.T) {
	for _, test := range []struct {
		name  string
		held  []string // the first set belongs to the container
		limit hybrid.Milli
		want  string
	}{
		{"P cores grow", []string{"0-1"}, 4000, "0-3"},
		{"E cores grow, though P cores are free", []string{"8-9"}, 4000, "8-11"},
		{"P cores are full", []string{"0-1", "2-6"}, 4000, "0-1,7-8"},
		{"a mixture shrinks to P cores", []string{"0-3,8"}, 4000, "0-3"},
		{"a mixture shrinks to E cores", []string{"0,8-11"}, 4000, "8-11"},
	} {
		node := nodeWithExclusive(t, hybridMachine(4, 2, 8), test.held...)
		plan, err := node.PlanResize("held0", test.limit, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := plan.Grant.CPUs.String(); got != test.want {
			t.Errorf("%s: CPUs %s, want %s", test.name, got, test.want)
		}
	}
}

// The fraction of a container stays on the kind of its other CPUs, even if a move to another kind would avoid sharing.
func TestMovesStayOnKind(t *testing.T) {
	for _, immovable := range []bool{false, true} {
		node := nodeWithExclusive(t, hybridMachine(2, 1, 2)) // P 0-1, E 2-3
		mustAllocate(t, node, hybrid.Request{ID: "web", Limit: 1500})
		mustAllocate(t, node, hybrid.Request{ID: "db", Limit: 2000})
		mustAllocate(t, node, hybrid.Request{ID: "cron", Limit: 400, Immovable: immovable})
		checkCPUs(t, node, map[string]string{"web": "0-1", "db": "2-3", "cron": "1"})
		plan, err := node.PlanRelease("db")
		if err != nil {
			t.Fatal(err)
		}
		commit(t, node, plan)
		cron := map[bool]string{false: "2", true: "1"} // a container with a single CPU can change its kind
		checkCPUs(t, node, map[string]string{"web": "0-1", "cron": cron[immovable]})
	}
}

func checkCPUs(t *testing.T, node *hybrid.Node, want map[string]string) {
	t.Helper()
	for id, cpus := range want {
		if g, _ := node.Grant(id); g.CPUs.String() != cpus {
			t.Errorf("%s has CPUs %v, want %s", id, g.CPUs, cpus)
		}
	}
}

// PlanHinted refuses a hint on slower cores.
func TestHintOnSlowCores(t *testing.T) {
	node := nodeWithExclusive(t, hybridMachine(4, 1, 4))
	for list, taken := range map[string]bool{"2-3": true, "4-5": false, "3-4": false} {
		hint := hybrid.Hint{Exclusive: cpuset.MustParse(list)}
		if _, got, err := node.PlanHinted(hybrid.Request{ID: "new", Limit: 2000}, &hint); err != nil || got != taken {
			t.Errorf("%s: taken %v, %v; want %v", list, got, err, taken)
		}
	}
}

// A quote of a hybrid node is direct if a kind has room.
func TestQuoteOfHybridNode(t *testing.T) {
	node := nodeWithExclusive(t, hybridMachine(2, 1, 4))
	for _, limit := range []hybrid.Milli{500, 2000, 3000, 3500, 5000} {
		r := hybrid.Request{ID: "new", Limit: limit}
		q, err := node.Quote(&r)
		plan, planErr := node.Plan(r)
		if err != nil || planErr != nil || !q.Direct || q.Whole != hybrid.Milli(1000*plan.Grant.Exclusive.Count()) {
			t.Errorf("%v: %+v, %v; the plan is %v, %v", limit, q, err, plan.Grant.CPUs, planErr)
		}
		var s hybrid.Summary
		node.Summarize(&s)
		if _, verdict := s.Quote(&r); verdict != hybrid.Unknown {
			t.Errorf("%v: verdict %v of a summary, which has no kinds", limit, verdict)
		}
	}
}

// TestKindsRandom compares each placement of a strict container on a hybrid node with all kinds: the CPUs are of a
// single kind if a kind has room, and no other kind leads to less shared time or is faster for the same shared time.
// Moves are forbidden and there are no flexible containers, so that the shared time is easy to compute.
func TestKindsRandom(t *testing.T) {
	single, mixed := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		m := drawMachine(rt)
		if len(m.Kinds) == 0 {
			drawKinds(rt, m)
		}
		o := hybrid.Options{Moves: hybrid.NoMoves, RescueMoves: hybrid.NoMoves}
		h := newHistory(rt, m, o)
		for i := range rapid.IntRange(1, 30).Draw(rt, "operations") {
			before := h.state()
			if len(before.grants) > 0 && rapid.IntRange(0, 3).Draw(rt, "release") == 0 {
				h.release(rapid.SampledFrom(before.grants).Draw(rt, "container").ID)
				continue
			}
			r := hybrid.Request{ID: fmt.Sprint("c", i), Limit: drawLimit(rt, before.usable.Count())}
			plan, err := h.node.Plan(r)
			if err != nil {
				continue
			}
			plan = plan.Clone()
			commit(t, h.node, plan)
			kinds := kindsOf(m, plan.Grant.CPUs)
			best, added := bestKind(before, r.Limit)
			switch {
			case best < 0 && len(kinds) > 1:
				mixed++
			case best < 0:
				rt.Fatalf("%v has CPUs %v of one kind, but no kind has room in\n%v", r.Limit, plan.Grant.CPUs, before)
			case len(kinds) > 1:
				rt.Fatalf("%v has CPUs %v of several kinds, but kind %d has room in\n%v", r.Limit, plan.Grant.CPUs, best, before)
			case kinds[0] != best || plan.Shared-plan.SharedBefore != added:
				rt.Fatalf("%v has CPUs %v and adds %v of shared time; kind %d adds %v in\n%v",
					r.Limit, plan.Grant.CPUs, plan.Shared-plan.SharedBefore, best, added, before)
			default:
				single++
			}
		}
	})
	t.Logf("%d containers on a single kind, %d on several", single, mixed)
	if min(single, mixed) == 0 && !testing.Short() { // -short draws few cases
		t.Error("one of these never happened")
	}
}

// bestKind returns the kind on which a container adds the least shared time, the fastest of equals, and the added
// time. kind is -1 if no kind has room. It tries every kind and every CPU for the fraction.
func bestKind(s state, limit hybrid.Milli) (kind int, added hybrid.Milli) {
	whole, fraction := int(limit/1000), limit%1000
	kind = -1
	kinds := s.machine.Kinds
	if len(kinds) == 0 {
		kinds = []topology.Kind{{CPUs: s.machine.Online}}
	}
	for i := range kinds {
		free := s.pools.Shared.CountIn(&kinds[i].CPUs)
		if free < whole {
			continue
		}
		least := hybrid.Milli(-1)
		if fraction == 0 || free > whole {
			least = 0 // the fraction has a CPU of its own
		} else {
			for cpu := range s.pools.Fractional.Intersect(kinds[i].CPUs).All() {
				_, used := s.sensitiveOn(cpu)
				cost := fraction
				if s.holders(cpu) == 1 {
					cost += used
				}
				if used+fraction <= 1000 && (least < 0 || cost < least) {
					least = cost
				}
			}
		}
		if least >= 0 && (kind < 0 || least < added) {
			kind, added = i, least
		}
	}
	return kind, added
}

// kindsOf returns the indexes of the kinds of some CPUs.
func kindsOf(m *topology.Machine, cpus cpuset.Set) (kinds []int) {
	for i := range max(1, len(m.Kinds)) {
		if len(m.Kinds) == 0 || m.Kinds[i].CPUs.Overlaps(&cpus) {
			kinds = append(kinds, i)
		}
	}
	return kinds
}

// The property of TestKindsRandom holds in histories with moves, flexible containers and all policies, too: a container
// never gets a mixture of kinds while a kind has enough CPUs without any container. A move never makes a mixture.
func TestNoMixtureWithoutNeed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := drawMachine(rt)
		if len(m.Kinds) == 0 {
			drawKinds(rt, m)
		}
		h := newHistory(rt, m, drawOptions(rt, m, hybrid.Candor))
		for range rapid.IntRange(1, 60).Draw(rt, "operations") {
			before := h.state()
			h.apply(drawOperation(rt, before))
			after := h.state()
			for _, g := range after.grants {
				if g.Class == hybrid.Flexible || g.Topology == hybrid.NoTopology || len(kindsOf(m, g.CPUs)) == 1 {
					continue
				}
				i := find(before.grants, g.ID)
				if i >= 0 && g.Policy == hybrid.Strict && len(kindsOf(m, before.grants[i].CPUs)) == 1 && before.grants[i].Limit == g.Limit {
					rt.Fatalf("%s was on one kind, and has CPUs %v now", grantString(before.grants[i]), g.CPUs)
				}
				if i < 0 && !hasFlexible(before) {
					checkMixture(rt, before, g)
				}
			}
		}
	})
}

// checkMixture fails the test if a new container has CPUs of several kinds, although a kind had enough shared CPUs.
// With the topology policy whole-cores, the shared CPUs can be on split cores, and with single-numa in another node.
func checkMixture(t *rapid.T, before state, g hybrid.Grant) {
	t.Helper()
	if !g.IsPlain() {
		return
	}
	for i, k := range before.machine.Kinds {
		if before.pools.Shared.CountIn(&k.CPUs) >= ceil(g.Limit) {
			t.Fatalf("%s: kind %d had room in\n%v", grantString(g), i, before)
		}
	}
}

func hasFlexible(s state) bool {
	for _, g := range s.grants {
		if g.Class == hybrid.Flexible {
			return true
		}
	}
	return false
}
