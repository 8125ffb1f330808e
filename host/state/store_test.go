package state

import (
	"os"
	"testing"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/spec"
)

// A state written by this process is read again after another process has written the file, even with the same size.
func TestLastAt(t *testing.T) {
	s := NewStore(t.TempDir())
	for _, name := range []string{"web", "log"} {
		g := Grant{
			State: Running,
			Spec:  spec.Spec{Period: bandwidth.DefaultPeriod, View: spec.ViewCPU, OnResize: "none", Command: "test"},
		}
		g.Request, g.CPUs, g.Exclusive = hybrid.Request{ID: name, Limit: 1000}, cpuset.Of(1), cpuset.Of(1)
		next, isChanged, err := s.cache.last.Load().Next("b", []*Grant{&g})
		if err == nil && !isChanged {
			t.Fatalf("with %s it is not another state", name)
		}
		if err == nil {
			err = s.Save(next)
		}
		if err != nil {
			t.Fatal(err)
		}
		if last := s.cache.lastAt(s.File()); last != next {
			t.Fatalf("saved with %s, it is not known to be there", name)
		}
	}
	is := func(when, want string) {
		t.Helper()
		if s.cache.lastAt(s.File()) != nil {
			t.Errorf("%s: taken for what was written", when)
		}
		if loaded, err := s.Load(); err != nil || loaded.Boot != want {
			t.Errorf("%s: loaded %+v, %v; want boot %q", when, loaded, err, want)
		}
	}
	text := func(boot string) []byte {
		return textOf(State{Boot: boot, Grants: s.cache.last.Load().Grants})
	}
	if err := fileio.Replace(s.File(), text("c")); err != nil {
		t.Fatal(err)
	}
	is("replaced by another", "c")
	again, _, err := s.cache.last.Load().Next("d", s.cache.last.Load().Grants)
	if err == nil {
		err = s.Save(again)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.File(), append(text("e"), '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	is("edited where it is", "e")
	if err := os.Remove(s.File()); err != nil {
		t.Fatal(err)
	}
	is("removed", "")
}
