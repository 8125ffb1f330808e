package host

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
)

// play starts a process in a group as a runtime does.
func (l *lab) play(name string) *exec.Cmd {
	l.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "HOST_TEST_ROLE=wait")
	if _, err := cmd.StdinPipe(); err != nil {
		l.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	pid := []byte(strconv.Itoa(cmd.Process.Pid))
	for _, h := range []string{"cpuset", "cpu", "cpuacct", "freezer", ""} { // the hierarchies of v1, or v2
		err := os.WriteFile("/sys/fs/cgroup/"+h+l.parent+"/"+name+"/cgroup.procs", pid, 0)
		if err != nil && !os.IsNotExist(err) {
			l.Fatal(err)
		}
	}
	return cmd
}

// A runtime puts the container into the prepared cgroup. Changes between the plan and the start reach the cgroup
// before the program runs.
func TestConfirmOCIStart(t *testing.T) {
	l := newLab(t)
	cpus := l.needCPUs(2)
	g, err := l.Allocate(ctx, ask("web", "1"))
	if err != nil {
		t.Fatal(err)
	}
	if g.State != Pending {
		t.Errorf("%+v", g)
	}
	if err := l.ConfirmOCIStart(ctx, "web", os.Getpid()); !errors.Is(err, ErrElsewhere) {
		t.Errorf("without a group: %v", err)
	}
	if err := l.Prepare(ctx, "web"); err != nil {
		t.Fatal(err)
	}
	if has, err := l.tree.Group("web").Settings(); err != nil || has.CPUs != g.CPUs {
		t.Errorf("prepared: %v %v", has, err)
	}
	if err := l.ConfirmOCIStart(ctx, "web", os.Getpid()); !errors.Is(err, ErrElsewhere) {
		t.Errorf("with nothing in its group: %v", err)
	}
	main := l.play("web")
	// The runtime writes the planned values, or arbitrary values.
	if err := l.tree.Group("web").SetCPUs(cpuset.Of(cpus...), cpuset.Set{}); err != nil {
		t.Fatal(err)
	}
	if err := l.ConfirmOCIStart(ctx, "web", main.Process.Pid); err != nil {
		t.Fatal(err)
	}
	s, err := l.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	now, err := s.Grant("web")
	if err != nil || now.State != Running || now.Main.PID != main.Process.Pid {
		t.Errorf("%+v %v", now, err)
	}
	l.play("web")
	if first := l.FirstIn("web", l.parent+"/web"); first != main.Process.Pid {
		t.Errorf("first process %d, want %d", first, main.Process.Pid)
	}
	if first := l.FirstIn("web", l.parent+"/nobody"); first != 0 {
		t.Errorf("first process %d of a missing group", first)
	}
	if has, err := l.tree.Group("web").Settings(); err != nil || has.CPUs != g.CPUs {
		t.Errorf("started: %v %v, want %v", has, err, g.CPUs)
	}
	if err := l.Prepare(ctx, "nobody"); err == nil || !strings.Contains(err.Error(), "no container has that name") {
		t.Errorf("a cgroup for an unknown container: %v", err)
	}
}
