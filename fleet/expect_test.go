package fleet

import (
	"testing"
	"unsafe"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// The types that are prefetched as one cache line have the size of a cache line.
func TestCacheLines(t *testing.T) {
	for name, size := range map[string]uintptr{
		"node": unsafe.Sizeof(node{}), "container": unsafe.Sizeof(container{}), "row": unsafe.Sizeof(row{}), "summary": unsafe.Sizeof(hybrid.Summary{}),
	} {
		if size != 64 {
			t.Errorf("a %s has %d bytes, want 64", name, size)
		}
	}
}

// At each step until its release, expectedAt returns an announced container and its node. For a container on no node, the node is NoNode.
func TestExpect(t *testing.T) {
	f, err := New(Options{Resources: []string{"memory"}})
	if err != nil {
		t.Fatal(err)
	}
	machine, err := topology.Parse("core:4")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.AddNode(3, machine, []int64{100}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Place(7, &Request{Limit: 500, Resources: []int64{10}}); err != nil {
		t.Fatal(err)
	}
	f.Expect(7)
	for before := range ExpectAhead {
		if id, c := f.expectedAt(before); id != 3 || c != 7 {
			t.Errorf("after %d more calls: container %d on node %d, want 7 on 3", before, c, id)
		}
		if id, _ := f.expectedAt(before + 1); id != NoNode {
			t.Errorf("before the first call one was expected on node %d", id)
		}
		f.Expect(NoContainer)
	}
	if id, _ := f.expectedAt(0); id != NoNode {
		t.Errorf("no container is on node %d", id)
	}
}
