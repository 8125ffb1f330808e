package cgroup

import (
	"errors"
	"testing"
	"time"
)

// The tightest quota on the way up counts, in whatever periods it is said.
func TestBound(t *testing.T) {
	tr := tree(t)
	a, b := two(t, tr)
	both := a.Union(b)
	g, _ := group(t, tr, "pod", Settings{CPUs: both}, "")
	path := tr.parent + "/pod"
	if has, err := tr.Bound(path); err != nil || has != (Bound{}) {
		t.Errorf("without a quota: %+v, %v", has, err)
	}
	must(t, g.Apply(Settings{CPUs: both, Quota: 30 * time.Millisecond, Period: 20 * time.Millisecond}))
	inner := treeBelow(t, path, Cgroupfs)
	group(t, inner, "web", Settings{CPUs: both, Quota: 100 * time.Millisecond}, "")
	group(t, inner, "log", Settings{CPUs: both}, "")
	for name, want := range map[string]Bound{
		"/pod":     {path, 30 * time.Millisecond, 20 * time.Millisecond},
		"/pod/web": {path + "/web", 100 * time.Millisecond, 100 * time.Millisecond},
		"/pod/log": {path, 30 * time.Millisecond, 20 * time.Millisecond},
	} {
		if has, err := tr.Bound(tr.parent + name); err != nil || has != want {
			t.Errorf("%s: %+v, %v; want %+v", name, has, err, want)
		}
	}
	pod := Bound{path, 30 * time.Millisecond, 20 * time.Millisecond}
	for _, c := range []struct {
		of   *Group
		want Bound
	}{{inner.Group("web"), pod}, {inner.Group("log"), pod}, {tr.Foreign("log", path+"/log"), pod}, {g, Bound{}}} {
		if has, err := c.of.Above(); err != nil || has != c.want {
			t.Errorf("above %s: %+v, %v; want %+v", c.of.Name(), has, err, c.want)
		}
	}
}

func TestCPUsAt(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	group(t, tr, "web", Settings{CPUs: a}, "")
	if cpus, err := tr.CPUsAt(tr.parent + "/web"); err != nil || cpus != a {
		t.Errorf("%v, %v; want %v", cpus, err, a)
	}
}

func TestNoSuchGroup(t *testing.T) {
	tr := tree(t)
	for path, missing := range map[string]bool{tr.parent + "/nobody": true, "/": false, "": false, "a": false, "/../a": false, "/a\nb": false} {
		_, bound := tr.Bound(path)
		_, cpus := tr.CPUsAt(path)
		for _, err := range []error{bound, cpus} {
			if err == nil || errors.Is(err, ErrNoGroup) != missing {
				t.Errorf("%q: %v", path, err)
			}
		}
	}
}
