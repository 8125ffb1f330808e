package cluster

import (
	"reflect"
	"testing"

	"github.com/candor-project/candor/hybrid"
)

// TestPreview: Preview returns the grants and the shared time of a later Reserve, and changes nothing.
func TestPreview(t *testing.T) {
	c := New(patience)
	c.Report("n", 1, newNode(t, "core:4", hybrid.Options{}), start)
	reserve(t, c, "n", pod(t, "first", sensitive("app", 1500)))
	p := pod(t, "second", sensitive("app", 1600), flexible("log", 100))
	before := c.Node("n").Grants()
	v, refusal := c.Preview("n", p)
	if refusal != nil || len(v.Grants) != 2 || v.Grants[0].Limit != 1600 {
		t.Fatalf("%+v, %v", v, refusal)
	}
	if after := c.Node("n").Grants(); !reflect.DeepEqual(before, after) {
		t.Errorf("Preview changed the grants from %v to %v", before, after)
	}
	shared := c.Node("n").Shared()
	if given := reserve(t, c, "n", p); !reflect.DeepEqual(given, v.Grants) {
		t.Errorf("Reserve returned %v, Preview %v", given, v.Grants)
	}
	if added := c.Node("n").Shared() - shared; added != v.Shared {
		t.Errorf("got added shared time %v, want %v", v.Shared, added)
	}
	if _, refusal := c.Preview("n", pod(t, "third", sensitive("app", 4000))); refusal == nil {
		t.Error("a pod of 4 CPUs fits on a used node of 4 CPUs")
	}
	if v, refusal := c.Preview("nowhere", pod(t, "fourth", flexible("app", 100))); refusal != nil || v.Grants != nil || c.Node("nowhere") != nil {
		t.Errorf("unknown node: got %+v, %v; want no grants and no refusal", v, refusal)
	}
}
