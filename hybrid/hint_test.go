package hybrid_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// PlanHinted uses a hint only if the result is as good as the node's own plan. The machine has two NUMA nodes of 8 CPUs, each with 4 cores
// of two threads (0 and 8, 1 and 9, …). The container "first" has CPUs 0-1,8 and half of CPU 9.
func TestHint(t *testing.T) {
	on := func(list string, fractions ...hybrid.Fraction) hybrid.Hint {
		cpus, err := cpuset.Parse(list)
		if err != nil {
			t.Fatal(err)
		}
		return hybrid.Hint{Exclusive: cpus, Fractions: fractions}
	}
	half := func(cpu int) hybrid.Fraction { return hybrid.Fraction{CPU: cpu, Milli: 500} }
	for name, test := range map[string]struct {
		limit          hybrid.Milli
		topologyPolicy hybrid.TopologyPolicy
		hint           hybrid.Hint
		own            hybrid.Hint // CPUs of the node's own plan
		taken          bool
	}{
		"the same":                       {limit: 2000, hint: on("2,10"), own: on("2,10"), taken: true},
		"another core there":             {limit: 2000, hint: on("3,11"), own: on("2,10"), taken: true},
		"breaks another NUMA node":       {limit: 2000, hint: on("4,12"), own: on("2,10")},
		"splits two cores":               {limit: 2000, hint: on("2-3"), own: on("2,10")},
		"in two NUMA nodes":              {limit: 2000, hint: on("3,12"), own: on("2,10")},
		"a fraction that would be alone": {limit: 500, hint: on("", half(9)), own: on("", half(2))},
		"a fraction of its own":          {limit: 500, hint: on("", half(3)), own: on("", half(2)), taken: true},
		"both":                           {limit: 1500, hint: on("3", half(11)), own: on("2", half(10)), taken: true},
		"more CPUs":                      {limit: 2000, hint: on("2-3,10"), own: on("2,10")},
		"fewer CPUs":                     {limit: 2000, hint: on("2"), own: on("2,10")},
		"a fraction too many":            {limit: 2000, hint: on("2,10", half(3)), own: on("2,10")},
		"parts for a whole":              {limit: 1000, hint: on("", half(2), half(3)), own: on("2")},
		"more of a CPU":                  {limit: 500, hint: on("", hybrid.Fraction{CPU: 2, Milli: 900}), own: on("", half(2))},
		"the fraction of a CPU it has":   {limit: 1500, hint: on("3", half(3)), own: on("2", half(10))},
		"another's CPUs":                 {limit: 2000, hint: on("0-1"), own: on("2,10")},
		"a reserved CPU":                 {limit: 1000, hint: on("7"), own: on("2")},
		"no such CPU":                    {limit: 1000, hint: on("500"), own: on("2")},
		"no such CPU for a fraction":     {limit: 500, hint: on("", half(-1)), own: on("", half(2))},
		"a CPU beyond all":               {limit: 500, hint: on("", half(1<<40)), own: on("", half(2))},
		"nothing":                        {limit: 1000, hint: hybrid.Hint{}, own: on("2")},
		"whole cores":                    {limit: 1500, topologyPolicy: hybrid.WholeCores, hint: on("3", half(11)), own: on("2", half(10)), taken: true},
		"whole cores, parts of two":      {limit: 1500, topologyPolicy: hybrid.WholeCores, hint: on("2", half(11)), own: on("2", half(10))},
		"one NUMA node":                  {limit: 2000, topologyPolicy: hybrid.SingleNUMA, hint: on("3,11"), own: on("2,10"), taken: true},
		"one NUMA node, and two":         {limit: 2000, topologyPolicy: hybrid.SingleNUMA, hint: on("3,12"), own: on("2,10")},
	} {
		t.Run(name, func(t *testing.T) {
			m := shape{2, 1, 1, 4, 2}.machine()
			o := hybrid.Options{Reserved: cpuset.Of(7)}
			n, err := hybrid.NewNode(m, o)
			if err != nil {
				t.Fatal(err)
			}
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			first := hybrid.Grant{Request: hybrid.Request{ID: "first", Limit: 3500}, Exclusive: cpuset.Of(0, 1, 8), Fractions: []hybrid.Fraction{half(9)}}
			must(n.Restore([]hybrid.Grant{first}))
			r := hybrid.Request{ID: "web", Limit: test.limit, Topology: test.topologyPolicy}
			own, err := n.Plan(r)
			must(err)
			if !test.own.Matches(&own.Grant) {
				t.Fatalf("the node's own plan is %v %v", own.Grant.Exclusive, own.Grant.Fractions)
			}
			plan, taken, err := n.PlanHinted(r, &test.hint)
			must(err)
			want := test.own
			if test.taken {
				want = test.hint
			}
			if taken != test.taken || !want.Matches(&plan.Grant) {
				t.Errorf("taken %v: %v %v", taken, plan.Grant.Exclusive, plan.Grant.Fractions)
			}
			must(n.Commit(plan))
			checkInvariants(t, n, m, o)
		})
	}
}

