package cgroup

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestKill(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	g, _ := group(t, tr, "web", Settings{CPUs: a}, "")
	cmds := map[string]int{}
	for i, mode := range []string{"sleep", "spin", "stubborn"} {
		pid := start(t, mode).pid()
		cmds[mode] = pid
		dir := nest(t, g, fmt.Sprint("n", i), a)
		must(t, attach(dir, pid))
	}
	if is, err := g.Populated(); !is || err != nil {
		t.Errorf("Populated = %v, %v with processes in nested groups", is, err)
	}
	must(t, g.Kill(syscall.SIGTERM))
	eventually(t, "SIGTERM ends all processes but the stubborn child", func() bool {
		pids, err := g.Processes()
		must(t, err)
		return len(pids) == 1 && pids[0] == cmds["stubborn"]
	})
	if err := g.Remove(); !errors.Is(err, ErrBusy) {
		t.Errorf("Remove: %v, want ErrBusy", err)
	}
	if nested, err := subgroups(g.dir(tr.cpuset)); err != nil || len(nested) != 3 {
		t.Errorf("a refused Remove left only %v, %v", nested, err)
	}
	must(t, g.Kill(syscall.SIGKILL))
	must(t, g.Remove())
}

// TestKillMoving kills a process that keeps starting a successor and exiting.
func TestKillMoving(t *testing.T) {
	tr := tree(t)
	a, b := two(t, tr)
	for range 5 {
		first := start(t, "launch "+time.Now().Add(5*time.Minute).Format(time.RFC3339))
		g := tr.Group("web")
		must(t, g.Create(Settings{CPUs: a.Union(b)}, first.pid()))
		first.in.Write([]byte("x"))
		seen := map[int]bool{}
		eventually(t, "it has moved", func() bool {
			pids, err := g.Processes()
			must(t, err)
			for _, pid := range pids {
				seen[pid] = true
			}
			return len(seen) > 3
		})
		must(t, g.Kill(syscall.SIGKILL))
		if is, err := g.Populated(); is || err != nil {
			t.Errorf("Populated = %v, %v after Kill", is, err)
		}
		must(t, g.Remove())
	}
}

func TestKillRefusesOwnProcess(t *testing.T) {
	tr := tree(t)
	cpus, _, err := tr.Effective()
	must(t, err)
	before, err := tr.groupDirsOf(os.Getpid())
	must(t, err)
	g := tr.Group("self")
	must(t, g.Create(Settings{CPUs: cpus}, os.Getpid()))
	err = g.Kill(syscall.SIGKILL)
	must(t, tr.enter(before, os.Getpid(), before))
	if err == nil || !strings.Contains(err.Error(), "this process") {
		t.Error(err)
	}
}

// TestKillFrozen kills the processes of a group that another program has frozen, with and without a freezer.
func TestKillFrozen(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	g, _ := group(t, tr, "web", Settings{CPUs: a}, "sleep")
	_, err := g.freeze()
	must(t, err)
	must(t, g.Kill(syscall.SIGKILL))
	must(t, g.Remove())

	group(t, tr, "web", Settings{CPUs: a}, "spin")
	must(t, g.killRemaining()) // the fallback without freezer and cgroup.kill
	must(t, g.Remove())
}

// TestKillReusedID: if the kernel reuses a process ID after the list of processes was read, signalChecked
// does not signal the new process.
func TestKillReusedID(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	g, _ := group(t, tr, "web", Settings{CPUs: a}, "")
	unrelated := start(t, "sleep").Process
	if n, err := g.signalChecked([]int{unrelated.Pid}, syscall.SIGKILL); n != 0 || err != nil {
		t.Errorf("%d signals, %v", n, err)
	}
	if err := unrelated.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the unrelated process: %v", err)
	}
}
