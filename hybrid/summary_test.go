package hybrid_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/hybrid"
)

// The quote from a node's summary equals the quote of the node.
func TestSummary(t *testing.T) {
	verdicts := map[hybrid.Verdict]int{}
	costly := 0
	rapid.Check(t, func(rt *rapid.T) {
		m := drawMachine(rt)
		o := drawOptions(rt, m, hybrid.Algorithm(rapid.IntRange(0, 1).Draw(rt, "algorithm")))
		h := newHistory(rt, m, o)
		node := h.node.NewLike()
		handles := map[string]hybrid.Handle{}
		for range rapid.IntRange(1, 60).Draw(rt, "operations") {
			op := drawOperation(rt, h.state())
			if op.kind != hybrid.OpAllocate && op.kind != hybrid.OpRelease {
				continue
			}
			plan, err := op.plan(h.node)
			plan = plan.Clone() // its twin plans meanwhile
			if op.kind == hybrid.OpAllocate {
				verdict, cost := checkSummary(rt, node, &op.request)
				verdicts[verdict]++
				if verdict == hybrid.Known && cost.Shared > 0 {
					costly++
				}
			}
			if err != nil {
				continue
			}
			if err := h.node.Commit(plan); err != nil {
				rt.Fatal(err)
			}
			if op.kind == hybrid.OpAllocate {
				handles[op.request.ID], _, _ = node.Place(&op.request)
			} else {
				node.Remove(handles[op.request.ID])
			}
		}
	})
	t.Logf("known %d (%d of them share), not direct %d, unknown %d, refused %d", verdicts[hybrid.Known], costly,
		verdicts[hybrid.NotDirect], verdicts[hybrid.Unknown], verdicts[hybrid.Refused])
	if min(verdicts[hybrid.Known], costly, verdicts[hybrid.Unknown], verdicts[hybrid.Refused]) == 0 && !testing.Short() { // -short draws few cases
		t.Error("one of these never happened")
	}
}

func checkSummary(t *rapid.T, node *hybrid.Node, r *hybrid.Request) (hybrid.Verdict, hybrid.Quote) {
	var s hybrid.Summary
	node.Summarize(&s)
	if r.Check() != nil {
		return hybrid.Refused, hybrid.Quote{}
	}
	want, err := node.Quote(r)
	if err == hybrid.ErrIDTaken {
		return hybrid.Refused, hybrid.Quote{}
	}
	for _, class := range []hybrid.Class{hybrid.Sensitive, hybrid.Flexible} {
		if s.Free(class) != node.Free(class) {
			t.Fatalf("free %v, want %v", s.Free(class), node.Free(class))
		}
	}
	got, verdict := s.Quote(r)
	switch verdict {
	case hybrid.Known:
		if !s.IsFlat() {
			got.NUMAs, got.L3s, got.Splits = want.NUMAs, want.L3s, want.Splits
		}
		if err != nil || got != want {
			t.Fatalf("%+v on %+v: quote %+v; the node has %+v, %v", *r, s, got, want, err)
		}
	case hybrid.NotDirect:
		if err == nil && want.Direct {
			t.Fatalf("%+v on %+v: not direct; the node has %+v", *r, s, want)
		}
	case hybrid.Refused:
		if err == nil {
			t.Fatalf("%+v on %+v: refused; the node has %+v", *r, s, want)
		}
	}
	if err == nil && r.Policy == hybrid.Strict && r.Class == hybrid.Sensitive && r.IsPlain() && node.Algorithm() == hybrid.Candor && int32(r.Limit) > s.Figures().MaxStrictLimit {
		t.Fatalf("%+v on %+v: the node has room, most is %d", *r, s, s.Figures().MaxStrictLimit)
	}
	if first := hybrid.Milli(s.Figures().PaperFirstLent); verdict == hybrid.Known && node.Algorithm() == hybrid.Paper && r.Class == hybrid.Flexible && got.Shared != first {
		t.Fatalf("%+v on %+v: %s becomes shared, but FirstLent is %s", *r, s, got.Shared, first)
	}
	if verdict == hybrid.Known && node.Algorithm() == hybrid.Candor {
		checkFigures(t, &s, r, &got)
	}
	return verdict, got
}

// checkFigures checks that the figures are bounds on the quote.
func checkFigures(t *rapid.T, s *hybrid.Summary, r *hybrid.Request, q *hybrid.Quote) {
	f := s.Figures()
	fraction, next := r.Limit%1000, hybrid.Milli(f.NextLent)
	least := hybrid.Milli(0)
	switch {
	case r.Class == hybrid.Flexible:
		easy := q.Shared <= 0
		if inCalm := int32(r.Guaranteed()) <= f.MaxUnlentGuarantee; inCalm != easy && (easy || s.HasAllFractional()) {
			t.Fatalf("%+v on %+v: calm %d, but quote %+v", *r, *s, f.MaxUnlentGuarantee, *q)
		}
		return
	case s.SpareCPUs() < r.Limit.CPUs() && fraction == 0:
		least = next
	case s.SpareCPUs() < r.Limit.CPUs():
		least = min(fraction, next)
	}
	if q.Shared < least || least == 0 && q.Shared > 0 {
		t.Fatalf("%+v on %+v: quote %+v, want %d at least, and 0 if that is 0", *r, *s, *q, least)
	}
}

// Two CPUs, each with a fraction, have no room for 800m without moves. The summary refuses the request if no arrangement has room;
// otherwise only the node can decide.
func TestSummaryNotDirect(t *testing.T) {
	for _, test := range []struct {
		name      string
		limits    []hybrid.Milli
		immovable bool
		verdict   hybrid.Verdict
		err       error
	}{
		{"no arrangement", []hybrid.Milli{600, 600}, false, hybrid.Refused, hybrid.ErrViewImpossible},
		{"one moves", []hybrid.Milli{300, 500}, false, hybrid.NotDirect, nil},
		{"none may move", []hybrid.Milli{300, 500}, true, hybrid.NotDirect, hybrid.ErrViewImpossible},
	} {
		t.Run(test.name, func(t *testing.T) {
			node := newNode(t, 2, hybrid.Options{})
			for i, limit := range test.limits {
				if _, _, err := node.Place(&hybrid.Request{ID: string(rune('a' + i)), Limit: limit, Immovable: test.immovable}); err != nil {
					t.Fatal(err)
				}
			}
			var s hybrid.Summary
			node.Summarize(&s)
			r := hybrid.Request{ID: "new", Limit: 800}
			if _, verdict := s.Quote(&r); verdict != test.verdict {
				t.Errorf("verdict %d, want %d", verdict, test.verdict)
			}
			if q, err := node.Quote(&r); err != test.err || err == nil && (q.Direct || q.Moves != 1) {
				t.Errorf("the node has %+v, %v; want %v", q, err, test.err)
			}
		})
	}
}
