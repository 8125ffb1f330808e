package cgroup

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
)

// The tests start this test binary as their child processes. The variable selects the child's role.
const childEnv = "CANDOR_CGROUP_CHILD"

func TestMain(m *testing.M) {
	mode, arg, _ := strings.Cut(os.Getenv(childEnv), " ")
	switch mode {
	case "":
		os.Exit(m.Run())
	case "launch":
		launch(arg)
	case "hop":
		hop(arg)
	case "user":
		asUser(arg)
	case "contained":
		contained(arg)
	case "memory":
		holdMemory(arg)
	default:
		child(mode)
	}
}

// child lives until its standard input ends, so it can't outlive the test.
func child(mode string) {
	runtime.GOMAXPROCS(4)
	if mode == "stubborn" {
		signal.Ignore(syscall.SIGTERM)
	}
	if mode == "spin" {
		go func() {
			for n := 0; ; n++ {
			}
		}()
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
}

// launch reads a byte, then starts a chain of processes: each starts its successor and exits, until the
// deadline.
func launch(deadline string) {
	fmt.Println("ready")
	io.ReadFull(os.Stdin, make([]byte, 1))
	hop(deadline)
	io.Copy(io.Discard, os.Stdin)
}

// hop starts the next process of the chain.
func hop(deadline string) {
	end, err := time.Parse(time.RFC3339, deadline)
	if err != nil || time.Now().After(end) {
		return
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"=hop "+deadline)
	cmd.Start()
}

// A process is a child and its standard input.
type process struct {
	*exec.Cmd
	in io.WriteCloser
}

func (p process) pid() int { return p.Process.Pid }

// start runs a child and returns when it is ready.
func start(t testing.TB, mode string) process {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"="+mode)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("child %s: got %q, %v", mode, line, err)
	}
	return process{cmd, in}
}

// tree opens the machine's cgroups with a parent group of the test process. At the end of the test, the
// parent and all groups in it are removed.
func tree(t testing.TB) *Tree {
	t.Helper()
	return treeBelow(t, fmt.Sprintf("/candor-test-%d", os.Getpid()), Cgroupfs)
}

// treeBelow is tree with another parent and driver.
func treeBelow(t testing.TB, parent string, driver Driver) *Tree {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make control groups")
	}
	tr, err := Open(Options{Parent: parent, Driver: driver})
	if err != nil {
		t.Fatal(err)
	}
	cpus, _, err := tr.Effective()
	if err != nil {
		t.Fatal(err)
	}
	if cpus.Count() < 2 {
		t.Skipf("needs 2 CPUs, this machine gives %v", cpus)
	}
	if os.Getenv("CANDOR_KEEP_OPEN") != "" { // as in a daemon
		tr.KeepOpen(1000)
	}
	t.Cleanup(func() { sweep(t, tr) })
	return tr
}

// sweep removes a tree with all its groups, and fails the test if it cannot.
func sweep(t testing.TB, tr *Tree) {
	t.Helper()
	names, err := tr.Groups()
	if err != nil {
		t.Error(err)
	}
	for _, name := range names {
		if err := tr.Group(name).End(); err != nil { // systemd can have removed a scope whose process has ended
			t.Error(err)
		}
	}
	if err := tr.Remove(); err != nil {
		t.Error(err)
	}
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
	for _, h := range tr.all {
		if _, err := os.Stat(h.parent); err == nil && tr.driver == Cgroupfs {
			t.Errorf("%s is left", h.parent)
		}
	}
}

// group makes a group with these settings. Unless mode is empty, it starts a child of this mode in the group
// and returns its ID.
func group(t testing.TB, tr *Tree, name string, s Settings, mode string) (*Group, int) {
	t.Helper()
	pid := 0
	if mode != "" {
		pid = start(t, mode).pid()
	}
	g := tr.Group(name)
	if err := g.Create(s, pid); err != nil {
		t.Fatal(err)
	}
	return g, pid
}

// two returns two CPUs that are available to groups.
func two(t testing.TB, tr *Tree) (a, b cpuset.Set) {
	t.Helper()
	cpus, _, err := tr.Effective()
	if err != nil {
		t.Fatal(err)
	}
	low := cpus.Lowest(2)
	return cpus.Lowest(1), low.Minus(cpus.Lowest(1))
}

// nest makes the nested groups of path below g, as a container engine in the container does, and returns the
// last directory. Unless cpus is empty, it becomes the cpuset of the last group.
func nest(t testing.TB, g *Group, path string, cpus cpuset.Set) string {
	t.Helper()
	h := g.tree.cpuset
	dir := g.dir(h)
	for part := range strings.SplitSeq(path, "/") {
		if h.v2 {
			enable(t, dir, []string{"cpuset"})
		}
		dir += "/" + part
		if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
		if now, err := g.tree.readSet(dir, memsFile); err != nil || now.IsEmpty() && !h.v2 {
			must(t, err)
			must(t, g.tree.inheritCpusetV1(dir))
		}
	}
	if !cpus.IsEmpty() {
		must(t, g.tree.writeSet(dir, cpusFile, cpus))
	}
	return dir
}

// enable enables v2 controllers for the groups below dir.
func enable(t testing.TB, dir string, controllers []string) {
	t.Helper()
	_, err := enableControllersV2(dir, controllers)
	must(t, err)
}

// affinity returns the union of the affinities of all threads of a process (sched_getaffinity).
func affinity(t testing.TB, pid int) cpuset.Set {
	t.Helper()
	var all cpuset.Set
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	must(t, err)
	for _, task := range tasks {
		var tid int
		fmt.Sscan(task.Name(), &tid)
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(tid, &set); err != nil {
			continue // the thread has ended
		}
		for cpu := range cpuset.Max {
			if set.IsSet(cpu) {
				all.Add(cpu)
			}
		}
	}
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until condition holds. After 3 minutes it fails the test.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for wait := newWait(3 * time.Minute); !condition(); {
		if !wait.next() {
			t.Fatalf("never happened: %s", what)
		}
	}
}
