package host

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host/state"
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

// RunningBundles lists a container from its allocation until its processes have ended, and not a bundle that is left over.
func TestRunningBundles(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	check := func(when string, want ...string) {
		t.Helper()
		if ids, err := l.RunningBundles(); err != nil || !slices.Equal(ids, want) {
			t.Errorf("%s: %q, %v; want %q", when, ids, err, want)
		}
	}
	check("without bundles")
	for _, id := range []string{"web", "left"} {
		if err := os.MkdirAll(l.BundleDir(id), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Allocate(ctx, ask("web", "1")); err != nil {
		t.Fatal(err)
	}
	check("pending", "web")
	if err := l.Prepare(ctx, "web"); err != nil {
		t.Fatal(err)
	}
	main := l.play("web")
	if err := l.ConfirmOCIStart(ctx, "web", main.Process.Pid); err != nil {
		t.Fatal(err)
	}
	check("running", "web")
	if err := os.WriteFile(l.store.File(), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("with a broken state", "web")
	main.Process.Kill()
	main.Wait()
	check("ended")
}

// RunningBundles also lists containers that Candor does not manage, while the process of their preserved CPUs lives.
func TestRunningBundlesPreserved(t *testing.T) {
	h, err := Open(Options{StateDir: filepath.Join(t.TempDir(), "state"), Cgroup: cgroup.Options{Parent: "/candor-host-test-none", Driver: cgroup.Cgroupfs, ReadOnly: true}})
	if err != nil {
		t.Skip(err)
	}
	defer h.Close()
	if ids, err := h.RunningBundles(); ids != nil || err != nil {
		t.Errorf("without a state: %q, %v", ids, err)
	}
	own, err := state.OwnProcess()
	if err != nil {
		t.Fatal(err)
	}
	for id, by := range map[string]state.Process{"lives": own, "ended": {PID: own.PID, Start: own.Start + 1}} {
		if err := os.MkdirAll(h.BundleDir(id), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := h.store.SavePreserved(id, state.Preserved{CPUs: cpuset.Of(0), By: by}); err != nil {
			t.Fatal(err)
		}
	}
	if ids, err := h.RunningBundles(); !slices.Equal(ids, []string{"lives"}) || err != nil {
		t.Errorf("%q, %v; want lives", ids, err)
	}
}
