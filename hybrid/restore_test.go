package hybrid_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// A node on which the grants of another node are restored is equal to that node, and behaves equally. If the node has fewer CPUs, it
// reports the lost CPUs and repairs the grants for which it has room.
func TestRestore(t *testing.T) {
	repaired, refused := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		m := drawMachine(rt)
		o := drawOptions(rt, m, hybrid.Algorithm(rapid.IntRange(0, 1).Draw(rt, "algorithm")))
		h := newHistory(rt, m, o)
		h.run(rapid.IntRange(1, 40).Draw(rt, "operations"))
		saved := h.state()

		other := newHistory(rt, m, o)
		if err := other.node.Restore(saved.grants); err != nil {
			rt.Fatalf("restore: %v\n%v", err, saved)
		}
		if got := other.state(); got.String() != saved.String() {
			rt.Fatalf("restored\n%vfrom\n%v", got, saved)
		}
		for range 5 {
			op := drawOperation(rt, saved)
			h.apply(op)
			other.apply(op)
			if len(h.state().grants) == len(saved.grants) {
				continue
			}
			saved = h.state()
			if got := other.state(); got.String() != saved.String() {
				rt.Fatalf("%v: the restored node is now\n%vthe other\n%v", op, got, saved)
			}
		}
		other.run(10)

		a, b := restoreSmaller(rt, h)
		repaired += a
		refused += b
	})
	t.Logf("%d grants repaired, %d could not be", repaired, refused)
	if min(repaired, refused) == 0 && !testing.Short() { // -short draws few cases
		t.Error("one of these never happened")
	}
}

// restoreSmaller restores the grants of a node on a node that lacks some of the CPUs, and repairs the grants.
func restoreSmaller(rt *rapid.T, h *history) (repaired, refused int) {
	saved, o := h.state(), h.options
	gone := drawSubset(rt, "gone", saved.usable, saved.usable.Count()/2)
	if o.Usable = saved.usable.Minus(gone); o.Usable.IsEmpty() {
		return 0, 0
	}
	o.MinShared = min(o.MinShared, hybrid.Milli(1000*o.Usable.Count()))
	small := newHistory(rt, h.machine, o)
	small.shrunk = true
	if err := small.node.Restore(saved.grants); err != nil {
		rt.Fatalf("restore without CPUs %v: %v\n%v", gone, err, saved)
	}
	restored := small.state()
	small.check(operation{}, restored)
	for i, g := range restored.grants {
		was := saved.grants[i]
		if was.Class != hybrid.Sensitive {
			continue
		}
		if left := was.CPUs.Minus(gone); g.ID != was.ID || g.Request != was.Request || g.CPUs != left || g.Lost != was.CPUs.Intersect(gone) {
			rt.Fatalf("without CPUs %v %s\nbecame %s", gone, grantString(was), grantString(g))
		}
	}
	for _, g := range restored.grants {
		if g.Lost.IsEmpty() {
			continue
		}
		op := operation{hybrid.OpRepair, hybrid.Request{ID: g.ID}}
		if small.repair(op) {
			repaired++
		} else {
			refused++
		}
	}
	for _, g := range small.state().grants {
		small.release(g.ID)
	}
	if got, want := small.state().String(), newHistory(rt, h.machine, o).state().String(); got != want {
		rt.Fatalf("after repairs, when all have left:\n%sa new node:\n%s", got, want)
	}
	return repaired, refused
}

