package host

import (
	"maps"
	"slices"
	"testing"

	"github.com/candor-project/candor/cgroup"
)

// What was given several times is told once, and all of it; who tells takes a few at a time.
func TestUntold(t *testing.T) {
	u := untold{some: make(chan struct{}, 1)}
	u.add("web", cgroup.Untold{CPUs: true})
	u.add("log", cgroup.Untold{CPUs: true})
	u.add("web", cgroup.Untold{Time: true})
	u.add("app", cgroup.Untold{Time: true})
	if len(u.some) != 1 {
		t.Error("nobody is told that there are some")
	}
	if want := []string{"app", "log", "web"}; !slices.Equal(slices.Sorted(maps.Keys(u.all)), want) {
		t.Errorf("%v; want %v", u.all, want)
	}
	first, left := u.take(2)
	if !left || len(first) != 2 || first[0] != (cgroup.Untold{Time: true}) || first[1] != (cgroup.Untold{CPUs: true}) {
		t.Errorf("first %+v, left %v", first, left)
	}
	if rest, left := u.take(2); left || len(rest) != 1 || rest[0] != (cgroup.Untold{CPUs: true, Time: true}) {
		t.Errorf("then %+v, left %v", rest, left)
	}
	if none, left := u.take(2); left || len(none) != 0 {
		t.Errorf("at last %+v, left %v", none, left)
	}
}
