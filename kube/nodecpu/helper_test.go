package nodecpu

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/topology"
)

// uid returns the UID of pod n.
func uid(n int) string { return fmt.Sprintf("3f0c9a9e-7a55-4d4b-8b2e-%012d", n) }

// parse returns the machine of a description.
func parse(t rapid.TB, description string) *topology.Machine {
	m, err := topology.Parse(description)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// newNode returns a node with the requested containers. It omits containers that do not fit.
func newNode(t rapid.TB, m *topology.Machine, o hybrid.Options, requests ...hybrid.Request) *hybrid.Node {
	n, err := hybrid.NewNode(m, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		if plan, err := n.Plan(r); err == nil {
			if err := n.Commit(plan); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}

// report returns the report of a node after its conversion to JSON and back.
func report(t rapid.TB, n *hybrid.Node) *v1alpha1.NodeCPUStatus {
	s := Status(n, HolderOf)
	s.Counter = 1
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back v1alpha1.NodeCPUStatus
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	return &back
}

// text returns the complete state of a node as text.
func text(n *hybrid.Node) string {
	p, o := n.Pools(), n.Options()
	return fmt.Sprintf("usable %v pools %v | %v | %v shared %v minShared %v %v moves %d %d\n%+v\n",
		n.Usable(), p.Exclusive, p.Fractional, p.Shared, n.Shared(), o.MinShared, o.Algorithm, o.Moves, o.RescueMoves, n.Grants())
}

// drawMachine draws a machine of at most 64 CPUs. Some machines have offline, isolated or slow CPUs.
func drawMachine(t *rapid.T) *topology.Machine {
	m := parse(t, fmt.Sprintf("pack:%d numa:%d %score:%d pu:%d",
		rapid.IntRange(1, 2).Draw(t, "sockets"), rapid.IntRange(1, 2).Draw(t, "numa"),
		rapid.SampledFrom([]string{"", "l3:1 ", "l3:2 "}).Draw(t, "l3"),
		rapid.IntRange(1, 4).Draw(t, "cores"), rapid.IntRange(1, 2).Draw(t, "threads")))
	if rapid.IntRange(0, 3).Draw(t, "isolated") == 0 {
		m.Isolated = drawSubset(t, "isolated CPUs", m.Online.Minus(m.Online.Lowest(1)))
	}
	if rapid.IntRange(0, 3).Draw(t, "kinds") == 0 {
		for cpu := range m.Online.All() {
			m.CPUs[cpu].MaxKHz = 3_800_000
		}
		for cpu := range drawSubset(t, "slow CPUs", m.Online).All() {
			m.CPUs[cpu].MaxKHz = 1_800_000
		}
		m.Kinds = m.KindsBySpeed()
	}
	if spare := m.Online.Last() + 1; rapid.IntRange(0, 3).Draw(t, "offline") == 0 {
		m.Offline.Add(spare)
		m.CPUs = append(m.CPUs, topology.CPU{ID: spare, Socket: -1, Node: -1, L3: -1, Core: -1})
	}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	return m
}

func drawSubset(t *rapid.T, label string, of cpuset.Set) (some cpuset.Set) {
	for cpu := range of.All() {
		if rapid.IntRange(0, 3).Draw(t, label) == 0 {
			some.Add(cpu)
		}
	}
	return some
}

// drawOptions draws options with at least one usable CPU.
func drawOptions(t *rapid.T, m *topology.Machine) hybrid.Options {
	first := m.Online.Minus(m.Isolated).Lowest(1)
	o := hybrid.Options{
		Algorithm:   hybrid.Algorithm(rapid.IntRange(0, 1).Draw(t, "algorithm")),
		UseIsolated: rapid.Bool().Draw(t, "use isolated"),
		Reserved:    drawSubset(t, "reserved", m.Online).Minus(first),
		MinShared:   hybrid.Milli(rapid.SampledFrom([]int{0, 0, 300, 1000}).Draw(t, "min shared")),
	}
	if rapid.Bool().Draw(t, "confined") {
		o.Usable = drawSubset(t, "usable", m.Online).Union(first)
	}
	return o
}

// drawRequest draws a request of either class, with a random policy, topology policy, limit and guarantee.
func drawRequest(t *rapid.T, id string) hybrid.Request {
	r := hybrid.Request{
		ID:        id,
		Class:     hybrid.Class(rapid.IntRange(0, 1).Draw(t, "class")),
		Policy:    hybrid.Policy(rapid.IntRange(0, 1).Draw(t, "policy")),
		Limit:     hybrid.Milli(rapid.SampledFrom([]int{10, 333, 500, 750, 1000, 1500, 2000, 3500}).Draw(t, "limit")),
		Immovable: rapid.IntRange(0, 9).Draw(t, "immovable") == 0,
	}
	if rapid.IntRange(0, 2).Draw(t, "has topology") == 0 {
		r.Topology = hybrid.TopologyPolicy(rapid.IntRange(0, int(hybrid.NoTopology)).Draw(t, "topology"))
	}
	if r.Class == hybrid.Flexible {
		switch rapid.IntRange(0, 3).Draw(t, "guarantee") {
		case 0:
			r.Guarantee = hybrid.NoGuarantee
		case 1:
			r.Guarantee = r.Limit / 2
		case 2:
			r.Limit, r.Guarantee = 0, r.Limit
		}
	}
	return r
}

// step applies an operation to a node and returns the result as text.
func step(t rapid.TB, n *hybrid.Node, release bool, r hybrid.Request) string {
	plan, err := n.Plan(r)
	if release {
		plan, err = n.PlanRelease(r.ID)
	}
	if err != nil {
		return err.Error()
	}
	result := fmt.Sprintf("%+v %+v %d %v\n", plan.Grant, plan.Others, plan.Moves, plan.Shared)
	if err := n.Commit(plan); err != nil {
		t.Fatal(err)
	}
	return result + text(n)
}

// drawStep draws an operation on a node.
func drawStep(t *rapid.T, n *hybrid.Node, i int) (release bool, r hybrid.Request) {
	grants := n.Grants()
	if len(grants) > 0 && rapid.IntRange(0, 2).Draw(t, "release") == 0 {
		return true, grants[rapid.IntRange(0, len(grants)-1).Draw(t, "which")].Request
	}
	return false, drawRequest(t, Holder{Pod: uid(i), Container: "web"}.ID())
}

// mixed returns a node of 64 CPUs with this number of pods. Two of five pods are sensitive.
func mixed(t testing.TB, pods int) *hybrid.Node {
	n := newNode(t, parse(t, "pack:2 numa:1 l3:4 core:4 pu:2"), hybrid.Options{MinShared: 500})
	names := []string{"app", "web-frontend", "worker", "istio-proxy", "metrics-agent"}
	for i := range pods {
		r := hybrid.Request{ID: Holder{Pod: uid(i), Container: names[i%len(names)]}.ID(), Class: hybrid.Flexible, Limit: 500, Guarantee: 50}
		if i%5 < 2 {
			r.Class, r.Limit, r.Guarantee, r.Policy = hybrid.Sensitive, hybrid.Milli(250+50*(i%8)), 0, hybrid.Strict
		}
		if step(t, n, false, r) == "" {
			t.Fatal("the step has no result")
		}
	}
	if got := len(n.Grants()); got != pods {
		t.Fatalf("%d of %d pods fit, want all", got, pods)
	}
	return n
}