// repair repairs a grant, and reports whether the node had room. The other grants must keep their promises, even on a node that has lost
// CPUs.
func (h *history) repair(op operation) bool {
	before := h.state()
	plan, err := op.plan(h.node)
	h.same(op, "planning", before)
	if err != nil {
		if problem := checkRefusal(err, op.request.ID); problem != "" {
			h.t.Fatalf("%v: %s", op, problem)
		}
		return false
	}
	plan = plan.Clone()
	if err := h.node.Commit(plan); err != nil {
		h.t.Fatalf("%v: %v", op, err)
	}
	after := h.state()
	h.check(op, after)
	if err := checkTransition(op, plan, before, after); err != nil {
		h.t.Fatalf("%v: %v\nbefore %vafter %v", op, err, before, after)
	}
	was, is := before.grants[find(before.grants, op.request.ID)], after.grants[find(after.grants, op.request.ID)]
	if !is.Lost.IsEmpty() || !was.Exclusive.SubsetOf(&is.Exclusive) {
		h.t.Fatalf("%v: %s\nbecame %s", op, grantString(was), grantString(is))
	}
	return true
}

func (h *history) release(id string) {
	op := operation{hybrid.OpRelease, hybrid.Request{ID: id}}
	plan, err := op.plan(h.node)
	if err == nil {
		err = h.node.Commit(plan)
	}
	if err != nil {
		h.t.Fatalf("%v: %v", op, err)
	}
	h.check(op, h.state())
}

// Restore refuses grants that contradict themselves or each other, and does not change the node.
func TestRestoreContradictions(t *testing.T) {
	o := hybrid.Options{}
	node := newNode(t, 8, o, hybrid.Request{ID: "web", Limit: 3500}, hybrid.Request{ID: "db", Limit: 1500},
		hybrid.Request{ID: "log", Class: hybrid.Flexible, Limit: 1000})
	good := stateOf(node, flatMachine(8), o)
	cpu := func(id string) (exclusive, fractional int) {
		g := good.grants[find(good.grants, id)]
		return g.Exclusive.First(), g.Fractions[0].CPU
	}
	webExclusive, webFraction := cpu("web")
	_, dbFraction := cpu("db")
	set := func(g *hybrid.Grant, exclusive cpuset.Set, fractions ...hybrid.Fraction) {
		g.Exclusive, g.Fractions, g.CPUs = exclusive, fractions, exclusive
		for _, f := range fractions {
			g.CPUs.Add(f.CPU)
		}
	}
	tests := map[string]func(web, db, log *hybrid.Grant){
		"one id twice":     func(web, db, log *hybrid.Grant) { db.ID = web.ID },
		"no id":            func(web, db, log *hybrid.Grant) { db.ID = "" },
		"exclusive to two": func(web, db, log *hybrid.Grant) { set(db, cpuset.Of(webExclusive), db.Fractions...) },
		"fraction beside an exclusive one": func(web, db, log *hybrid.Grant) {
			set(db, db.Exclusive, hybrid.Fraction{CPU: webExclusive, Milli: 500})
		},
		"exclusive where another has a fraction": func(web, db, log *hybrid.Grant) {
			set(db, cpuset.Of(webFraction), db.Fractions...)
		},
		"more than a CPU in fractions": func(web, db, log *hybrid.Grant) {
			db.Limit, db.Quota = 1501, 1501
			set(db, db.Exclusive, hybrid.Fraction{CPU: webFraction, Milli: 501})
		},
		"fraction of nothing":          func(web, db, log *hybrid.Grant) { db.Fractions = []hybrid.Fraction{{CPU: dbFraction}} },
		"fraction of a whole CPU":      func(web, db, log *hybrid.Grant) { db.Fractions = []hybrid.Fraction{{CPU: dbFraction, Milli: 1000}} },
		"negative fraction":            func(web, db, log *hybrid.Grant) { db.Fractions = []hybrid.Fraction{{CPU: dbFraction, Milli: -500}} },
		"fraction on no CPU":           func(web, db, log *hybrid.Grant) { db.Fractions = []hybrid.Fraction{{CPU: -1, Milli: 500}} },
		"fraction on CPU 4096":         func(web, db, log *hybrid.Grant) { db.Fractions = []hybrid.Fraction{{CPU: 4096, Milli: 500}} },
		"parts that are not the limit": func(web, db, log *hybrid.Grant) { db.Limit = 1600 },
		"bad limit":                    func(web, db, log *hybrid.Grant) { db.Limit = -1500 },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			grants := slices.Clone(good.grants)
			for i := range grants {
				grants[i] = cloneGrant(grants[i])
			}
			spoil(&grants[0], &grants[1], &grants[2])
			fresh := newNode(t, 8, o)
			before := stateOf(fresh, flatMachine(8), o).String()
			if err := fresh.Restore(grants); err == nil {
				t.Errorf("no error; the node is now\n%v", stateOf(fresh, flatMachine(8), o))
			} else if after := stateOf(fresh, flatMachine(8), o).String(); after != before {
				t.Errorf("refused (%v), and changed the node from\n%sto\n%s", err, before, after)
			}
		})
	}
}

