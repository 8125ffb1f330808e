package host

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/spec"
)

// A test binary is also the helper and the programs that the tests start.
func init() {
	if len(os.Args) == 3 && os.Args[1] == HelperCommand { // a helper that waits for its start
		os.NewFile(3, "orders").Read(make([]byte, 1))
		os.Exit(1)
	}
	if role := os.Getenv("HOST_TEST_ROLE"); role != "" {
		play(role)
		os.Exit(0)
	}
}

// play runs the role of a test program.
func play(role string) {
	switch role {
	case "wait": // until its standard input ends
		os.Stdin.Read(make([]byte, 1))
	case "spin": // with one thread more than its CPUs, until its standard input ends
		for range runtime.NumCPU() + 1 {
			go func() {
				for n := 0; ; n++ {
				}
			}()
		}
		os.Stdin.Read(make([]byte, 1))
	case "pin": // on a signal, pin a thread to the lowest CPU, then wait
		os.Stdin.Read(make([]byte, 1))
		var mask unix.CPUSet
		unix.SchedGetaffinity(0, &mask)
		for cpu, found := 0, false; cpu < cpuset.Max; cpu++ {
			if found && mask.IsSet(cpu) {
				mask.Clear(cpu)
			}
			found = found || mask.IsSet(cpu)
		}
		if err := unix.SchedSetaffinity(0, &mask); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("pinned")
		os.Stdin.Read(make([]byte, 1))
	}
}

// A lab is a host with its own cgroups and state.
type lab struct {
	*Host
	testing.TB
	tree   *cgroup.Tree
	parent string
	log    *strings.Builder
}

var labs atomic.Int64

// newLab returns a lab and removes it after the test.
func newLab(t testing.TB) *lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("makes cgroups: needs root")
	}
	return labIn(t, filepath.Join(memoryDir(t), "state"))
}

// memoryDir returns a temporary directory, on tmpfs if possible. In production the state is on tmpfs too,
// where fsync is free.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "candor-host-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func labIn(t testing.TB, dir string) *lab {
	t.Helper()
	parent := fmt.Sprintf("/candor-host-test-%d-%d", os.Getpid(), labs.Add(1))
	return labWith(t, dir, cgroup.Options{Parent: parent, Driver: cgroup.Cgroupfs})
}

