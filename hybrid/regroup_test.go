package hybrid_test

import (
	"errors"
	"testing"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// withFraction returns the grant of a container that has whole CPUs and a fraction on a CPU.
func withFraction(id string, exclusive string, cpu int, milli hybrid.Milli) hybrid.Grant {
	own, err := cpuset.Parse(exclusive)
	if err != nil {
		panic(err)
	}
	return hybrid.Grant{
		Request:   hybrid.Request{ID: id, Limit: hybrid.Milli(1000*own.Count()) + milli},
		CPUs:      own.Union(cpuset.Of(cpu)),
		Exclusive: own,
		Fractions: []hybrid.Fraction{{CPU: cpu, Milli: milli}},
	}
}

func restored(t testing.TB, machine string, o hybrid.Options, grants ...hybrid.Grant) *hybrid.Node {
	t.Helper()
	node, err := hybrid.NewNode(parse(t, machine), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Restore(grants); err != nil {
		t.Fatal(err)
	}
	return node
}

// Fractions leave a domain if a flexible container with this topology policy would otherwise be refused.
func TestFlexibleDomainMovesFractions(t *testing.T) {
	for _, test := range []struct {
		machine        string
		topologyPolicy hybrid.TopologyPolicy
		request        hybrid.Milli
		grants         []hybrid.Grant
	}{
		{"numa:2 core:2", hybrid.SingleNUMA, 2000, []hybrid.Grant{withFraction("a", "", 0, 300), withFraction("b", "", 2, 300)}},
		{"numa:1 l3:2 core:2", hybrid.SingleL3, 1900, []hybrid.Grant{withFraction("a", "", 0, 300), withFraction("b", "", 2, 300)}},
		{"core:2 pu:2", hybrid.WholeCores, 2000, []hybrid.Grant{withFraction("a", "", 0, 300), withFraction("b", "", 1, 300)}},
	} {
		t.Run(test.topologyPolicy.String(), func(t *testing.T) {
			request := hybrid.Request{ID: "new", Class: hybrid.Flexible, Limit: test.request, Topology: test.topologyPolicy}
			still := restored(t, test.machine, hybrid.Options{RescueMoves: hybrid.NoMoves}, test.grants...)
			_, err := still.Plan(request)
			wantRefusal(t, err, "new", hybrid.ErrNoCapacity, test.topologyPolicy.String())

			node := restored(t, test.machine, hybrid.Options{}, test.grants...)
			plan, err := node.Plan(request)
			if err != nil {
				t.Fatal(err)
			}
			if plan.Moves != 1 || plan.Grant.CPUs.Count() != 2 || !plan.Grant.TopologyMet {
				t.Errorf("%d moves, CPUs %v, policy met %v; want one move and a domain of 2 CPUs", plan.Moves, plan.Grant.CPUs, plan.Grant.TopologyMet)
			}
		})
	}
}

// The fractions of a domain are repacked for a container that may have only CPUs of this domain.
func TestRepackInDomain(t *testing.T) {
	// Node 0 has 4 CPUs with 600+300, 600+300, 700, 200: one CPU more is free only if 700+300, 600+200 … are put together.
	node := restored(t, "numa:2 core:4", hybrid.Options{},
		withFraction("a", "", 0, 600), withFraction("b", "", 0, 300), withFraction("c", "", 1, 600), withFraction("d", "", 1, 300),
		withFraction("e", "", 2, 700), withFraction("f", "", 3, 400),
		withFraction("far", "4-6", 7, 999))
	plan, err := node.Plan(hybrid.Request{ID: "new", Limit: 1000, Topology: hybrid.SingleNUMA})
	if err != nil {
		t.Fatal(err)
	}
	if first := cpuset.Range(0, 3); !plan.Grant.CPUs.SubsetOf(&first) || plan.Moves == 0 {
		t.Errorf("CPUs %v with %d moves, want one of 0-3, emptied by moves", plan.Grant.CPUs, plan.Moves)
	}
}

// On a node that has lost CPUs and has less capacity than its containers need, containers can still shrink and be released.
func TestShrinkOnOverpromisedNode(t *testing.T) {
	grants := []hybrid.Grant{
		{Request: hybrid.Request{ID: "a", Limit: 3000}, CPUs: cpuset.Range(0, 2), Exclusive: cpuset.Range(0, 2)},
		{Request: hybrid.Request{ID: "flexible", Class: hybrid.Flexible, Limit: 4000}, CPUs: cpuset.Range(3, 7)},
	}
	for _, topologyPolicy := range []hybrid.TopologyPolicy{hybrid.Prefer, hybrid.SingleNUMA} {
		t.Run(topologyPolicy.String(), func(t *testing.T) {
			grants[1].Topology = topologyPolicy
			node := restored(t, "core:8", hybrid.Options{Usable: cpuset.Range(0, 4)}, grants...)
			if _, err := node.PlanResize("a", 4000, 0); err == nil {
				t.Error("grows on a node that has promised too much")
			}
			plan, err := node.PlanResize("a", 2000, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := node.Commit(plan); err != nil {
				t.Fatal(err)
			}
			if grant, _ := node.Grant("flexible"); grant.CPUs != cpuset.Range(2, 4) {
				t.Errorf("the flexible container has CPUs %v, want 2-4", grant.CPUs)
			}
			if _, err := node.PlanResize("flexible", 1000, 0); err != nil {
				t.Error(err)
			}
		})
	}
}

// A best-effort container on whole cores retains its CPUs at a resize. If no whole cores are free, it grows without its topology policy.
func TestWholeCoresResizeFallsBack(t *testing.T) {
	for _, policy := range []hybrid.Policy{hybrid.Strict, hybrid.BestEffort} {
		t.Run(policy.String(), func(t *testing.T) {
			node, err := hybrid.NewNode(parse(t, "core:3 pu:2"), hybrid.Options{})
			if err != nil {
				t.Fatal(err)
			}
			mustAllocate(t, node, hybrid.Request{ID: "a", Limit: 2000, Topology: hybrid.WholeCores, Policy: policy})
			mustAllocate(t, node, hybrid.Request{ID: "b", Limit: 2000, Topology: hybrid.WholeCores})
			mustAllocate(t, node, hybrid.Request{ID: "c", Limit: 1000})
			plan, err := node.PlanResize("a", 3000, 0)
			if policy == hybrid.Strict {
				wantRefusal(t, err, "a", hybrid.ErrViewImpossible, "whole-cores")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !plan.Before.CPUs.SubsetOf(&plan.Grant.CPUs) || plan.Grant.CPUs.Count() != 3 || plan.Grant.TopologyMet {
				t.Errorf("from %v to %v, policy met %v: want one CPU more, without the topology policy", plan.Before.CPUs, plan.Grant.CPUs, plan.Grant.TopologyMet)
			}
		})
	}
}

// If a container with an immovable fraction grows, it stays in the domain of the fraction.
func TestImmovableFractionStaysInDomain(t *testing.T) {
	small := withFraction("a", "", 3, 100)
	small.Immovable, small.Topology = true, hybrid.SingleNUMA
	node := restored(t, "numa:2 core:3", hybrid.Options{}, small, hybrid.Grant{
		Request: hybrid.Request{ID: "b", Limit: 1000}, CPUs: cpuset.Of(4), Exclusive: cpuset.Of(4)})
	plan, err := node.PlanResize("a", 1100, 0)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Grant.CPUs != cpuset.Of(3, 5) {
		t.Errorf("CPUs %v, want 3 and 5", plan.Grant.CPUs)
	}
	_, err = node.PlanResize("a", 2100, 0)
	wantRefusal(t, err, "a", hybrid.ErrViewImpossible, "single-numa")
}

// A fraction moves to the nearest of equally good CPUs.
func TestMovesStayNear(t *testing.T) {
	// "a" shares CPU 4 with "b" until "c" leaves; then CPU 1, near to the whole CPU of "a", and CPU 5 are free.
	node := restored(t, "numa:2 core:4", hybrid.Options{Moves: 1, Reserved: cpuset.Of(2, 3, 6, 7)},
		withFraction("a", "0", 4, 300), withFraction("b", "", 4, 300),
		hybrid.Grant{Request: hybrid.Request{ID: "c", Limit: 2000}, CPUs: cpuset.Of(1, 5), Exclusive: cpuset.Of(1, 5)})
	plan, err := node.PlanRelease("c")
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Others) != 1 || plan.Others[0].After.ID != "a" || plan.Others[0].After.CPUs != cpuset.Of(0, 1) {
		t.Errorf("moves %v, want the fraction of a on CPU 1", plan.Others)
	}
}

// Each refusal names the missing resource in its fields.
func TestRefusalCauses(t *testing.T) {
	half := []hybrid.Grant{withFraction("a", "", 0, 600), withFraction("b", "", 1, 600), withFraction("c", "", 2, 600), withFraction("d", "", 3, 600)}
	for _, test := range []struct {
		machine string
		grants  []hybrid.Grant
		request hybrid.Request
		want    hybrid.Refusal // the fields that decide
	}{
		{"core:4", nil, hybrid.Request{Limit: 5000}, hybrid.Refusal{Cause: hybrid.CauseTime, Wanted: 5000, Remaining: 4000}},
		{"core:4", half, hybrid.Request{Limit: 1000}, hybrid.Refusal{Cause: hybrid.CauseWhole, Wanted: 1000, Whole: 1, Room: 400}},
		{"core:4", half, hybrid.Request{Limit: 500}, hybrid.Refusal{Cause: hybrid.CauseFraction, Wanted: 500, Fraction: 500, Room: 400}},
		{"numa:2 core:2", nil, hybrid.Request{Limit: 3000, Topology: hybrid.SingleNUMA}, hybrid.Refusal{Cause: hybrid.CauseTopology, Wanted: 3000, Whole: 3, Domain: 2}},
		{"numa:2 core:2", nil, hybrid.Request{Limit: 3000, Topology: hybrid.SingleL3}, hybrid.Refusal{Cause: hybrid.CauseTopology, Wanted: 3000, Whole: 3, Domain: 2}},
		{"core:2 pu:2", half[:1], hybrid.Request{Limit: 3000, Topology: hybrid.WholeCores}, hybrid.Refusal{Cause: hybrid.CauseTopology, Wanted: 3000, Whole: 3, Domain: 2, Room: 400}},
		{"numa:2 core:2", nil, hybrid.Request{Limit: 3000, Topology: hybrid.SingleNUMA, Class: hybrid.Flexible}, hybrid.Refusal{Cause: hybrid.CauseTopology, Wanted: 3000, Domain: 2}},
		{"core:1", []hybrid.Grant{{Request: hybrid.Request{ID: "flexible", Class: hybrid.Flexible}, CPUs: cpuset.Of(0)}}, hybrid.Request{Limit: 1000},
			hybrid.Refusal{Cause: hybrid.CauseFlexible, Wanted: 1000, Whole: 1}},
	} {
		t.Run(test.want.Cause.String(), func(t *testing.T) {
			test.request.ID = "new"
			_, err := restored(t, test.machine, hybrid.Options{}, test.grants...).Plan(test.request)
			var got *hybrid.Refusal
			if !errors.As(err, &got) {
				t.Fatalf("error %v, want a refusal", err)
			}
			decisive := hybrid.Refusal{Cause: got.Cause, Wanted: got.Wanted, Remaining: got.Remaining, Whole: got.Whole,
				Fraction: got.Fraction, Room: got.Room, Domain: got.Domain}
			if decisive != test.want {
				t.Errorf("%v: %+v, want %+v", err, decisive, test.want)
			}
			if steps := got.Explain(); len(steps) != 1 || steps[0].Kind != test.want.Cause.String() || steps[0].Text != got.Reason() {
				t.Errorf("explains itself as %v", steps)
			}
		})
	}
}
