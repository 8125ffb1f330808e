package cluster

import (
	"testing"

	"github.com/candor-project/candor/hybrid"
)

// TestMachineChanges: a node that reports another machine has the CPUs of the new machine. A reserved pod
// that does not fit claims these CPUs before other pods.
func TestMachineChanges(t *testing.T) {
	c := New(patience)
	c.Report("n", 1, newNode(t, "core:4", hybrid.Options{}), start)
	waits := pod(t, "waits", sensitive("app", 3000))
	reserve(t, c, "n", waits)
	c.Bound("n", waits, start)

	c.Report("n", 2, newNode(t, "core:2", hybrid.Options{}), start)
	if got := c.Totals(); got.Reserved != 1 || got.Blocked != 1 {
		t.Errorf("got %+v, want a blocked reservation", got)
	}
	wantRefusal(t, c, "n", pod(t, "small", sensitive("app", 1000)), "CPUs are reserved for pods that cannot start yet")

	c.Report("n", 3, newNode(t, "pack:2 numa:1 core:4 pu:2", hybrid.Options{}), start)
	if got := c.Totals(); got.Reserved != 1 || got.Blocked != 0 {
		t.Errorf("got %+v, want a reservation that is not blocked", got)
	}
	wantRefusal(t, c, "n", pod(t, "large", sensitive("app", 13000)), "")
	wantRefusal(t, c, "n", pod(t, "larger", sensitive("app", 14000)), "no capacity (1 CPU missing)")
}
