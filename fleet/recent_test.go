package fleet

import (
	"testing"

	"github.com/candor-project/candor/topology"
)

// An answer that knows as many nodes as it can forgets the worst one, and says of all that it does not know the
// better of what it said before and of that one.
func TestAnswerForgets(t *testing.T) {
	machine, err := topology.Parse("core:4")
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for id := range NodeID(mostKnown + 1) {
		if err := f.AddNode(id, machine, nil); err != nil {
			t.Fatal(err)
		}
	}
	if id, err := f.Choose(&Request{Limit: 1500}); id != 0 || err != nil {
		t.Fatalf("on node %d, %v", id, err)
	}
	a := f.recent.current
	best := a.known[0].score
	worst := finding{best + 2, mostKnown}
	for _, rest := range []finding{{best + 1, 7}, {best + 3, 7}} {
		a.rest, a.known = rest, nil
		for id := NodeID(1); id <= mostKnown; id++ {
			a.learn(finding{best + 2, id})
		}
		f.update(a, 0)
		if len(a.known) != mostKnown || a.known[0] != (finding{best, 0}) {
			t.Fatalf("it knows %v, want node 0 first, and %d", a.known, mostKnown)
		}
		want := rest
		if rest.score > worst.score {
			want = worst
		}
		if a.rest != want {
			t.Errorf("of the rest it said %v and says %v, want %v", rest, a.rest, want)
		}
	}
}
