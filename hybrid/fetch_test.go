package hybrid_test

import (
	"testing"

	"github.com/candor-project/candor/hybrid"
)

// The next handle is the one that the next container gets, in a place that is new or that another has left, and beyond those that
// a small node has beside it. To ask for memory changes nothing, whatever the handle.
func TestNext(t *testing.T) {
	n := newNode(t, 16, hybrid.Options{}).NewLike()
	var running []hybrid.Handle
	for i := range 300 {
		if i%3 == 2 {
			at := i * 7 % len(running)
			if _, ok := n.Remove(running[at]); !ok {
				t.Fatalf("container %d is not there", running[at])
			}
			running = append(running[:at], running[at+1:]...)
			continue
		}
		want := n.NextHandle()
		for _, h := range []hybrid.Handle{want, 0, -1, 1 << 30} {
			n.PrefetchContainer(h)
		}
		n.Prefetch()
		got, _, err := n.Place(&hybrid.Request{Class: hybrid.Flexible, Guarantee: hybrid.NoGuarantee})
		if err != nil || got != want {
			t.Fatalf("handle %d, %v; want %d", got, err, want)
		}
		running = append(running, got)
	}
	if n.Len() != len(running) || n.Len() != 100 {
		t.Errorf("%d containers, want %d", n.Len(), len(running))
	}
	for range running {
		n.Remove(n.Oldest())
	}
	if n.Len() != 0 || n.Oldest() != 0 {
		t.Errorf("%d containers are left, the eldest %d", n.Len(), n.Oldest())
	}
}
