package twins

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
)

// groups creates groups with the names, with a process in each of them, and returns the groups and the processes.
func groups(t *testing.T, settings cgroup.Settings, names ...string) (all []*cgroup.Group, pids []int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("makes cgroups: needs root")
	}
	tree, err := cgroup.Open(cgroup.Options{Parent: fmt.Sprintf("/candor-twins-test-%d", os.Getpid()), Driver: cgroup.Cgroupfs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, g := range all {
			if err := g.End(); err != nil {
				t.Error(err)
			}
		}
		if err := tree.Remove(); err != nil {
			t.Error(err)
		}
	})
	if settings.CPUs, _, err = tree.Effective(); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		process := exec.Command("sleep", "1000")
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { process.Process.Kill(); process.Wait() })
		g := tree.Group(name)
		if err := g.Create(settings, process.Process.Pid); err != nil {
			t.Fatal(err)
		}
		all, pids = append(all, g), append(pids, process.Process.Pid)
	}
	return all, pids
}

const quota = 50 * time.Millisecond

// TestDifferences: each file with a different content is in the result.
func TestDifferences(t *testing.T) {
	all, pids := groups(t, cgroup.Settings{Quota: quota}, "given", "plain")
	p := Pair{Name: "web", Given: pids[0], Plain: pids[1], Parents: 1}
	if lines, err := p.Differences(); err != nil || lines != "" {
		t.Errorf("equal groups: %q, %v", lines, err)
	}
	if err := all[0].SetCPULimits(cgroup.CPULimits{Quota: 2 * quota, Weight: 77}); err != nil {
		t.Fatal(err)
	}
	if lines, err := p.Differences(); err != nil || strings.Count(lines, "\n") != 2 || !strings.Contains(lines, `"77", without Candor`) {
		t.Errorf("another quota and weight: %q, %v", lines, err)
	}
	if err := Check([]*Pair{&p}); err == nil || !strings.HasPrefix(err.Error(), "web: cpu.") {
		t.Errorf("error %v", err)
	}
	if _, err := Read(1<<30, 0); err == nil {
		t.Error("a missing process has settings")
	}
}

// A slowProgram changes a group every 3 ms.
type slowProgram struct {
	stop       chan struct{}
	wait       sync.WaitGroup
	isComplete atomic.Bool
}

func (p *slowProgram) Kill()            { close(p.stop); p.wait.Wait() }
func (p *slowProgram) IsComplete() bool { return p.isComplete.Load() }

// TestKiller: a Killer reaches its wanted number of kills in the middle of a program that takes 30 ms.
func TestKiller(t *testing.T) {
	const count = 10
	names := []string{"plain"}
	for i := range count {
		names = append(names, fmt.Sprint("web", i))
	}
	all, pids := groups(t, cgroup.Settings{Quota: 2 * quota}, names...)
	var pairs []*Pair
	for i := range count {
		pairs = append(pairs, &Pair{Name: names[i+1], Given: pids[i+1], Plain: pids[0]})
	}
	set := func(g *cgroup.Group, to time.Duration) {
		if err := g.SetQuota(to, 0); err != nil {
			t.Error(err)
		}
	}
	k := NewKiller(t)
	k.Wanted = 4
	k.Rounds(t, func(int) {
		for _, g := range all[1:] {
			set(g, quota)
		}
		k.Interrupt(t, pairs, func() Program {
			p := &slowProgram{stop: make(chan struct{})}
			p.wait.Go(func() {
				for _, g := range all[1:] {
					select {
					case <-p.stop:
						return
					case <-time.After(3 * time.Millisecond):
						set(g, 2*quota)
					}
				}
				p.isComplete.Store(true)
			})
			return p
		})
	})
	if k.Middle != k.Wanted {
		t.Errorf("%d kills in the middle, want %d", k.Middle, k.Wanted)
	}
}
