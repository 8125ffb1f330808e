package experiment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/experiment/probe"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/launch"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
)

// The test binary is also candor's helper, the guard of a lab, and a process with a lab that a test kills. The
// arguments have precedence over the environment, because a guard inherits the environment of its parent.
func init() {
	switch {
	case len(os.Args) == 3 && os.Args[1] == host.HelperCommand:
		fmt.Fprintln(os.Stderr, launch.RunHelper(os.Args[2]))
		os.Exit(1)
	case len(os.Args) > 3 && os.Args[1] == probe.Command:
		fmt.Fprintln(os.Stderr, probe.Become(os.Args[2], os.Args[3:]))
		os.Exit(1)
	case len(os.Args) == 4 && os.Args[1] == GuardCommand:
		if err := RunGuard(os.Args[2], os.Args[3], os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case len(os.Args) == 1 && os.Getenv("EXPERIMENT_TEST_ROLE") == "sleeper":
		l, err := OpenLab(host.Options{StateDir: os.Getenv("EXPERIMENT_TEST_STATE")})
		if err == nil {
			w := workloadOf(time.Hour, "sh", "-c", "echo started >&2; sleep 3600")
			_, err = l.start(context.Background(), &w, &Setup{Kind: None}, "run-0")
		}
		if err == nil {
			err = l.openScratch(os.Getenv("EXPERIMENT_TEST_SCRATCH"), 1)
		}
		fmt.Println("ready", err, l.guard.Process.Pid)
		select {}
	}
}

func workloadOf(timeout time.Duration, command ...string) Workload {
	return Workload{Command: command, Timeout: timeout}
}

// openLab opens a lab. At the end of the test it closes the lab and checks that nothing of it remains.
func openLab(t *testing.T) *Lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("makes cgroups: needs root")
	}
	l, err := OpenLab(host.Options{StateDir: filepath.Join(t.TempDir(), "state"), Config: filepath.Join(t.TempDir(), "host.json")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		for _, left := range remainsOf(l.place) {
			t.Errorf("%s remains after Close", left)
		}
	})
	return l
}

// remainsOf returns the cgroups and directories of a lab that exist.
func remainsOf(p place) (left []string) {
	groups, _ := filepath.Glob("/sys/fs/cgroup/*" + p.parent)
	folders, _ := filepath.Glob(filepath.Join(os.TempDir(), "*", filepath.Base(p.dir)))
	for _, path := range append(append(groups, folders...), "/sys/fs/cgroup"+p.parent, p.dir, p.dir+scratchSuffix) {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			left = append(left, path)
		}
	}
	return left
}

// startSleeper starts a process with a lab in which a program sleeps, and returns it and the PID of its guard.
func startSleeper(t *testing.T) (process *os.Process, guard int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("makes cgroups: needs root")
	}
	folder, err := os.MkdirTemp("", "experiment-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "EXPERIMENT_TEST_ROLE=sleeper", "EXPERIMENT_TEST_STATE="+filepath.Join(t.TempDir(), "state"), "EXPERIMENT_TEST_SCRATCH="+folder)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	word := make([]byte, 64)
	n, _ := out.Read(word)
	if _, err := fmt.Sscanf(string(word[:n]), "ready <nil> %d", &guard); err != nil {
		t.Fatalf("got %q", word[:n])
	}
	if left := remainsOf(placeOf(cmd.Process.Pid)); len(left) < 4 {
		t.Fatalf("the running lab has only %v", left)
	}
	return cmd.Process, guard
}

// TestGuardCleansUp: the process with a lab is killed. Its guard, which ignores SIGTERM, kills the processes
// of the lab and removes the lab.
func TestGuardCleansUp(t *testing.T) {
	process, guard := startSleeper(t)
	syscall.Kill(guard, syscall.SIGTERM) // like systemd at the end of a service
	process.Kill()
	process.Wait()
	p := placeOf(process.Pid)
	deadline := time.Now().Add(30 * time.Second)
	for len(remainsOf(p)) > 0 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if left := remainsOf(p); len(left) > 0 {
		t.Errorf("%v remains 30 s after the end of the process", left)
	}
}

// TestNextLabCleansUp: the guard is killed too. The next lab removes the old lab.
func TestNextLabCleansUp(t *testing.T) {
	process, guard := startSleeper(t)
	syscall.Kill(guard, syscall.SIGKILL)
	process.Kill()
	process.Wait()
	openLab(t)
	if left := remainsOf(placeOf(process.Pid)); len(left) > 0 {
		t.Errorf("%v remains after the next lab was opened", left)
	}
}

// TestNoLabInGuard: OpenLab fails in the environment of a guard, because the new lab would start a guard in
// turn.
func TestNoLabInGuard(t *testing.T) {
	l := openLab(t)
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", l.guard.Process.Pid))
	if err != nil || !bytes.Contains(environment, []byte(guardVariable+"=1\x00")) {
		t.Errorf("the guard's environment (%v) has no %s", err, guardVariable)
	}
	t.Setenv(guardVariable, "1")
	if other, err := OpenLab(host.Options{StateDir: filepath.Join(t.TempDir(), "state")}); !errors.Is(err, ErrInGuard) {
		t.Errorf("%v, want ErrInGuard", err)
		if err == nil {
			other.Close()
		}
	}
}

// TestLabBesideContainers: a lab uses neither reserved CPUs nor exclusive CPUs of containers on the machine.
func TestLabBesideContainers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("makes cgroups: needs root")
	}
	machine := host.Options{
		StateDir: filepath.Join(t.TempDir(), "state"), Config: filepath.Join(t.TempDir(), "host.json"),
		Cgroup: cgroup.Options{Parent: fmt.Sprintf("/candor-experiment-test-%d", os.Getpid()), Driver: cgroup.Cgroupfs},
	}
	h, err := host.Open(machine)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	defer h.Clear(context.Background())
	all, err := h.Usable()
	if err != nil || all.Count() < 2 {
		t.Skipf("%v, %v: needs two CPUs", all, err)
	}
	a := host.Allocation{
		Request: hybrid.Request{ID: "web", Limit: 1000},
		Spec:    spec.Spec{Period: bandwidth.DefaultPeriod, View: spec.ViewAffinity, OnResize: "none"},
	}
	child, err := launch.Start(context.Background(), h, a, launch.Program{Path: "/bin/sleep", Args: []string{"sleep", "1000"}}, [3]*os.File{os.Stdin, os.Stdout, os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	l, err := OpenLab(machine)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if want := all.Minus(child.Grant.CPUs); l.usable != want {
		t.Errorf("the lab has %v, want %v", l.usable, want)
	}
	mask, _ := ParseMetric(`on (\d+)$`)
	e := Experiment{Workload: workloadOf(time.Minute, "sh", "-c", "echo on $(nproc)"), Setups: setupsOf(t, 500, "candor"), Rounds: 2}
	e.Workload.Metrics = []Metric{mask}
	r, err := e.Run(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	if values, _ := r.Values(0, mask.Name); !slices.Equal(values, []float64{1, 1}) {
		t.Errorf("%v, want 1 CPU twice", values)
	}
	if err := h.SetOptions(host.NodeOptions{Reserved: all.Minus(child.Grant.CPUs)}); err != nil {
		t.Fatal(err)
	}
	if other, err := OpenLab(machine); !errors.Is(err, ErrTooSmall) {
		t.Errorf("no usable CPUs: %v, want ErrTooSmall", err)
		other.Close()
	}
}
