package hybrid_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// A history is a node and the operations on it.
type history struct {
	t       *rapid.T
	machine *topology.Machine
	options hybrid.Options
	node    *hybrid.Node
	log     []operation
	results []string // of each operation: the grant, or why not
	refused int
	shrunk  bool // restored on fewer CPUs
}

func newHistory(t *rapid.T, m *topology.Machine, o hybrid.Options) *history {
	node, err := hybrid.NewNode(m, o)
	if err != nil {
		t.Fatal(err)
	}
	return &history{t: t, machine: m, options: o, node: node}
}

func (h *history) state() state {
	s := stateOf(h.node, h.machine, h.options)
	s.shrunk = h.shrunk
	return s
}

// apply performs an operation and checks all properties of the result.
func (h *history) apply(op operation) {
	before := h.state()
	plan, err := op.plan(h.node)
	h.same(op, "planning", before)
	h.log = append(h.log, op)
	if err != nil {
		if problem := checkRefusal(err, op.request.ID); problem != "" {
			h.t.Fatalf("%v: %s", op, problem)
		}
		if problem := checkKind(op, before, err); problem != "" {
			h.t.Fatalf("%v: %s\n%v", op, problem, before)
		}
		h.results = append(h.results, err.Error())
		h.refused++
		return
	}
	plan = plan.Clone()
	stale := h.planAnother(op)
	if err := h.node.Commit(plan); err != nil {
		h.t.Fatalf("%v: %v", op, err)
	}
	after := h.state()
	h.results = append(h.results, grantString(plan.Grant))
	if err := checkTransition(op, plan, before, after); err != nil {
		h.t.Fatalf("%v: %v\nbefore %vafter %v", op, err, before, after)
	}
	h.check(op, after)
	for _, p := range []*hybrid.Plan{plan, stale} {
		if err := h.node.Commit(p); !errors.Is(err, hybrid.ErrStalePlan) {
			h.t.Fatalf("%v: commit of a stale plan: %v", op, err)
		}
	}
	h.same(op, "a stale plan", after)
}

// planAnother plans the same operation again before the first plan is committed. It checks that both plans are equal, and returns the
// second.
func (h *history) planAnother(op operation) *hybrid.Plan {
	plan, err := op.plan(h.node)
	if err != nil {
		h.t.Fatalf("%v: planned once, then %v", op, err)
	}
	return plan.Clone()
}

// same fails the test if the node's state has changed.
func (h *history) same(op operation, what string, before state) {
	if after := h.state(); after.String() != before.String() {
		h.t.Fatalf("%v: %s changed the node\nfrom %vto %v", op, what, before, after)
	}
}

func (h *history) check(op operation, s state) {
	if err := s.invariants(); err != nil {
		h.t.Fatalf("%v: %v\n%v", op, err, s)
	}
	if err := s.checkThrift(); err != nil && h.options.Algorithm == hybrid.Candor {
		h.t.Fatalf("%v: %v\n%v", op, err, s)
	}
}

// run performs this number of operations: single operations, bursts of equal containers, and operations that the node must refuse.
func (h *history) run(operations int) {
	for i := 0; i < operations; i++ {
		switch rapid.IntRange(0, 19).Draw(h.t, "step") {
		case 0:
			for _, op := range drawBurst(h.t, h.state()) {
				h.apply(op)
				i++
			}
		case 1:
			op, kind := drawInvalid(h.t, h.state())
			if _, err := op.plan(h.node); !errors.Is(err, kind) {
				h.t.Fatalf("%v: %v, want %v", op, err, kind)
			}
			h.apply(op)
		default:
			h.apply(drawOperation(h.t, h.state()))
		}
	}
}

// replay performs the same operations on another node, and compares the results.
func (h *history) replay() {
	other := newHistory(h.t, h.machine, h.options)
	for i, op := range h.log {
		plan, err := op.plan(other.node)
		var result string
		if err != nil {
			result = err.Error()
		} else {
			result = grantString(plan.Grant)
			if err := other.node.Commit(plan); err != nil {
				h.t.Fatalf("replay of %v: %v", op, err)
			}
		}
		if result != h.results[i] {
			h.t.Fatalf("replay of %v:\n%s, was\n%s", op, result, h.results[i])
		}
	}
	if got, want := other.state().String(), h.state().String(); got != want {
		h.t.Fatalf("replay ends with\n%vwas\n%v", got, want)
	}
}

