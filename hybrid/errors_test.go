package hybrid_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// badRequests are invalid requests.
var badRequests = []struct {
	name    string
	request hybrid.Request
	reason  string // is part of the refusal's
}{
	{"no limit for a sensitive one", hybrid.Request{}, ""},
	{"1m", hybrid.Request{Limit: 1}, "10m"},
	{"9m", hybrid.Request{Limit: 9}, "10m"},
	{"flexible with 9m", hybrid.Request{Class: hybrid.Flexible, Limit: 9}, "10m"},
	{"negative limit", hybrid.Request{Limit: -1000}, ""},
	{"flexible with negative limit", hybrid.Request{Class: hybrid.Flexible, Limit: -1}, ""},
	{"above the largest", hybrid.Request{Limit: hybrid.MaxLimit + 1}, "1024"},
	{"flexible above the largest", hybrid.Request{Class: hybrid.Flexible, Limit: hybrid.MaxLimit + 1}, "1024"},
	{"overflow", hybrid.Request{Limit: 1<<63 - 1}, ""},
	{"guarantee above the limit", hybrid.Request{Class: hybrid.Flexible, Limit: 1000, Guarantee: 1001}, "1001m"},
	{"negative guarantee", hybrid.Request{Class: hybrid.Flexible, Limit: 1000, Guarantee: -2}, ""},
	{"guarantee above the largest", hybrid.Request{Class: hybrid.Flexible, Guarantee: hybrid.MaxLimit + 1}, ""},
	{"overflowing guarantee", hybrid.Request{Class: hybrid.Flexible, Guarantee: 1<<63 - 1}, ""},
	{"unknown class", hybrid.Request{Class: 7, Limit: 1000}, ""},
	{"unknown policy", hybrid.Request{Policy: 7, Limit: 1000}, ""},
	{"unknown topology policy", hybrid.Request{Topology: 99, Limit: 1000}, ""},
}

// drawInvalid draws an operation that the node must refuse, and returns the kind of the error.
func drawInvalid(t *rapid.T, s state) (operation, error) {
	some := hybrid.Request{ID: "wrong", Limit: 1000}
	switch rapid.IntRange(0, 4).Draw(t, "wrong") {
	case 0:
		return operation{hybrid.OpRelease, some}, hybrid.ErrUnknownID
	case 1:
		return operation{hybrid.OpResize, some}, hybrid.ErrUnknownID
	case 2:
		some.Limit = hybrid.Milli(1000*s.usable.Count() + 1)
		return operation{hybrid.OpAllocate, some}, hybrid.ErrNoCapacity
	case 3:
		if len(s.grants) > 0 {
			some.ID = s.grants[len(s.grants)-1].ID
			return operation{hybrid.OpAllocate, some}, hybrid.ErrIDTaken
		}
	}
	bad := rapid.SampledFrom(badRequests).Draw(t, "bad").request
	bad.ID = "wrong"
	return operation{hybrid.OpAllocate, bad}, hybrid.ErrBadRequest
}

func bothAlgorithms(t *testing.T, test func(t *testing.T, algorithm hybrid.Algorithm)) {
	for _, algorithm := range []hybrid.Algorithm{hybrid.Candor, hybrid.Paper} {
		t.Run(algorithm.String(), func(t *testing.T) { test(t, algorithm) })
	}
}

// newNode returns a flat node of n CPUs with some containers.
func newNode(t testing.TB, n int, o hybrid.Options, requests ...hybrid.Request) *hybrid.Node {
	t.Helper()
	node, err := hybrid.NewNode(flatMachine(n), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		mustAllocate(t, node, r)
	}
	return node
}

func mustAllocate(t testing.TB, node *hybrid.Node, r hybrid.Request) {
	t.Helper()
	plan, err := node.Plan(r)
	if err == nil {
		err = node.Commit(plan)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func wantRefusal(t *testing.T, err error, id string, kind error, parts ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error %v, want %v", err, kind)
	}
	if problem := checkRefusal(err, id); problem != "" {
		t.Fatal(problem)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %q", err, part)
		}
	}
}

