package hybrid_test

import (
	"slices"
	"testing"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// goodState is a state that meets every invariant. It has 8 CPUs on 4 cores (0 and 4, 1 and 5, …) and two NUMA nodes.
func goodState() state {
	request := func(id string, class hybrid.Class, limit hybrid.Milli) hybrid.Request {
		return hybrid.Request{ID: id, Class: class, Limit: limit}
	}
	shared := cpuset.Of(2, 3, 7)
	s := state{machine: shape{2, 1, 1, 2, 2}.machine(), usable: cpuset.Range(0, 7), flexible: shared,
		shared: 200, sensitive: 4200,
		pools: hybrid.Pools{Exclusive: cpuset.Of(0, 4, 5), Fractional: cpuset.Of(1, 6, 7), Shared: cpuset.Of(2, 3)}}
	s.grants = []hybrid.Grant{
		{Request: request("whole", hybrid.Sensitive, 2000), CPUs: cpuset.Of(0, 4), Exclusive: cpuset.Of(0, 4), Weight: 2000},
		{Request: request("mixed", hybrid.Sensitive, 1500), CPUs: cpuset.Of(1, 5), Exclusive: cpuset.Of(5), Fractions: []hybrid.Fraction{{CPU: 1, Milli: 500}}, Quota: 1500, Weight: 1000},
		{Request: request("part", hybrid.Sensitive, 200), CPUs: cpuset.Of(7), Fractions: []hybrid.Fraction{{CPU: 7, Milli: 200}}, Quota: 200, Weight: 200},
		{Request: request("alone", hybrid.Sensitive, 500), CPUs: cpuset.Of(6), Fractions: []hybrid.Fraction{{CPU: 6, Milli: 500}}, Quota: 500, Weight: 500},
		{Request: request("batch", hybrid.Flexible, 2500), CPUs: shared, Quota: 2500, Weight: 2500},
		{Request: request("free", hybrid.Flexible, 0), CPUs: shared, Weight: 10},
	}
	s.grants[0].Topology = hybrid.WholeCores
	return s
}

// The invariant checker reports deliberately broken nodes.
func TestInvariantChecker(t *testing.T) {
	if s := goodState(); s.invariants() != nil || s.checkThrift() != nil {
		t.Fatalf("the good state: %v, %v\n%v", s.invariants(), s.checkThrift(), s)
	}
	const whole, mixed, part, alone, batch, free = 0, 1, 2, 3, 4, 5
	tests := map[string]func(s *state){
		"usable":                     func(s *state) { s.options.Reserved = cpuset.Of(3) },
		"isolated":                   func(s *state) { s.machine.Isolated = cpuset.Of(3) },
		"pool of an exclusive CPU":   func(s *state) { s.pools.Exclusive.Remove(5); s.pools.Shared.Add(5) },
		"pool of a fractional CPU":   func(s *state) { s.pools.Fractional.Remove(1) },
		"a CPU in two pools":         func(s *state) { s.pools.Fractional.Add(2) },
		"id twice":                   func(s *state) { s.grants[part].ID = "whole" },
		"cpuset":                     func(s *state) { s.grants[part].CPUs.Add(6) },
		"view too small":             func(s *state) { s.grants[whole].Exclusive.Remove(4); s.grants[whole].CPUs.Remove(4) },
		"limit":                      func(s *state) { s.grants[mixed].Limit = 1600; s.sensitive += 100 },
		"fraction of 1000m":          func(s *state) { s.grants[alone].Fractions[0].Milli, s.grants[alone].Limit = 1000, 1000 },
		"order of fractions":         func(s *state) { g := &s.grants[mixed]; g.Fractions = append(g.Fractions, g.Fractions[0]) },
		"no quota":                   func(s *state) { s.grants[mixed].Quota = 0 },
		"a quota too much":           func(s *state) { s.grants[whole].Quota = 2000 },
		"no quota, flexible":         func(s *state) { s.grants[batch].Quota = 0 },
		"weight of a shared":         func(s *state) { s.grants[part].Weight = 201 },
		"weight of a flexible":       func(s *state) { s.grants[batch].Weight = 1000 },
		"weight 0":                   func(s *state) { s.grants[free].Weight = 0 },
		"exclusive in two cpusets":   func(s *state) { s.grants[batch].CPUs.Add(5); s.grants[free].CPUs.Add(5); s.flexible.Add(5) },
		"flexible ones apart":        func(s *state) { s.grants[free].CPUs.Remove(2) },
		"flexible CPUs of the node":  func(s *state) { s.flexible.Add(1) },
		"flexible with nothing":      func(s *state) { s.grants[free].CPUs = cpuset.Set{} },
		"flexible with an exclusive": func(s *state) { s.grants[free].Exclusive = cpuset.Of(2) },
		"guarantees":                 func(s *state) { g := &s.grants[batch]; g.Limit, g.Quota, g.Weight = 2801, 2801, 2801 },
		"min-shared of the node":     func(s *state) { s.options.MinShared = 3801 },
		"min-shared of the CPUs":     func(s *state) { s.options.MinShared = 2801 },
		"shared time":                func(s *state) { s.shared = 0 },
		"sum of limits":              func(s *state) { s.sensitive-- },
		"single NUMA node":           func(s *state) { s.grants[mixed].Topology = hybrid.SingleNUMA; swapCPU(s, mixed, 1, 2) },
		"single L3, flexible":        func(s *state) { s.grants[free].Topology = hybrid.SingleL3; s.grants[free].CPUs = cpuset.Of(1, 2, 3, 7) },
		"whole cores":                func(s *state) { s.grants[part].Topology = hybrid.WholeCores },
		"thrift": func(s *state) {
			s.grants[whole].Topology = hybrid.Prefer
			g := &s.grants[batch]
			g.Limit, g.Quota, g.Weight = 2000, 2000, 2000
		},
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			s := goodState()
			spoil(&s)
			err := s.invariants()
			if err == nil {
				err = s.checkThrift()
			}
			if err == nil {
				t.Errorf("nothing is noticed in\n%v", s)
			}
		})
	}
}

