package cgroup

import (
	"os"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
)

// A group that is moved stops asking for its load to be balanced while the root does, and asks again when it does not.
func TestMindBalance(t *testing.T) {
	tr := tree(t)
	if tr.cpuset.v2 {
		t.Skip("v2 does not ask groups")
	}
	a, b := two(t, tr)
	keepOpen(t, 100)
	mayCalm.Store(false)
	g, _ := group(t, tr, "web", Settings{CPUs: a}, "wait")
	other, _ := group(t, tr, "other", Settings{CPUs: a}, "wait")
	asks := func(g *Group) string {
		text, err := os.ReadFile(g.dir(tr.cpuset) + "/" + balanceFile)
		must(t, err)
		return strings.TrimSpace(string(text))
	}
	move := func(to cpuset.Set, want string) {
		t.Helper()
		must(t, tr.MindBalance())
		must(t, g.SetCPUs(to, cpuset.Set{}))
		_, err := other.CPUs()
		must(t, err)
		if got := asks(g); got != want || asks(other) != "1" {
			t.Errorf("asks for balance: %s, and another that was not moved %s; want %s and 1", got, asks(other), want)
		}
	}
	root := tr.cpuset.mount + "/" + balanceFile
	if text, err := os.ReadFile(root); err != nil || string(text) != "1\n" {
		t.Skipf("the root does not balance load: %q, %v", text, err)
	}
	t.Cleanup(func() {
		mayCalm.Store(false)
		must(t, os.WriteFile(root, []byte("1"), 0))
	})
	move(b, "0")
	move(a, "0")
	must(t, os.WriteFile(root, []byte("0"), 0))
	move(b, "1")
	must(t, os.WriteFile(root, []byte("1"), 0))
	move(a, "0")
}