func TestBadRequests(t *testing.T) {
	bothAlgorithms(t, func(t *testing.T, algorithm hybrid.Algorithm) {
		node := newNode(t, 4, hybrid.Options{Algorithm: algorithm}, hybrid.Request{ID: "one", Limit: 1500},
			hybrid.Request{ID: "two", Class: hybrid.Flexible, Limit: 1000})
		before := stateOf(node, flatMachine(4), hybrid.Options{Algorithm: algorithm}).String()
		for _, test := range badRequests {
			t.Run(test.name, func(t *testing.T) {
				r := test.request
				r.ID = "bad"
				_, err := node.Plan(r)
				wantRefusal(t, err, "bad", hybrid.ErrBadRequest, test.reason)
			})
		}
		_, err := node.Plan(hybrid.Request{Limit: 1000})
		wantRefusal(t, err, "", hybrid.ErrBadRequest)
		for id, limits := range map[string][]hybrid.Milli{"one": {0, 1, 9, -1, hybrid.MaxLimit + 1}, "two": {9, -1, hybrid.MaxLimit + 1}} {
			for _, limit := range limits {
				_, err := node.PlanResize(id, limit, 0)
				wantRefusal(t, err, id, hybrid.ErrBadRequest)
			}
		}
		_, err = node.PlanResize("two", 1000, 1001)
		wantRefusal(t, err, "two", hybrid.ErrBadRequest)
		if after := stateOf(node, flatMachine(4), hybrid.Options{Algorithm: algorithm}).String(); after != before {
			t.Errorf("bad requests changed the node from %sto %s", before, after)
		}
	})
}

// Each refusal has the right kind and contains the figures that decided.
func TestRefusals(t *testing.T) {
	sensitive := func(id string, limit hybrid.Milli) hybrid.Request { return hybrid.Request{ID: id, Limit: limit} }
	flexible := func(id string, limit hybrid.Milli) hybrid.Request {
		return hybrid.Request{ID: id, Limit: limit, Class: hybrid.Flexible}
	}
	numa := sensitive("new", 3000)
	numa.Topology = hybrid.SingleNUMA
	tests := []struct {
		name    string
		present []hybrid.Request
		options hybrid.Options
		do      operation
		kind    error
		figures []string
	}{
		{"more than the node", nil, hybrid.Options{}, operation{hybrid.OpAllocate, sensitive("new", 4001)}, hybrid.ErrNoCapacity, []string{"4001m", "4"}},
		{"more than is left", []hybrid.Request{sensitive("a", 1500), flexible("b", 2000)}, hybrid.Options{},
			operation{hybrid.OpAllocate, flexible("new", 501)}, hybrid.ErrNoCapacity, []string{"501m", "500m"}},
		{"reserved CPUs", nil, hybrid.Options{Reserved: flatMachine(1).Online}, operation{hybrid.OpAllocate, sensitive("new", 3001)}, hybrid.ErrNoCapacity, []string{"3001m", "3"}},
		{"resize to more than is left", []hybrid.Request{sensitive("a", 1500), sensitive("new", 1000)}, hybrid.Options{},
			operation{hybrid.OpResize, sensitive("new", 2501)}, hybrid.ErrNoCapacity, []string{"2501m"}},
		{"whole CPUs are missing", []hybrid.Request{sensitive("a", 600), sensitive("b", 600), sensitive("c", 600), sensitive("d", 600)}, hybrid.Options{},
			operation{hybrid.OpAllocate, sensitive("new", 1000)}, hybrid.ErrViewImpossible, nil},
		{"the fraction does not fit", []hybrid.Request{sensitive("a", 600), sensitive("b", 600), sensitive("c", 600), sensitive("d", 600)}, hybrid.Options{},
			operation{hybrid.OpAllocate, sensitive("new", 500)}, hybrid.ErrViewImpossible, []string{"500m"}},
		{"unknown id to release", nil, hybrid.Options{}, operation{hybrid.OpRelease, sensitive("new", 0)}, hybrid.ErrUnknownID, nil},
		{"unknown id to resize", nil, hybrid.Options{}, operation{hybrid.OpResize, sensitive("new", 1000)}, hybrid.ErrUnknownID, nil},
		{"unknown id to repair", nil, hybrid.Options{}, operation{hybrid.OpRepair, sensitive("new", 0)}, hybrid.ErrUnknownID, nil},
		{"id taken", []hybrid.Request{flexible("new", 100)}, hybrid.Options{}, operation{hybrid.OpAllocate, sensitive("new", 1000)}, hybrid.ErrIDTaken, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bothAlgorithms(t, func(t *testing.T, algorithm hybrid.Algorithm) {
				test.options.Algorithm = algorithm
				node := newNode(t, 4, test.options, test.present...)
				before := stateOf(node, flatMachine(4), test.options).String()
				_, err := test.do.plan(node)
				wantRefusal(t, err, "new", test.kind, test.figures...)
				if after := stateOf(node, flatMachine(4), test.options).String(); after != before {
					t.Errorf("the refusal changed the node from %sto %s", before, after)
				}
			})
		})
	}
	t.Run("a domain is too small", func(t *testing.T) {
		node, err := hybrid.NewNode(shape{2, 1, 1, 2, 1}.machine(), hybrid.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = node.Plan(numa)
		wantRefusal(t, err, "new", hybrid.ErrViewImpossible)
	})
}

