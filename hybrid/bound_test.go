package hybrid

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/topology"
)

// The bound never exceeds the shared time of any arrangement, and often equals the optimum.
func TestLeastShared(t *testing.T) {
	machine, err := topology.Parse("core:3")
	if err != nil {
		t.Fatal(err)
	}
	reached, missed := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		node, err := NewNode(machine, Options{MinShared: Milli(250 * max(0, rapid.IntRange(-3, 3).Draw(rt, "min-shared")))})
		if err != nil {
			rt.Fatal(err)
		}
		for i := range rapid.IntRange(1, 6).Draw(rt, "containers") {
			r := Request{ID: fmt.Sprint(i), Class: Class(rapid.IntRange(0, 1).Draw(rt, "class")), Policy: BestEffort}
			r.Limit = Milli(125 * rapid.IntRange(1, 10).Draw(rt, "eighths"))
			if r.Class == Flexible && rapid.Bool().Draw(rt, "guaranteed nothing") {
				r.Guarantee = NoGuarantee
			}
			node.Place(&r)
		}
		bound, least := node.leastShared(), impossible
		node.collectItems(-1)
		for _, it := range node.scratch.items {
			node.take(it.slot, int(it.cpu))
		}
		node.arrange(0, func() { least = min(least, node.sharedIfValid()) })
		if bound > least {
			rt.Fatalf("the bound is %s, an arrangement of %+v shares %s", bound, node.scratch.items, least)
		}
		if bound == least && bound > 0 {
			reached++
		} else if bound < least {
			missed++
		}
	})
	t.Logf("reached %d times, missed %d times", reached, missed)
	if reached < 20*missed {
		t.Error("the bound is seldom reached")
	}
}

// arrange visits every arrangement of the items from the i-th on, which have no CPU.
func (n *Node) arrange(i int, visit func()) {
	if i == len(n.scratch.items) {
		visit()
		return
	}
	it := n.scratch.items[i]
	for _, cpu := range n.shared.Set().Union(n.fractional.Set()).Slice() {
		if n.load[cpu].room() >= Milli(it.milli) && n.slots[it.slot].fractionOn(cpu) == 0 {
			mark := n.mark()
			n.give(it.slot, cpu, Milli(it.milli))
			n.arrange(i+1, visit)
			n.undo(mark)
		}
	}
}
