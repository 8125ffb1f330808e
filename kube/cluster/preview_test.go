package cluster

import (
	"reflect"
	"testing"

	"github.com/candor-project/candor/hybrid"
)

// TestPreview: a preview is equal to the result of the later Reserve, and changes nothing.
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
		t.Errorf("changed: %v, was %v", after, before)
	}
	shared := c.Node("n").Shared()
	if given := reserve(t, c, "n", p); !reflect.DeepEqual(given, v.Grants) {
		t.Errorf("given %v, want %v", given, v.Grants)
	}
	if added := c.Node("n").Shared() - shared; added != v.Shared {
		t.Errorf("shared time added: %v, want %v", v.Shared, added)
	}
	if _, refusal := c.Preview("n", pod(t, "third", sensitive("app", 4000))); refusal == nil {
		t.Error("4 CPUs of 4, with others there")
	}
	if v, refusal := c.Preview("nowhere", pod(t, "fourth", flexible("app", 100))); refusal != nil || v.Grants != nil || c.Node("nowhere") != nil {
		t.Errorf("%+v, %v", v, refusal)
	}
}