// A node rejects the plans of another node. A stale plan changes nothing.
func TestStalePlan(t *testing.T) {
	bothAlgorithms(t, func(t *testing.T, algorithm hybrid.Algorithm) {
		o := hybrid.Options{Algorithm: algorithm}
		one, two := newNode(t, 4, o), newNode(t, 4, o)
		plan, err := one.Plan(hybrid.Request{ID: "a", Limit: 1500})
		if err != nil {
			t.Fatal(err)
		}
		plan = plan.Clone()
		if err := two.Commit(plan); !errors.Is(err, hybrid.ErrStalePlan) {
			t.Errorf("commit on another node: %v", err)
		}
		mustAllocate(t, one, hybrid.Request{ID: "b", Limit: 1000})
		if err := one.Commit(plan); !errors.Is(err, hybrid.ErrStalePlan) {
			t.Errorf("commit after another: %v", err)
		}
		if _, ok := one.Grant("a"); ok || len(one.Grants()) != 1 || len(two.Grants()) != 0 {
			t.Errorf("a stale plan changed a node: %v, %v", one.Grants(), two.Grants())
		}
	})
}

// The refusal of a resize names the domain in which the container is, not another domain.
func TestRefusedResizeNamesDomain(t *testing.T) {
	m, err := topology.Parse("pack:1 numa:1 l3:2 core:2 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	n, err := hybrid.NewNode(m, hybrid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []hybrid.Request{{ID: "web", Limit: 1000, Topology: hybrid.SingleL3}, {ID: "near", Limit: 1000, Topology: hybrid.SingleL3}} {
		if _, _, err := n.Place(&r); err != nil {
			t.Fatal(err)
		}
	}
	_, err = n.PlanResize("web", 2000, 0)
	refusal := new(hybrid.Refusal)
	if !errors.As(err, &refusal) || refusal.Cause != hybrid.CauseTopology || refusal.Domain != 0 {
		t.Errorf("%v (%+v), want a domain without free CPUs", err, refusal)
	}
}

// The error for a node without CPUs names the setting that excludes the last CPU.
func TestNoUsableCPU(t *testing.T) {
	set := cpuset.MustParse
	for _, tt := range []struct {
		isolated string
		options  hybrid.Options
		want     string
	}{
		{"0-3", hybrid.Options{}, "isolcpus isolates CPUs 0-3, and the machine has no other CPUs; boot with fewer isolated CPUs, or set useIsolated"},
		{"1-3", hybrid.Options{Reserved: set("0")}, "isolcpus isolates CPUs 1-3, and CPU 0 is reserved; boot with"},
		{"1-3", hybrid.Options{Usable: set("2,7")}, "isolcpus isolates CPU 2, and the machine has no other CPUs; boot with"},
		{"1-3", hybrid.Options{Usable: set("2-3"), Reserved: set("0")}, "isolcpus isolates CPUs 2-3, and the machine has no other CPUs; boot with"},
		{"", hybrid.Options{Reserved: set("0-3")}, "CPUs 0-3 are reserved, and the machine has no other CPUs; reserve fewer"},
		{"0-3", hybrid.Options{Reserved: set("0-3"), UseIsolated: true}, "CPUs 0-3 are reserved, and the machine has no other CPUs; reserve fewer"},
		{"3", hybrid.Options{Usable: set("4-5")}, "Candor's parent cgroup has CPUs 4-5, and online are CPUs 0-3"},
	} {
		m := parse(t, "core:4")
		m.Isolated = set(tt.isolated)
		n, err := hybrid.NewNode(m, tt.options)
		if n != nil || err == nil || !strings.HasPrefix(err.Error(), "no CPU to give: "+tt.want) {
			t.Errorf("isolated %q, %+v: %v, want %q", tt.isolated, tt.options, err, tt.want)
		}
	}
}