// If a node has lost so many CPUs that a view is impossible, PlanRepair is refused with a reason. It succeeds after a release.
func TestRepair(t *testing.T) {
	node := newNode(t, 4, hybrid.Options{}, hybrid.Request{ID: "a", Limit: 2000}, hybrid.Request{ID: "b", Limit: 2000})
	o := hybrid.Options{Usable: cpuset.Range(1, 3)}
	small := newNode(t, 4, o)
	if err := small.Restore(node.Grants()); err != nil {
		t.Fatal(err)
	}
	lost := stateOf(small, flatMachine(4), o)
	i := slices.IndexFunc(lost.grants, func(g hybrid.Grant) bool { return g.Lost == cpuset.Of(0) })
	if i < 0 {
		t.Fatalf("no grant lost CPU 0\n%v", lost)
	}
	id, other := lost.grants[i].ID, lost.grants[1-i].ID
	_, err := small.PlanRepair(id)
	var refusal *hybrid.Refusal
	if !errors.As(err, &refusal) || refusal.ID != id || refusal.Reason() == "" {
		t.Fatalf("repair without room: %v", err)
	}
	plan, err := small.PlanRelease(other)
	if err == nil {
		err = small.Commit(plan)
	}
	if err == nil {
		if plan, err = small.PlanRepair(id); err == nil {
			err = small.Commit(plan)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	checkInvariants(t, small, flatMachine(4), o)
	if g, _ := small.Grant(id); !g.Lost.IsEmpty() || g.Exclusive.Count() != 2 {
		t.Errorf("repaired: %s", grantString(g))
	}
}

// A strict container whose L3 domain became two domains, one for each kind of cores, can be resized if it needs no
// additional CPU. It leaves the slower kind if the other kind has room.
func TestResizeInSplitL3(t *testing.T) {
	m := hybridMachine(2, 2, 4) // P cores 0-1 and 2-3, E cores 4-7
	cpus := cpuset.Range(2, 5)
	web := hybrid.Grant{Request: hybrid.Request{ID: "web", Limit: 4000, Topology: hybrid.SingleL3}, CPUs: cpus, Exclusive: cpus, TopologyMet: true}
	for _, test := range []struct {
		name  string
		held  []string // exclusive CPUs of another container
		limit hybrid.Milli
		want  string // "": refused
	}{
		{"smaller", nil, 3000, "2-4"},
		{"smaller, with a fraction on P cores", nil, 2500, "0,2-3"},
		{"smaller, with a fraction, the P cores are full", []string{"0-1"}, 2500, "2-4"},
		{"on P cores only", nil, 2000, "2-3"},
		{"the same number of CPUs", nil, 3800, "2-5"},
		{"larger", nil, 5000, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			node := nodeWithExclusive(t, m, test.held...)
			if err := node.Restore([]hybrid.Grant{web}); err != nil {
				t.Fatal(err)
			}
			plan, err := node.PlanResize("web", test.limit, 0)
			if test.want == "" {
				wantRefusal(t, err, "web", hybrid.ErrViewImpossible)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			commit(t, node, plan)
			checkCPUs(t, node, map[string]string{"web": test.want})
			s := stateOf(node, m, hybrid.Options{})
			s.shrunk = true // the topology policy may not be met
			if err := s.invariants(); err != nil {
				t.Error(err)
			}
		})
	}
}
