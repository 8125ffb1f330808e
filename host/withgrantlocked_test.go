package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
)

// No operation runs while a runtime writes a container's cgroup, and Candor restores the grant afterwards.
func TestWithGrantLocked(t *testing.T) {
	l := newLab(t)
	cpus := l.needCPUs(2)
	web := l.must(ask("web", "1"), "wait")
	called := false
	err := l.WithGrantLocked(ctx, "web", func(g *Grant) {
		called = true
		if g.CPUs != web.CPUs || g.Limit != 1000 {
			t.Errorf("%+v, want %+v", g, web.Grant)
		}
		done, cancel := context.WithCancel(ctx)
		cancel() // a canceled operation takes only a free lock
		if _, err := l.Allocate(done, ask("other", "1")); !errors.Is(err, ErrInterrupted) {
			t.Errorf("another operation meanwhile: %v", err)
		}
		if err := l.tree.Group("web").SetCPUs(cpuset.Of(cpus...), cpuset.Set{}); err != nil {
			t.Error(err)
		}
	})
	if err != nil || !called {
		t.Fatalf("called: %v, %v", called, err)
	}
	l.check("web")
	if has, err := l.tree.Group("web").Settings(); err != nil || has.CPUs != web.CPUs || has.Quota > 100*time.Millisecond {
		t.Errorf("the kernel has %+v (%v), want CPUs %v", has, err, web.CPUs)
	}
	err = l.WithGrantLocked(ctx, "nobody", func(*Grant) { t.Error("called for an unknown container") })
	if !errors.Is(err, hybrid.ErrUnknownID) {
		t.Errorf("unknown container: %v", err)
	}
}

// SweepBundles removes only the bundles of containers that do not exist.
func TestSweepBundles(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	if err := l.SweepBundles(ctx); err != nil {
		t.Errorf("without any: %v", err)
	}
	l.must(ask("web", "1"), "wait")
	self, err := state.ProcessOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, by := range map[string]Process{"kept": self, "unmade": {PID: self.PID, Start: self.Start + 1}} {
		if err := l.store.SavePreserved(name, state.Preserved{By: by}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"gone", "kept", "unmade", "web"} {
		if err := os.MkdirAll(filepath.Join(l.BundleDir(name), "more"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.SweepBundles(ctx); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(l.BundleDir("*"))
	if want := []string{l.BundleDir("kept"), l.BundleDir("web")}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left: %v (%v), want %v", left, err, want)
	}
}
