package hybrid_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/hybrid"
)

// Cost, Place and Remove have the same effect as Plan and Commit, on nodes that share planning memory.
func TestDirect(t *testing.T) {
	placed, refused, moved := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		m := drawMachine(rt)
		o := drawOptions(rt, m, hybrid.Algorithm(rapid.IntRange(0, 1).Draw(rt, "algorithm")))
		h := newHistory(rt, m, o)
		direct := h.node.NewLike()
		handles := map[string]hybrid.Handle{}
		busy := h.node.NewLike() // plans in between, in the same memory
		for range rapid.IntRange(1, 60).Draw(rt, "operations") {
			op := drawOperation(rt, h.state())
			if op.kind != hybrid.OpAllocate && op.kind != hybrid.OpRelease {
				continue
			}
			plan, err := op.plan(h.node)
			if err == nil {
				plan = plan.Clone()
			}
			busy.Cost(&hybrid.Request{ID: "busy", Limit: 100})
			var cost hybrid.Cost
			if op.kind == hybrid.OpAllocate {
				before := stateOf(direct, m, o).String()
				would, wouldErr := direct.Cost(&op.request)
				if after := stateOf(direct, m, o).String(); after != before {
					rt.Fatalf("%v: Cost changed the node from\n%sto\n%s", op, before, after)
				}
				handle, got, directErr := direct.Place(&op.request)
				if cost = got; directErr == nil {
					handles[op.request.ID] = handle
				}
				if cost != would || wouldErr != directErr || (err == nil) != (directErr == nil) || err != nil && !errors.Is(err, directErr) {
					rt.Fatalf("%v: Cost returns %+v, %v; Place %+v, %v; Plan %v", op, would, wouldErr, cost, directErr, err)
				}
			} else {
				handle, ok := handles[op.request.ID]
				again := false
				if ok {
					cost, ok = direct.Remove(handle)
					_, again = direct.Remove(handle)
				}
				if delete(handles, op.request.ID); again || ok != (err == nil) {
					rt.Fatalf("%v: Remove %v, PlanRelease %v", op, ok, err)
				}
			}
			if err != nil {
				refused++
				continue
			}
			if err := h.node.Commit(plan); err != nil {
				rt.Fatal(err)
			}
			placed++
			moved += plan.Moves
			checkCost(rt, op, plan, cost)
			if got, want := stateOf(direct, m, o).String(), h.state().String(); got != want {
				rt.Fatalf("%v: done directly\n%splanned and committed\n%s", op, got, want)
			}
		}
	})
	t.Logf("%d done, %d refused, %d fractions moved", placed, refused, moved)
	if min(placed, refused) == 0 { // moves are rare in few histories: see TestDirectMove
		t.Error("no operation was placed, or none was refused")
	}
}

// Place and Plan report the same move of another container.
func TestDirectMove(t *testing.T) {
	node := newNode(t, 2, hybrid.Options{})
	direct := node.NewLike()
	for _, r := range []hybrid.Request{{ID: "a", Limit: 300}, {ID: "b", Limit: 300}, {ID: "c", Limit: 1000}} {
		plan, err := node.Plan(r)
		if err != nil {
			t.Fatal(err)
		}
		plan = plan.Clone()
		_, cost, err := direct.Place(&r)
		if err != nil || cost.Moves != plan.Moves || (cost.Moves == 1) != (r.ID == "c") {
			t.Errorf("%s: cost %+v, %v; the plan has %d moves", r.ID, cost, err, plan.Moves)
		}
		if err := node.Commit(plan); err != nil {
			t.Fatal(err)
		}
	}
}

