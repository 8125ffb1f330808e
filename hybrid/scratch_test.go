package hybrid

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/candor-project/candor/topology"
)

// A scheduler can have a scratch for each of thousands of nodes, so it must be small. A search must
// also clear its table of equal loads: remaining entries would hide CPUs from the next search.
func TestScratchIsSmallAndClean(t *testing.T) {
	if size := unsafe.Sizeof(scratch{}); size > 8<<10 {
		t.Errorf("a scratch takes %d bytes", size)
	}
	machine, err := topology.Parse("core:8")
	if err != nil {
		t.Fatal(err)
	}
	n, err := NewNode(machine, Options{MinShared: 500})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var there []Handle
	searches := 0
	for range 2000 {
		if len(there) > 0 && rng.IntN(2) == 0 {
			i := rng.IntN(len(there))
			n.Remove(there[i])
			there = append(there[:i], there[i+1:]...)
		} else if h, _, err := n.Place(&Request{Limit: Milli(100 + 50*rng.IntN(30))}); err == nil {
			there = append(there, h)
		}
		if len(n.scratch.targets) > 0 {
			searches++
		}
		if n.scratch.targetByLoad != [2][1000]int16{} {
			t.Fatal("a search left entries in the table of equal loads")
		}
	}
	if searches == 0 {
		t.Error("no search ran")
	}
}
