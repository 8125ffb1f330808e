package cgroup

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// owned returns the tree of the state owner on the parent of tr.
func owned(t *testing.T, tr *Tree, owner string) *Tree {
	t.Helper()
	other, err := Open(Options{Parent: tr.parent, Driver: Cgroupfs, Owner: owner})
	must(t, err)
	return other
}

// owner checks the owner of the parent.
func owner(t *testing.T, tr *Tree, want string) {
	t.Helper()
	if got, err := tr.Owner(); got != want || err != nil {
		t.Errorf("owner %q, %v; want %q", got, err, want)
	}
}

// TestOwner: a second state cannot create groups while the first state has groups, and the groups of the first stay
// unchanged.
func TestOwner(t *testing.T) {
	unowned := tree(t)
	a, b := two(t, unowned)
	first, second := owned(t, unowned, "/run/first"), owned(t, unowned, "/run/second")
	owner(t, first, "")
	must(t, first.Claim()) // there are no groups yet
	group(t, first, "web", Settings{CPUs: a}, "sleep")
	owner(t, second, "/run/first")

	for call, err := range map[string]error{"Claim": second.Claim(), "Create": second.Group("db").Create(Settings{CPUs: b}, 0)} {
		if !errors.Is(err, ErrOwned) || !strings.Contains(err.Error(), "/run/first") {
			t.Errorf("%s: %v", call, err)
		}
	}
	if err := second.Group("web").Create(Settings{CPUs: b}, 0); !errors.Is(err, ErrOwned) {
		t.Errorf("Create over a group of the first state: %v", err)
	}
	same(t, first.Group("web"), Settings{CPUs: a})
	if is, err := second.Group("db").Exists(); is || err != nil {
		t.Errorf("a refused Create left a group: %v, %v", is, err)
	}
	owner(t, first, "/run/first")
	must(t, first.Claim())

	must(t, first.Group("web").Kill(syscall.SIGKILL))
	must(t, first.Group("web").Remove())
	must(t, second.Claim()) // the first state has no groups now
	owner(t, first, "/run/second")
	must(t, second.Group("db").Create(Settings{CPUs: b}, 0))
	if err := first.Claim(); !errors.Is(err, ErrOwned) {
		t.Errorf("Claim of the first state: %v", err)
	}
	must(t, second.Group("db").Remove())
}

// TestOwnerRace: of two states that claim the parent at the same time, at most one succeeds.
func TestOwnerRace(t *testing.T) {
	unowned := tree(t)
	a, _ := two(t, unowned)
	for range 50 {
		results := make(chan error, 2)
		for _, name := range []string{"first", "second"} {
			tr := owned(t, unowned, "/run/"+name)
			go func() { results <- tr.Group(name).Create(Settings{CPUs: a}, 0) }()
		}
		one, other := <-results, <-results
		if one == nil && other == nil {
			t.Fatal("both have groups")
		}
		for _, name := range []string{"first", "second"} {
			must(t, unowned.Group(name).Remove())
		}
		must(t, unowned.Remove())
	}
}

// TestOwnerOldMark: the old attribute names the owner if the new attribute is missing.
func TestOwnerOldMark(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	must(t, tr.Group("web").Create(Settings{CPUs: a}, 0))
	must(t, unix.Setxattr(tr.cpuset.parent, ownerMark[1], []byte("/run/old"), 0))
	if err := owned(t, tr, "/run/new").Claim(); !errors.Is(err, ErrOwned) {
		t.Errorf("Claim: %v", err)
	}
	must(t, tr.Group("web").Remove())
}

// TestUmask: all users can read groups, for any umask of their creator.
func TestUmask(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	old := unix.Umask(0o077)
	err := tr.Group("web").Create(Settings{CPUs: a}, 0)
	unix.Umask(old)
	must(t, err)
	for _, dir := range append(tr.Group("web").dirs(), tr.cpuset.parent) {
		var stat unix.Stat_t
		must(t, unix.Stat(dir, &stat))
		if stat.Mode&0o777 != 0o755 {
			t.Errorf("%s has mode %o", dir, stat.Mode&0o777)
		}
	}
	must(t, tr.Group("web").Remove())
}
