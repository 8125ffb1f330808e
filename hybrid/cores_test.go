package hybrid_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// smtWithout returns a machine of 4 cores of two CPUs (0 and 4, 1 and 5, …) with some second CPUs offline.
func smtWithout(t *testing.T, offline string) *topology.Machine {
	m := parse(t, "core:4 pu:2")
	withoutThreads(m, cpuset.MustParse(offline))
	return m
}

// A core with a reserved, isolated or offline CPU, or with a CPU outside of Candor's parent cgroup, is not a whole core.
func TestPartialCores(t *testing.T) {
	for _, test := range []struct {
		name           string
		offline        string
		options        hybrid.Options
		isolated       string
		limit          hybrid.Milli
		want, refusals string // either the CPUs or a part of the refusal
	}{
		{"a reserved sibling", "", hybrid.Options{Reserved: cpuset.Of(4)}, "", 2000, "1,5", ""},
		{"an isolated sibling", "", hybrid.Options{}, "0", 2000, "1,5", ""},
		{"an isolated sibling in use", "", hybrid.Options{UseIsolated: true}, "0", 2000, "0,4", ""},
		{"an offline sibling", "4", hybrid.Options{}, "", 2000, "1,5", ""},
		{"a sibling outside of the parent cgroup", "", hybrid.Options{Usable: cpuset.Range(0, 6)}, "", 6000, "0-2,4-6", ""},
		{"one CPU, a reserved sibling", "", hybrid.Options{Reserved: cpuset.Of(4)}, "", 1000, "", "1 CPU is not a multiple of 2 threads per core"},
		{"one CPU, an offline sibling", "4", hybrid.Options{}, "", 1000, "", "1 CPU is not a multiple of 2 threads per core"},
		{"an odd number", "", hybrid.Options{}, "", 3000, "", "3 CPUs are not a multiple of 2 threads per core"},
		{"an odd number with a fraction", "", hybrid.Options{}, "", 2500, "", "3 CPUs are not a multiple of 2 threads per core"},
		{"an even number with a fraction", "", hybrid.Options{}, "", 3500, "0-1,4-5", ""},
		{"more than the whole cores", "", hybrid.Options{Reserved: cpuset.Of(4)}, "", 7000, "", "7 CPUs are not a multiple of 2"},
		{"all CPUs of the whole cores", "", hybrid.Options{Reserved: cpuset.Of(4)}, "", 6000, "1-3,5-7", ""},
		{"no whole core", "", hybrid.Options{Reserved: cpuset.Range(4, 7)}, "", 2000, "",
			"0 CPUs are on free whole cores; 4 CPUs are on cores with a reserved, isolated or offline CPU"},
		{"SMT is off", "4-7", hybrid.Options{}, "", 3000, "0-2", ""},
	} {
		m := smtWithout(t, test.offline)
		m.Isolated = cpuset.MustParse(test.isolated)
		node, err := hybrid.NewNode(m, test.options)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := node.Plan(hybrid.Request{ID: "new", Limit: test.limit, Topology: hybrid.WholeCores})
		switch {
		case test.refusals != "":
			if !errors.Is(err, hybrid.ErrViewImpossible) || !strings.Contains(err.Error(), test.refusals) {
				t.Errorf("%s: error %v, want %q", test.name, err, test.refusals)
			}
		case err != nil:
			t.Errorf("%s: %v, want CPUs %s", test.name, err, test.want)
		case plan.Grant.CPUs.String() != test.want:
			t.Errorf("%s: CPUs %v, want %s", test.name, plan.Grant.CPUs, test.want)
		}
	}
}

// On a busy node, the reason for an odd number of CPUs remains the number.
func TestOddCoresOnABusyNode(t *testing.T) {
	for _, held := range []string{"0,4", "0-2,4-6", "0-3"} {
		node := nodeWithExclusive(t, parse(t, "core:4 pu:2"), held)
		_, err := node.Plan(hybrid.Request{ID: "new", Limit: 1000, Topology: hybrid.WholeCores})
		wantRefusal(t, err, "new", hybrid.ErrViewImpossible, "1 CPU is not a multiple of 2 threads per core")
	}
}