// labWith returns a lab with other groups than labIn.
func labWith(t testing.TB, dir string, groups cgroup.Options) *lab {
	t.Helper()
	l := &lab{TB: t, log: new(strings.Builder)}
	h, err := Open(Options{
		StateDir:    dir,
		Config:      filepath.Join(t.TempDir(), "host.json"),
		Cgroup:      groups,
		Log:         slog.New(slog.NewTextHandler(l.log, nil)),
		LockTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Host, l.tree, l.parent = h, h.tree, groups.Parent
	if os.Getenv("CANDOR_KEEP_OPEN") != "" { // as in a daemon
		h.KeepOpen(1000)
	}
	t.Cleanup(l.clear)
	return l
}

// clear kills all processes in the lab.
func (l *lab) clear() {
	names, err := l.tree.Groups()
	if err != nil {
		l.Error(err)
	}
	for _, name := range names {
		if err := l.tree.Group(name).End(); err != nil {
			l.Error(err)
		}
	}
	if err := l.tree.Remove(); err != nil {
		l.Error(err)
	}
}

// needCPUs skips the test on a machine with fewer than n usable CPUs.
func (l *lab) needCPUs(n int) []int {
	l.Helper()
	node, err := l.newNode()
	if err != nil {
		l.Fatal(err)
	}
	usable := node.Usable()
	if usable.Count() < n {
		l.Skipf("needs %d CPUs, has %v", n, usable)
	}
	return usable.Slice()
}

// A tenant is a program in a group of the lab.
type tenant struct {
	*Grant
	cmd  *exec.Cmd
	stop func()
	in   io.Writer
	out  *os.File
}

// start runs a role of this binary in a container. As with a frontend other than candor run, the process is moved into
// its cgroup while it waits.
func (l *lab) start(a Allocation, role string) (*tenant, error) {
	l.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "HOST_TEST_ROLE="+role)
	in, err := cmd.StdinPipe()
	if err != nil {
		l.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		l.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = write, os.Stderr
	if err := cmd.Start(); err != nil {
		l.Fatal(err)
	}
	write.Close()
	n := &tenant{cmd: cmd, in: in, out: read}
	n.stop = func() { in.Close(); cmd.Wait(); read.Close() }
	l.Cleanup(func() { cmd.Process.Kill(); n.stop() })
	a.PID = cmd.Process.Pid
	if n.Grant, err = l.Allocate(context.Background(), a); err != nil {
		n.stop()
		return nil, err
	}
	return n, nil
}

// must is start, and fails the test on an error.
func (l *lab) must(a Allocation, role string) *tenant {
	l.Helper()
	n, err := l.start(a, role)
	if err != nil {
		l.Fatal(err)
	}
	return n
}

// ask returns an allocation with the defaults of candor run.
func ask(name, cpu string) Allocation {
	limit, err := hybrid.ParseMilli(cpu)
	if err != nil {
		panic(err)
	}
	return Allocation{
		Request: hybrid.Request{ID: name, Limit: limit},
		Spec:    spec.Spec{Period: bandwidth.DefaultPeriod, View: spec.ViewFull, OnResize: "none", Command: "test"},
	}
}

// flexible returns an allocation of a flexible container.
func flexible(name, cpu string) Allocation {
	a := ask(name, cpu)
	a.Class, a.View = hybrid.Flexible, spec.ViewAffinity
	return a
}

// nudge runs an operation without a request: it reaps, adopts and repairs.
func (l *lab) nudge() {
	l.Helper()
	if err := l.operate(context.Background(), func(*operation) error { return nil }); err != nil {
		l.Fatal(err)
	}
}

// line reads one line that a tenant prints.
func (n *tenant) line(t *testing.T) string {
	t.Helper()
	n.out.SetReadDeadline(time.Now().Add(time.Minute))
	buffer := make([]byte, 100)
	count, err := n.out.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(buffer[:count]))
}

// dead returns a process that has ended.
func dead(t testing.TB) Process {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "HOST_TEST_ROLE=none")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := state.ProcessOf(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	return p
}

// forge changes the state file as if another process had written it.
func (l *lab) forge(change func(*state.State)) {
	l.Helper()
	loaded, err := l.store.Load()
	if err != nil {
		l.Fatal(err)
	}
	s := state.State{Boot: loaded.Boot, Grants: slices.Clone(loaded.Grants)}
	change(&s)
	if err := fileio.Replace(l.store.File(), (&state.Saved{State: s}).Encode()); err != nil {
		l.Fatal(err)
	}
}

// orphan makes the creators of all grants dead.
func (l *lab) orphan() {
	l.Helper()
	nobody := dead(l)
	l.forge(func(s *state.State) {
		for i := range s.Grants {
			s.Grants[i].Creator = nobody
		}
	})
}

// kill sends a signal to a tenant, without the host.
func (n *tenant) kill() {
	n.cmd.Process.Signal(syscall.SIGKILL)
	n.stop()
}

func itoa(n int) string { return strconv.Itoa(n) }

// findCpusetDir returns the directory of the cpuset group that a process is in.
func findCpusetDir(t testing.TB, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		for _, mount := range []string{"/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"} {
			dir := filepath.Join(mount, f[2])
			if _, err := os.Stat(filepath.Join(dir, "cpuset.cpus")); err == nil && (f[1] == "" || strings.Contains(f[1], "cpuset")) {
				return dir
			}
		}
	}
	t.Fatalf("no cpuset group in\n%s", text)
	return ""
}