// swapCPU moves a container's fraction, and adjusts the pools and the cpusets.
func swapCPU(s *state, grant, from, to int) {
	g := &s.grants[grant]
	g.Fractions[0].CPU = to
	g.CPUs.Remove(from)
	g.CPUs.Add(to)
	for _, set := range []*cpuset.Set{&s.pools.Shared, &s.flexible, &s.grants[4].CPUs, &s.grants[5].CPUs} {
		set.Remove(to)
		set.Add(from)
	}
	s.pools.Fractional.Remove(from)
	s.pools.Fractional.Add(to)
}

// The transition checker reports plans that break promises to other containers.
func TestTransitionChecker(t *testing.T) {
	op := operation{hybrid.OpRelease, hybrid.Request{ID: "alone"}}
	tests := map[string]func(plan *hybrid.Plan, after *state){
		"good":                func(plan *hybrid.Plan, after *state) {},
		"wrong kind":          func(plan *hybrid.Plan, after *state) { plan.Op = hybrid.OpAllocate },
		"wrong shared time":   func(plan *hybrid.Plan, after *state) { plan.Shared++ },
		"wrong grant":         func(plan *hybrid.Plan, after *state) { plan.Grant = after.grants[0] },
		"too many moves":      func(plan *hybrid.Plan, after *state) { plan.Moves = 3 },
		"a move not told":     func(plan *hybrid.Plan, after *state) { after.grants[2].Fractions[0].CPU = 6 },
		"moves too few":       func(plan *hybrid.Plan, after *state) { move(plan, after, 2, 6); plan.Moves = 0 },
		"a move of immovable": func(plan *hybrid.Plan, after *state) { move(plan, after, 2, 6); plan.Others[0].Before.Immovable = true },
		"told twice": func(plan *hybrid.Plan, after *state) {
			move(plan, after, 2, 6)
			plan.Others = slices.Repeat(plan.Others, 2)
		},
		"exclusive CPU moves": func(plan *hybrid.Plan, after *state) { after.grants[0].Exclusive = cpuset.Of(0, 6) },
		"a view grows":        func(plan *hybrid.Plan, after *state) { after.grants[2].CPUs.Add(6) },
		"order of arrival":    func(plan *hybrid.Plan, after *state) { slices.Reverse(after.grants) },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			before, after := goodState(), goodState()
			before.options.Moves, after.options.Moves = 2, 2
			after.grants = slices.Delete(after.grants, 3, 4)
			plan := &hybrid.Plan{Op: op.kind, Grant: before.grants[3], SharedBefore: before.shared, Shared: after.shared}
			spoil(plan, &after)
			if len(plan.Others) == 1 && plan.Others[0].Before.Immovable {
				before.grants[2].Immovable, after.grants[2].Immovable = true, true
				plan.Others[0].After.Immovable = true
			}
			if err := checkTransition(op, plan, before, after); (err == nil) != (name == "good") {
				t.Errorf("found: %v", err)
			}
		})
	}
}

// move moves a grant's fraction, and adds the move to the plan.
func move(plan *hybrid.Plan, after *state, grant, to int) {
	g := &after.grants[grant]
	before := cloneGrant(*g)
	g.Fractions[0].CPU, g.CPUs = to, cpuset.Of(to)
	plan.Others = append(plan.Others, hybrid.Change{Before: before, After: cloneGrant(*g)})
	plan.Moves = 1
}
