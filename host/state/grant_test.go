package state

import (
	"bytes"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
)

// Equal reports true exactly for grants with the same text in the file.
func TestGrantEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGrant(t, "web")
		same := g
		same.Fractions = slices.Clone(g.Fractions)
		if !g.Equal(&same) {
			t.Fatalf("not equal to itself: %+v", g)
		}
		for _, other := range otherGrants(reflect.ValueOf(&g).Elem()) {
			same := bytes.Equal(compactJSON(newFileGrant(&other)), compactJSON(newFileGrant(&g)))
			if !same && g.Equal(&other) {
				t.Fatalf("equal, and not the same in the file:\n%+v\n%+v", g, other)
			}
		}
	})
}

// otherGrants returns grants each of which differs in one number, text, switch or element.
func otherGrants(g reflect.Value) (others []Grant) {
	var visit func(reflect.Value)
	add := func() { others = append(others, g.Interface().(Grant)) }
	visit = func(v reflect.Value) {
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		switch v.Kind() {
		case reflect.Struct:
			for _, field := range v.Fields() {
				if field.CanSet() {
					visit(field)
				}
			}
			return
		case reflect.String:
			v.SetString(v.String() + "x")
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Slice:
			v.Set(reflect.Append(v.Slice3(0, v.Len(), v.Len()), reflect.Zero(v.Type().Elem())))
		default:
			switch n := v.Interface().(type) {
			case hybrid.Class, hybrid.Policy, hybrid.TopologyPolicy:
				v.Set(reflect.ValueOf(1 - min(v.Convert(reflect.TypeFor[int]()).Int(), 1)).Convert(v.Type()))
			case spec.Helpers:
				v.Set(reflect.ValueOf((n + 1) % (spec.HelpersCharge + 1)))
			case time.Duration:
				v.SetInt(int64(n + time.Millisecond))
			case uint64:
				v.SetUint(n + 1)
			default:
				v.SetInt(v.Int() + 1)
			}
		}
		add()
		v.Set(was)
	}
	visit(g)
	for _, set := range []func(*Grant) *cpuset.Set{
		func(g *Grant) *cpuset.Set { return &g.CPUs }, func(g *Grant) *cpuset.Set { return &g.Exclusive },
	} {
		other := g.Interface().(Grant)
		if cpus := set(&other); cpus.Contains(1000) {
			cpus.Remove(1000)
		} else {
			cpus.Add(1000)
		}
		others = append(others, other)
	}
	return others
}

// A grant with lost CPUs is saved with them, so that the container gets them back when they return.
func TestWhole(t *testing.T) {
	saved := hybrid.Grant{CPUs: cpuset.Range(0, 3), Exclusive: cpuset.Range(0, 2), Fractions: []hybrid.Fraction{{CPU: 3, Milli: 500}}}
	for _, lost := range []cpuset.Set{cpuset.Of(), cpuset.Of(0), cpuset.Of(3), cpuset.Of(1, 3)} {
		now := saved
		now.CPUs, now.Exclusive, now.Lost = saved.CPUs.Minus(lost), saved.Exclusive.Minus(lost), lost
		if lost.Contains(3) {
			now.Fractions = nil
		}
		if got := WithLost(now, saved); !reflect.DeepEqual(got, saved) {
			t.Errorf("lost %v: %+v", lost, got)
		}
	}
}
