package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
)

// TestNestedShrink changes the CPUs of a group with nested groups, such as those of a container engine or
// systemd in a container.
func TestNestedShrink(t *testing.T) {
	tr := tree(t)
	a, b := two(t, tr)
	both := a.Union(b)
	g, _ := group(t, tr, "web", Settings{CPUs: both}, "")
	dirs := map[string]string{
		"whole": nest(t, g, "engine/whole", both),
		"first": nest(t, g, "engine/first", a),
		"last":  nest(t, g, "engine/last", b),
	}
	pids := map[string]int{}
	for name, dir := range dirs {
		pids[name] = start(t, "spin").pid()
		must(t, attach(dir, pids[name]))
	}
	check := func(step string, want map[string]cpuset.Set) {
		t.Helper()
		for name, cpus := range want {
			if got := affinity(t, pids[name]); got != cpus {
				t.Errorf("%s: the process in %q may run on %v, want %v", step, name, got, cpus)
			}
		}
	}
	check("start", map[string]cpuset.Set{"whole": both, "first": a, "last": b})
	must(t, g.SetCPUs(a, cpuset.Set{}))
	check("shrink", map[string]cpuset.Set{"whole": a, "first": a, "last": a})
	must(t, g.SetCPUs(b, cpuset.Set{}))
	check("move", map[string]cpuset.Set{"whole": b, "first": b, "last": b})
	must(t, g.SetCPUs(both, cpuset.Set{}))
	check("grow", map[string]cpuset.Set{"whole": both})
}

// TestNestedHistories applies random changes to groups with random nested groups.
func TestNestedHistories(t *testing.T) {
	tr := tree(t)
	cpus, _, err := tr.Effective()
	must(t, err)
	cpus = cpus.Lowest(4)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		subset := rapid.Custom(func(rt *rapid.T) cpuset.Set {
			var s cpuset.Set
			for cpu := range cpus.All() {
				if rapid.Bool().Draw(rt, "has") {
					s.Add(cpu)
				}
			}
			if s.IsEmpty() {
				s = cpus.Lowest(1)
			}
			return s
		})
		n++
		g, _ := group(t, tr, fmt.Sprintf("h%d", n), Settings{CPUs: subset.Draw(rt, "first")}, "")
		defer g.Remove()
		nested := rapid.IntRange(0, 4).Draw(rt, "nested")
		for i := range nested {
			below := g.dir(tr.cpuset)
			path := fmt.Sprint("n", i)
			if i > 0 && rapid.Bool().Draw(rt, "deeper") {
				path = "n0/" + path
				below += "/n0"
			}
			has, err := tr.readEffective(below, cpusFile)
			must(t, err)
			want := subset.Draw(rt, "nested set").Intersect(has)
			if rapid.Bool().Draw(rt, "whole") {
				want = has
			}
			nest(t, g, path, want)
		}
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			whole := wholes(t, tr, g)
			next := subset.Draw(rt, "next")
			if err := g.SetCPUs(next, cpuset.Set{}); err != nil {
				rt.Fatal(err)
			}
			verify(rt, tr, g, next, whole)
		}
	})
}

// wholes returns the nested groups that have the same cpuset.cpus as g, and whose parents up to g do too.
func wholes(t testing.TB, tr *Tree, g *Group) []string {
	top := g.dir(tr.cpuset)
	all, err := tr.readSet(top, cpusFile)
	must(t, err)
	var found []string
	walk(t, top, func(dir string) {
		for d := dir; d != top; d = filepath.Dir(d) {
			if set, _ := tr.readSet(d, cpusFile); set != all {
				return
			}
		}
		found = append(found, dir)
	})
	return found
}

func walk(t testing.TB, dir string, visit func(string)) {
	nested, err := subgroups(dir)
	must(t, err)
	for _, child := range nested {
		visit(child)
		walk(t, child, visit)
	}
}

// verify checks that g has the CPUs next, that each nested group has some of them, and that the groups in
// whole have all.
func verify(t *rapid.T, tr *Tree, g *Group, next cpuset.Set, whole []string) {
	top := g.dir(tr.cpuset)
	if got, _ := tr.readSet(top, cpusFile); got != next {
		t.Fatalf("the group has %v, want %v", got, next)
	}
	dirs := []string{top}
	for len(dirs) > 0 {
		dir := dirs[0]
		nested, err := subgroups(dir)
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs[1:], nested...)
		effective, err := tr.readEffective(dir, cpusFile)
		if err != nil || effective.IsEmpty() || !effective.SubsetOf(&next) {
			t.Fatalf("%s may use %v, %v; want some of %v", dir, effective, err, next)
		}
		if set, _ := tr.readSet(dir, cpusFile); slices.Contains(whole, dir) && set != next {
			t.Fatalf("%s had all and has %v now, want %v", dir, set, next)
		}
	}
}

// TestNestedRace changes a group while groups in it are created and removed.
func TestNestedRace(t *testing.T) {
	tr := tree(t)
	a, b := two(t, tr)
	g, _ := group(t, tr, "web", Settings{CPUs: a}, "")
	top := g.dir(tr.cpuset)
	if tr.cpuset.v2 {
		enable(t, top, []string{"cpuset"})
	}
	stop, done := make(chan bool), make(chan int)
	go func() {
		made := 0
		for {
			select {
			case <-stop:
				done <- made
				return
			default:
			}
			dir := fmt.Sprintf("%s/n%d", top, made%3)
			os.Mkdir(dir, 0o755)
			if has, err := tr.readSet(top, cpusFile); err == nil {
				_ = tr.writeSet(dir, cpusFile, has) // may lose the race too
			}
			made++
			unix.Rmdir(fmt.Sprintf("%s/n%d", top, made%3))
		}
	}()
	for i := range 300 {
		next := []cpuset.Set{a, b, a.Union(b)}[i%3]
		if err := g.SetCPUs(next, cpuset.Set{}); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	if made := <-done; made < 100 {
		t.Errorf("only %d groups were made meanwhile: no race", made)
	}
}