// pickCores combines whole cores of different sizes to the required number of CPUs.
func TestUnequalCores(t *testing.T) {
	m := hybridMachine(2, 2, 1) // 0-1, 2-3, 4
	m.Kinds = nil
	plan, err := nodeWithExclusive(t, m).Plan(hybrid.Request{ID: "new", Limit: 3000, Topology: hybrid.WholeCores})
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Grant.CPUs; got.Count() != 3 || !got.Contains(4) {
		t.Errorf("3 CPUs of whole cores are %v, want CPU 4 and a core of two", got)
	}
}

// A flexible container with the policy whole-cores never runs on a partial core.
func TestFlexibleOnWholeCores(t *testing.T) {
	request := hybrid.Request{ID: "log", Class: hybrid.Flexible, Limit: 500, Topology: hybrid.WholeCores}
	node, err := hybrid.NewNode(parse(t, "core:4 pu:2"), hybrid.Options{Reserved: cpuset.Of(4)})
	if err != nil {
		t.Fatal(err)
	}
	mustAllocate(t, node, request)
	if g, _ := node.Grant("log"); g.CPUs.String() != "1-3,5-7" {
		t.Errorf("CPUs %v, want 1-3,5-7", g.CPUs)
	}
	none, err := hybrid.NewNode(parse(t, "core:4 pu:2"), hybrid.Options{Reserved: cpuset.Range(4, 7)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = none.Plan(request)
	wantRefusal(t, err, "log", hybrid.ErrNoCapacity, "0 CPUs are on free whole cores; 4 CPUs")
}

// If each core loses a CPU while containers run on whole cores, they retain their remaining CPUs.
func TestCoresLoseCPUs(t *testing.T) {
	before := nodeWithExclusive(t, parse(t, "core:2 pu:2"))
	mustAllocate(t, before, hybrid.Request{ID: "web", Limit: 2000, Topology: hybrid.WholeCores})
	mustAllocate(t, before, hybrid.Request{ID: "log", Class: hybrid.Flexible, Limit: 500, Topology: hybrid.WholeCores})
	after, err := hybrid.NewNode(parse(t, "core:2 pu:2"), hybrid.Options{Reserved: cpuset.Of(2, 3)})
	if err != nil {
		t.Fatal(err)
	}
	if err := after.Restore(before.Grants()); err != nil {
		t.Fatal(err)
	}
	web, _ := after.Grant("web")
	log, _ := after.Grant("log")
	if web.CPUs.String() != "0" || web.Lost.String() != "2" || log.CPUs.String() != "1" || log.TopologyMet {
		t.Errorf("web has %v, lost %v; log has %v, policy met %v", web.CPUs, web.Lost, log.CPUs, log.TopologyMet)
	}
	if _, err := after.PlanRepair("web"); !errors.Is(err, hybrid.ErrNoCapacity) && !errors.Is(err, hybrid.ErrViewImpossible) {
		t.Errorf("repair: %v", err)
	}
}

// If too few whole cores remain for the flexible containers on whole cores, the largest containers leave them, and the
// node accepts new containers. In each case, CPU 4 is reserved, so the core of CPU 0 is not whole.
func TestTooFewWholeCores(t *testing.T) {
	flexible := func(id string, guarantee hybrid.Milli, policy hybrid.TopologyPolicy, cpus ...int) hybrid.Grant {
		return hybrid.Grant{Request: hybrid.Request{ID: id, Class: hybrid.Flexible, Limit: guarantee, Topology: policy},
			CPUs: cpuset.Of(cpus...), TopologyMet: true}
	}
	onCores := func(id string, guarantee hybrid.Milli) hybrid.Grant {
		return flexible(id, guarantee, hybrid.WholeCores, 0, 1, 5)
	}
	prefer := flexible("b", 1200, hybrid.Prefer, 0, 1, 5)
	inL3 := flexible("b", 1000, hybrid.SingleL3, 2, 6)
	for _, test := range []struct {
		name    string
		held    string // exclusive CPUs of a sensitive container
		grants  []hybrid.Grant
		onCores string // containers that remain on whole cores
		accepts bool
	}{
		{"enough", "2-3,6-7", []hybrid.Grant{onCores("a", 1500)}, "a", true},
		{"more than the whole cores", "2-3,6-7", []hybrid.Grant{onCores("a", 2500)}, "", true},
		{"the largest leaves", "2-3,6-7", []hybrid.Grant{onCores("a", 400), onCores("b", 1900), onCores("c", 300)}, "ac", true},
		{"another container can use the other CPU", "2-3,6-7", []hybrid.Grant{onCores("a", 1500), prefer}, "a", true},
		{"another container needs the whole core", "1,3,5,7", []hybrid.Grant{onCores("a", 1500), inL3}, "", true},
		{"the node lacks the time, too", "1-3,6-7", []hybrid.Grant{onCores("a", 2500)}, "", false},
		{"the node lacks the time, too, and has a core", "2-3,6-7", []hybrid.Grant{onCores("a", 3500)}, "a", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, o := parse(t, "l3:2 core:2 pu:2"), hybrid.Options{Reserved: cpuset.Of(4)}
			for range 2 { // in both orders
				slices.Reverse(test.grants)
				node, err := hybrid.NewNode(m, o)
				if err != nil {
					t.Fatal(err)
				}
				held := cpuset.MustParse(test.held)
				web := hybrid.Grant{Request: hybrid.Request{ID: "web", Limit: hybrid.Milli(1000 * held.Count())}, CPUs: held, Exclusive: held}
				if err := node.Restore(append([]hybrid.Grant{web}, test.grants...)); err != nil {
					t.Fatal(err)
				}
				s := stateOf(node, m, o)
				if again := restoredOn(t, m, o, s.grants); again.String() != s.String() {
					t.Errorf("restored again:\n%vbefore:\n%v", again, s)
				}
				for _, g := range s.grants {
					want := g.Class == hybrid.Sensitive || g.Topology != hybrid.WholeCores || strings.Contains(test.onCores, g.ID)
					if g.TopologyMet != want {
						t.Errorf("policy of %s met: %v, want %v", g.ID, g.TopologyMet, want)
					}
				}
				if err := s.checkRoom(); (err == nil) != test.accepts {
					t.Errorf("room for the guarantees: %v, want %v", err, test.accepts)
				}
				if _, err := node.Plan(hybrid.Request{ID: "new", Class: hybrid.Flexible, Limit: 100}); (err == nil) != test.accepts {
					t.Errorf("a new container: error %v, want accepted %v", err, test.accepts)
				}
			}
		})
	}
}

// restoredOn returns the state of a new node with the grants.
func restoredOn(t *testing.T, m *topology.Machine, o hybrid.Options, grants []hybrid.Grant) state {
	t.Helper()
	node, err := hybrid.NewNode(m, o)
	if err == nil {
		err = node.Restore(grants)
	}
	if err != nil {
		t.Fatal(err)
	}
	return stateOf(node, m, o)
}

// A resize that adds CPUs does not accept a core that has lost a CPU.
func TestGrowthOnAPartialCore(t *testing.T) {
	cpus := cpuset.Of(0)
	lost := hybrid.Grant{Request: hybrid.Request{ID: "web", Limit: 1000, Topology: hybrid.WholeCores}, CPUs: cpus, Exclusive: cpus, TopologyMet: true}
	node, err := hybrid.NewNode(parse(t, "core:4 pu:2"), hybrid.Options{Reserved: cpuset.Of(4)})
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Restore([]hybrid.Grant{lost}); err != nil {
		t.Fatal(err)
	}
	_, err = node.PlanResize("web", 3000, 0)
	wantRefusal(t, err, "web", hybrid.ErrViewImpossible)
}
