package cgroup

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
)

// keepOpen closes all cached files and sets the limit of the cache.
func keepOpen(tr *Tree, limit int) {
	tr.KeepOpen(0)
	tr.KeepOpen(limit)
}

// openHere returns the open files of this process below dir.
func openHere(t testing.TB, dir string) (paths []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	for _, entry := range entries {
		if path, _ := os.Readlink("/proc/self/fd/" + entry.Name()); strings.HasPrefix(path, dir+"/") {
			paths = append(paths, path)
		}
	}
	return paths
}

// TestKeepOpen: a cached file shows the writes of other programs, and the values of a recreated group.
func TestKeepOpen(t *testing.T) {
	tr := tree(t)
	a, b := two(t, tr)
	keepOpen(tr, 100)
	for round := range 3 {
		g, _ := group(t, tr, "web", Settings{CPUs: a, Quota: 50 * time.Millisecond}, "wait")
		dir := g.dir(tr.cpuset)
		for i, want := range []cpuset.Set{a, b, a.Union(b), a} {
			if i%2 == 0 {
				must(t, g.SetCPUs(want, cpuset.Set{}))
			} else {
				must(t, os.WriteFile(dir+"/"+cpusFile, []byte(want.String()), 0))
			}
			if got, err := g.CPUs(); err != nil || got != want {
				t.Fatalf("round %d: %v, %v, want %v", round, got, err, want)
			}
			if text, err := os.ReadFile(dir + "/" + cpusFile); err != nil || strings.TrimSpace(string(text)) != want.String() {
				t.Fatalf("round %d: the kernel has %q, want %v", round, text, want)
			}
			if got, err := g.Settings(); err != nil || got.CPUs != want || got.Quota != 50*time.Millisecond {
				t.Fatalf("round %d: %+v, %v, want %v", round, got, err, want)
			}
		}
		if len(openHere(t, dir)) == 0 {
			t.Fatal("no file is open")
		}
		must(t, g.End())
		must(t, g.Remove())
		if _, err := g.CPUs(); err == nil {
			t.Fatal("a removed group has CPUs")
		}
	}
}

// TestRefusalByCachedFile: if the kernel refuses a write, the caller gets the error and the file stays open.
// A read-only file is cached for reading.
func TestRefusalByCachedFile(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	keepOpen(tr, 100)
	g, _ := group(t, tr, "web", Settings{CPUs: a}, "wait")
	dir := g.dir(tr.cpuset)
	var refused *WriteError
	if err := tr.open.write(dir, cpusFile, "no list"); !errors.As(err, &refused) || !errors.Is(err, unix.EINVAL) {
		t.Errorf("%v, want EINVAL", err)
	}
	if cpus, err := g.CPUs(); err != nil || cpus != a || len(openHere(t, dir)) != 1 {
		t.Errorf("%v, %v, open %v; want %v and the list", cpus, err, openHere(t, dir), a)
	}
	readOnly := t.TempDir()
	must(t, unix.Mount(tr.cpuset.mount, readOnly, "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(readOnly, unix.MNT_DETACH)) })
	must(t, unix.Mount("", readOnly, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	there := readOnly + strings.TrimPrefix(dir, tr.cpuset.mount)
	for range 2 {
		if cpus, err := tr.readSet(there, cpusFile); err != nil || cpus != a {
			t.Errorf("%v, %v, want %v", cpus, err, a)
		}
		if err := tr.open.write(there, cpusFile, a.String()); !errors.Is(err, unix.EROFS) {
			t.Errorf("%v, want EROFS", err)
		}
	}
	if open := openHere(t, there); len(open) != 1 {
		t.Errorf("open: %v, want the list", open)
	}
	tr.KeepOpen(0)
}

// TestCloseUnused: the cache has a limit, CloseUnused closes unused files, and KeepOpen(0) and Close close
// all files.
func TestCloseUnused(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	others := 0 // open files of Go's runtime
	all := func() (n int) {
		for _, h := range tr.all {
			n += len(openHere(t, h.mount))
		}
		return n - others
	}
	keepOpen(tr, 5)
	others = all()
	var groups []*Group
	for i := range 4 {
		g, _ := group(t, tr, fmt.Sprint("web", i), Settings{CPUs: a}, "wait")
		groups = append(groups, g)
		_, err := g.Settings()
		must(t, err)
	}
	if n := all(); n != 5 {
		t.Errorf("%d files are open, want 5", n)
	}
	for range 4 {
		tr.CloseUnused()
		if cpus, err := groups[0].CPUs(); err != nil || cpus != a {
			t.Errorf("%v, %v, want %v", cpus, err, a)
		}
	}
	if open := openHere(t, groups[0].dir(tr.cpuset)); len(open) != 1 || all() != 1 {
		t.Errorf("open: %v and %d in all, want the list of CPUs that is read", open, all())
	}
	tr.KeepOpen(0)
	if n := all(); n != 0 {
		t.Errorf("%d files are open after KeepOpen(0)", n)
	}
	tr.KeepOpen(5)
	_, err := groups[0].CPUs()
	must(t, err)
	other, err := Open(Options{Parent: tr.parent, Driver: Cgroupfs})
	must(t, err)
	must(t, other.Close())
	if n := all(); n != 1 {
		t.Errorf("%d files are open after another tree was closed, want 1", n)
	}
	must(t, tr.Close())
	if n := all(); n != 0 {
		t.Errorf("%d files are open after Close", n)
	}
	if cpus, err := groups[1].CPUs(); err != nil || cpus != a || all() != 0 {
		t.Errorf("%v, %v, %d open, want %v and none", cpus, err, all(), a)
	}
}

func BenchmarkCPUs(b *testing.B) {
	tr := tree(b)
	cpus, _, err := tr.Effective()
	must(b, err)
	g, _ := group(b, tr, "web", Settings{CPUs: cpus}, "wait")
	for name, limit := range map[string]int{"opened": 0, "cached": 10} {
		b.Run(name, func(b *testing.B) {
			keepOpen(tr, limit)
			for b.Loop() {
				if _, err := g.CPUs(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