func checkCost(t *rapid.T, op operation, plan *hybrid.Plan, cost hybrid.Cost) {
	want := hybrid.Cost{Shared: plan.Shared - plan.SharedBefore, FreeWhole: cost.FreeWhole, Moves: plan.Moves}
	if op.kind == hybrid.OpAllocate {
		want.Whole = hybrid.Milli(1000 * plan.Grant.Exclusive.Count())
		want.NUMAs, want.L3s, want.Splits = cost.NUMAs, cost.L3s, cost.Splits
		if sensitive := op.request.Class == hybrid.Sensitive; sensitive != (cost.NUMAs > 0 && cost.L3s > 0) {
			t.Fatalf("%v: %+v", op, cost)
		}
	}
	if cost != want {
		t.Fatalf("%v: cost %+v, want %+v", op, cost, want)
	}
}

// An immovable container retains its fraction at a resize, even if cores for its topology policy have
// become free.
func TestResizeOfImmovable(t *testing.T) {
	n := newNode(t, 2, hybrid.Options{})
	var handles []hybrid.Handle
	for _, r := range []hybrid.Request{
		{ID: "x", Limit: 1000}, {ID: "y", Limit: 500},
		{ID: "z", Limit: 100, Policy: hybrid.BestEffort, Topology: hybrid.WholeCores, Immovable: true},
	} {
		handle, _, err := n.Place(&r)
		if err != nil {
			t.Fatal(err)
		}
		handles = append(handles, handle)
	}
	before := n.Grants()[2]
	n.Remove(handles[0])
	p, err := n.PlanResize("z", 120, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Commit(p); err != nil {
		t.Fatal(err)
	}
	for _, g := range n.Grants() {
		if g.ID == "z" && (len(g.Fractions) != 1 || g.Fractions[0].Milli != 120 || g.CPUs != before.CPUs) {
			t.Errorf("%+v, want 120m where it was: %+v", g, before)
		}
	}
}

// An immovable container that grows can get the whole CPU of its fraction, if its fraction then fits on another CPU. It does so also if a
// best-effort container could keep its fraction and would see more CPUs (three CPUs).
func TestGrowOnImmovableFraction(t *testing.T) {
	for _, cpus := range []int{2, 3} {
		for _, policy := range []hybrid.Policy{hybrid.Strict, hybrid.BestEffort} {
			n := newNode(t, cpus, hybrid.Options{MinShared: 1})
			for _, id := range []string{"a", "b", "c"}[:cpus] {
				mustAllocate(t, n, hybrid.Request{ID: id, Limit: 10, Policy: policy, Immovable: true})
			}
			before := n.Grants()
			p, err := n.PlanResize("a", 1010, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := n.Commit(p); err != nil {
				t.Fatal(err)
			}
			after := n.Grants()
			if a := after[0]; a.Exclusive != before[0].CPUs || len(a.Fractions) != 1 || a.CPUs.Count() != 2 {
				t.Errorf("%d CPUs, %v: %+v, then %+v", cpus, policy, before[0], a)
			}
			for i, g := range after[1:] {
				if g.CPUs != before[i+1].CPUs {
					t.Errorf("%d CPUs, %v: another container moved: %+v, then %+v", cpus, policy, before[i+1], g)
				}
			}
		}
	}
}

// A best-effort container that cannot get a view of its limit keeps its immovable fraction: without whole CPUs, it gets fractions of other
// CPUs in addition.
func TestImmovableFractionOfWideView(t *testing.T) {
	n := newNode(t, 3, hybrid.Options{MinShared: 1})
	mustAllocate(t, n, hybrid.Request{ID: "a", Limit: 10, Policy: hybrid.BestEffort, Immovable: true})
	for _, id := range []string{"x", "y", "z"} {
		mustAllocate(t, n, hybrid.Request{ID: id, Limit: 500, Immovable: true})
	}
	before := n.Grants()[0]
	p, err := n.PlanResize("a", 1010, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Commit(p); err != nil {
		t.Fatal(err)
	}
	after := n.Grants()[0]
	if after.CPUs.Count() != 3 || !slices.Contains(after.Fractions, before.Fractions[0]) {
		t.Errorf("%+v, then %+v", before, after)
	}
}

// Nodes from NewLike share planning memory: a plan becomes stale when another node plans, unless it is
// a clone.
func TestPlanStaleAfterSharedScratch(t *testing.T) {
	node := newNode(t, 4, hybrid.Options{})
	twin := node.NewLike()
	for _, clone := range []bool{false, true} {
		plan, err := node.Plan(hybrid.Request{ID: "web", Limit: 1500})
		if err != nil {
			t.Fatal(err)
		}
		if clone {
			plan = plan.Clone()
		}
		if _, _, err := twin.Place(&hybrid.Request{Limit: 500}); err != nil {
			t.Fatal(err)
		}
		if err := node.Commit(plan); clone != (err == nil) || !clone && !errors.Is(err, hybrid.ErrStalePlan) {
			t.Errorf("cloned %v: commit returns %v", clone, err)
		}
	}
	if g, ok := node.Grant("web"); !ok || g.CPUs.Count() != 2 {
		t.Errorf("the clone gave %+v, %v", g, ok)
	}
}

// A cost contains the number of NUMA nodes, L3 domains and split cores.
func TestCostTopology(t *testing.T) {
	for _, test := range []struct {
		machine            string
		limit              hybrid.Milli
		numas, l3s, splits int
	}{
		{"core:4 pu:1", 2500, 1, 1, 0},
		{"core:4 pu:2", 1000, 1, 1, 1},
		{"core:4 pu:2", 2000, 1, 1, 0},
		{"numa:2 core:4 pu:1", 5000, 2, 2, 0},
		{"numa:2 core:4 pu:1", 3500, 1, 1, 0},
	} {
		n, err := hybrid.NewNode(parse(t, test.machine), hybrid.Options{})
		if err != nil {
			t.Fatal(err)
		}
		cost, err := n.Cost(&hybrid.Request{Limit: test.limit})
		if err != nil || cost.NUMAs != test.numas || cost.L3s != test.l3s || cost.Splits != test.splits {
			t.Errorf("%s on %s: %+v, %v; want %d NUMA nodes, %d L3 domains, %d split cores", test.limit, test.machine, cost, err, test.numas, test.l3s, test.splits)
		}
	}
	n := newNode(t, 4, hybrid.Options{})
	if cost, err := n.Cost(&hybrid.Request{Class: hybrid.Flexible, Limit: 1000}); err != nil || cost.NUMAs != 0 || cost.L3s != 0 {
		t.Errorf("a flexible container: %+v, %v; want no domain: it has no CPUs of its own", cost, err)
	}
}

// NextHandle predicts the handle of the next container: for new slots, reused slots, and slots beyond
// those inside a small node. Prefetching changes nothing, for any handle.
func TestNextHandle(t *testing.T) {
	n := newNode(t, 16, hybrid.Options{}).NewLike()
	var running []hybrid.Handle
	for i := range 300 {
		if i%3 == 2 {
			at := i * 7 % len(running)
			if _, ok := n.Remove(running[at]); !ok {
				t.Fatalf("container %d is not there", running[at])
			}
			running = append(running[:at], running[at+1:]...)
			continue
		}
		want := n.NextHandle()
		for _, h := range []hybrid.Handle{want, 0, -1, 1 << 30} {
			n.PrefetchContainer(h)
		}
		n.Prefetch()
		got, _, err := n.Place(&hybrid.Request{Class: hybrid.Flexible, Guarantee: hybrid.NoGuarantee})
		if err != nil || got != want {
			t.Fatalf("handle %d, %v; want %d", got, err, want)
		}
		running = append(running, got)
	}
	if n.Len() != len(running) || n.Len() != 100 {
		t.Errorf("%d containers, want %d", n.Len(), len(running))
	}
	for range running {
		n.Remove(n.Oldest())
	}
	if n.Len() != 0 || n.Oldest() != 0 {
		t.Errorf("%d containers remain, the oldest %d", n.Len(), n.Oldest())
	}
}