// end releases every container, in any order, and checks that the node then equals a new node.
func (h *history) end() {
	for {
		s := h.state()
		if len(s.grants) == 0 {
			break
		}
		g := s.grants[rapid.IntRange(0, len(s.grants)-1).Draw(h.t, "leaves")]
		h.apply(operation{hybrid.OpRelease, hybrid.Request{ID: g.ID}})
	}
	fresh := newHistory(h.t, h.machine, h.options)
	if got, want := h.state().String(), fresh.state().String(); got != want {
		h.t.Fatalf("after all have left:\n%sa new node:\n%s", got, want)
	}
	for i, limit := range []hybrid.Milli{1500, 700, 2000, 700, 300, 500, 1000, 400} {
		r := hybrid.Request{ID: fmt.Sprint("again", i), Limit: limit, Class: hybrid.Class(i % 3 / 2)}
		h.apply(operation{hybrid.OpAllocate, r})
		fresh.apply(operation{hybrid.OpAllocate, r})
	}
	if got, want := h.state().String(), fresh.state().String(); got != want {
		h.t.Fatalf("after all have left, then some come:\n%son a new node:\n%s", got, want)
	}
}

// All properties hold after any operations on any machine. apply lists the properties of each step.
func TestHistoryCandor(t *testing.T) { testHistories(t, hybrid.Candor) }
func TestHistoryPaper(t *testing.T)  { testHistories(t, hybrid.Paper) }

func testHistories(t *testing.T, algorithm hybrid.Algorithm) {
	operations, refused, histories := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		m := drawMachine(rt)
		h := newHistory(rt, m, drawOptions(rt, m, algorithm))
		h.run(100)
		h.replay()
		h.end()
		operations += len(h.log)
		refused += h.refused
		histories++
	})
	t.Logf("%d operations in %d histories, %d of them refused", operations, histories, refused)
	if histories >= 100 && operations < 10_000 {
		t.Errorf("%d operations, want 10000", operations)
	}
}

// checkRefusal returns a description of the defect of a plan's error, or "".
func checkRefusal(err error, id string) string {
	var refusal *hybrid.Refusal
	switch {
	case !errors.As(err, &refusal):
		return fmt.Sprintf("error %v is not a *Refusal", err)
	case refusal.ID != id:
		return fmt.Sprintf("refusal of %q, want %q", refusal.ID, id)
	case refusal.Reason() == "" || strings.ContainsAny(refusal.Reason(), "\n\r"):
		return fmt.Sprintf("reason %q is not one line", refusal.Reason())
	case !slices.Contains([]error{hybrid.ErrNoCapacity, hybrid.ErrViewImpossible, hybrid.ErrUnknownID,
		hybrid.ErrIDTaken, hybrid.ErrBadRequest}, refusal.Kind):
		return fmt.Sprintf("refusal of kind %v", refusal.Kind)
	}
	return ""
}

// checkKind returns a description of a wrong kind of refusal, or "". The kind must be ErrNoCapacity exactly if the limits and guarantees
// exceed the capacity. ErrViewImpossible must not refuse a flexible or best-effort container. Topology policies are exempt, because they
// can refuse more.
func checkKind(op operation, before state, err error) string {
	i := find(before.grants, op.request.ID)
	if op.kind == hybrid.OpResize && i >= 0 {
		r := before.grants[i].Request
		r.Limit, r.Guarantee = op.request.Limit, op.request.Guarantee
		op.request = r
	}
	if errors.Is(err, hybrid.ErrBadRequest) || op.kind == hybrid.OpRelease || (op.kind == hybrid.OpAllocate) != (i < 0) {
		return ""
	}
	total := map[hybrid.Class]hybrid.Milli{op.request.Class: guaranteed(op.request)}
	flexible, hasPolicy := op.request.Class == hybrid.Flexible, op.request.Topology != hybrid.Prefer && op.request.Topology != hybrid.NoTopology
	for _, g := range before.grants {
		if g.ID != op.request.ID {
			total[g.Class] += guaranteed(g.Request)
		}
		flexible = flexible || g.Class == hybrid.Flexible
		hasPolicy = hasPolicy || g.Topology != hybrid.Prefer && g.Topology != hybrid.NoTopology
	}
	sensitive, capacity := total[hybrid.Sensitive], hybrid.Milli(1000*before.usable.Count())
	over := sensitive+total[hybrid.Flexible] > capacity || sensitive > 0 && sensitive+before.options.MinShared > capacity
	noCapacity := errors.Is(err, hybrid.ErrNoCapacity)
	if over != noCapacity && (over || !hasPolicy && !flexible) {
		return fmt.Sprintf("%v: sensitive %v + flexible %v of %v", err, sensitive, total[hybrid.Flexible], capacity)
	}
	if mustFit := op.request.Class == hybrid.Flexible || op.request.Policy == hybrid.BestEffort; mustFit && !over && !hasPolicy && total[hybrid.Flexible] > 0 {
		return fmt.Sprintf("%v: it fits", err)
	}
	return ""
}
