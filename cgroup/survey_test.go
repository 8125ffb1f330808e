package cgroup

import (
	"errors"
	"testing"
)

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