// For every hint, PlanHinted changes nothing, returns a correct plan that keeps every promise, refuses a container that the node would
// refuse, and never returns a plan that costs more than the node's own plan.
func TestHintRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMachine(t)
		algorithm := hybrid.Algorithm(rapid.IntRange(0, 9).Draw(t, "paper") / 9)
		h := newHistory(t, m, drawOptions(t, m, algorithm))
		h.run(rapid.IntRange(0, 12).Draw(t, "operations"))
		before := h.state()
		op := operation{hybrid.OpAllocate, drawRequest(t, freshID(t, before), before.usable.Count())}
		hint := drawHint(t, before, op.request)
		own, refusal := h.node.Plan(op.request)
		own = own.Clone()
		plan, taken, err := h.node.PlanHinted(op.request, &hint)
		h.same(op, "a hint", before)
		if (err == nil) != (refusal == nil) || err != nil && err.Error() != refusal.Error() {
			t.Fatalf("%v, by itself %v", err, refusal)
		}
		if err != nil {
			return
		}
		if taken != hint.Matches(&plan.Grant) || !taken && grantString(plan.Grant) != grantString(own.Grant) {
			t.Fatalf("taken %v of %v: %s, by itself %s", taken, hint, grantString(plan.Grant), grantString(own.Grant))
		}
		if plan.Shared > own.Shared || plan.Moves > own.Moves || own.Grant.TopologyMet && !plan.Grant.TopologyMet {
			t.Fatalf("%+v, by itself %+v", plan, own)
		}
		plan = plan.Clone()
		if err := h.node.Commit(plan); err != nil {
			t.Fatal(err)
		}
		after := h.state()
		if err := checkTransition(op, plan, before, after); err != nil {
			t.Fatalf("%v: %v\nbefore %vafter %v", hint, err, before, after)
		}
		h.check(op, after)
		h.end()
	})
}

// drawHint draws a hint that is usually plausible, and sometimes arbitrary.
func drawHint(t *rapid.T, s state, r hybrid.Request) (hint hybrid.Hint) {
	whole, fraction := int(r.Limit/1000), r.Limit%1000
	from := s.pools.Shared
	if rapid.IntRange(0, 9).Draw(t, "any") == 0 {
		from = s.machine.Online
		whole = rapid.IntRange(0, 4).Draw(t, "whole")
	}
	order := rapid.Permutation(from.Slice()).Draw(t, "hinted CPUs")
	hint.Exclusive = cpuset.Of(order[:min(whole, len(order))]...)
	if fraction > 0 || rapid.IntRange(0, 9).Draw(t, "a fraction") == 0 {
		on := rapid.SampledFrom(s.usable.Slice()).Draw(t, "fraction on")
		hint.Fractions = []hybrid.Fraction{{CPU: on, Milli: max(fraction, 1)}}
	}
	return hint
}
