package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/procfs"
)

// A lab is candor with a separate state directory and separate groups.
type lab struct {
	*testing.T
	state, parent string
	driver        cgroup.Driver
	tree          *cgroup.Tree
	usable        cpuset.Set
}

var labs atomic.Int64

// newLab creates a lab. The test removes it completely at its end.
func newLab(t *testing.T) *lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("makes cgroups: needs root")
	}
	l := &lab{
		T:      t,
		driver: cgroup.Cgroupfs,
		state:  filepath.Join(t.TempDir(), "state"),
		parent: fmt.Sprintf("/candor-e2e-%d-%d", os.Getpid(), labs.Add(1)),
	}
	var err error
	if l.tree, err = cgroup.Open(cgroup.Options{Parent: l.parent, Driver: cgroup.Cgroupfs}); err != nil {
		t.Fatal(err)
	}
	if l.usable, _, err = l.tree.Effective(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.clear)
	return l
}

// clear kills the remaining programs of the lab and removes its groups.
func (l *lab) clear() {
	deadline := time.Now().Add(time.Minute)
	for {
		names, err := l.tree.Groups()
		if err != nil {
			l.Error(err)
			return
		}
		for _, name := range names {
			if err := l.tree.Group(name).End(); err != nil && !errors.Is(err, cgroup.ErrBusy) {
				l.Error(err)
			}
		}
		if err := l.tree.Remove(); err == nil {
			return
		} else if time.Now().After(deadline) {
			l.Error(err)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// candor returns a command of candor in the lab.
func (l *lab) candor(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Getenv("CANDOR_BIN"), args...)
	cmd.Env = append(os.Environ(), "CANDOR_STATE_DIR="+l.state, "CANDOR_CGROUP_PARENT="+l.parent,
		"CANDOR_CGROUP_DRIVER="+string(l.driver), "CANDOR_CONFIG="+filepath.Join(filepath.Dir(l.state), "host.json"))
	cmd.WaitDelay = time.Minute
	return cmd
}

// An outcome is the exit code and the output of a command.
type outcome struct {
	code     int
	out, err string
}

// do runs a command and waits for its end.
func do(t *testing.T, cmd *exec.Cmd) outcome {
	t.Helper()
	var out, errOut bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &errOut
	}
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", cmd, err)
	}
	code := cmd.ProcessState.ExitCode()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		code = -int(status.Signal())
	}
	return outcome{code, out.String(), withoutWarning(errOut.String())}
}

// withoutWarning removes the warning of candor record about other processes: the machine that runs the tests can be busy.
func withoutWarning(text string) (rest string) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "candor: Warning: other processes used ") {
			rest += line
		}
	}
	return rest
}

// ok runs candor, which must succeed and write nothing to standard error, and returns its output.
func (l *lab) ok(args ...string) string {
	l.Helper()
	got := do(l.T, l.candor(args...))
	if got.code != 0 || got.err != "" {
		l.Fatalf("candor %s: exit %d\n%s%s", strings.Join(args, " "), got.code, got.out, got.err)
	}
	return got.out
}

// play returns a command line with which this test binary performs a role (roles_test.go).
func play(role ...string) []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return append([]string{"--", self, roleArgument}, role...)
}

// A tenant is a running candor run process and its output.
type tenant struct {
	cmd *exec.Cmd
	out *os.File
}

// start starts candor run and waits for the program's first line, "ready".
func (l *lab) start(flags []string, role ...string) *tenant {
	l.Helper()
	n := l.launch(l.candor(append(append([]string{"run"}, flags...), play(role...)...)...))
	if got := n.line(l.T); got != "ready" {
		l.Fatalf("candor run %v: got %q, want ready", flags, got)
	}
	return n
}

// launch starts a command whose output is read line by line.
func (l *lab) launch(cmd *exec.Cmd) *tenant {
	l.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		l.Fatal(err)
	}
	cmd.Stdout = write
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		l.Fatal(err)
	}
	write.Close()
	n := &tenant{cmd, read}
	l.Cleanup(func() { n.cmd.Process.Kill(); n.cmd.Wait(); n.out.Close() })
	return n
}

// line reads a line of the program's output.
func (n *tenant) line(t *testing.T) string {
	t.Helper()
	n.out.SetReadDeadline(time.Now().Add(time.Minute)) // against a hang
	var line []byte
	for b := make([]byte, 1); ; line = append(line, b[0]) {
		if _, err := n.out.Read(b); err != nil {
			t.Fatalf("after %q: %v", line, err)
		}
		if b[0] == '\n' {
			return string(line)
		}
	}
}

// end waits for the end of candor run and returns its exit code.
func (n *tenant) end() int {
	n.cmd.Wait()
	return n.cmd.ProcessState.ExitCode()
}

// A row has the fields of candor ps -o json and candor inspect -o json that the tests use.
type row struct {
	ID, State, Class      string
	Burst                 string
	Limit                 int `json:"limitMilli"`
	Quota                 int `json:"quotaMilli"`
	PID                   int
	CPUs, Exclusive, Lost cpuset.Set
	Fractions             map[int]int `json:"fractionsMilli"`
	PIDs                  []int
	Group                 struct {
		QuotaSeconds, PeriodSeconds, BurstSeconds float64
		Periods, ThrottledPeriods                 uint64
		UsageSeconds                              float64
	}
	Shown     cpuset.Set
	Strangers []struct {
		CPUs  cpuset.Set
		Milli int `json:"useMilli"`
	}
}

// ps lists the lab's containers by name.
func (l *lab) ps() map[string]row {
	l.Helper()
	var rows []row
	if err := json.Unmarshal([]byte(l.ok("ps", "-o", "json")), &rows); err != nil {
		l.Fatal(err)
	}
	byName := map[string]row{}
	for _, r := range rows {
		byName[r.ID] = r
	}
	return byName
}

// inspect runs candor inspect for a container.
func (l *lab) inspect(name string, flags ...string) row {
	l.Helper()
	var r row
	if err := json.Unmarshal([]byte(l.ok(append([]string{"inspect", name, "-o", "json"}, flags...)...)), &r); err != nil {
		l.Fatal(err)
	}
	return r
}

// empty fails the test if the lab has a container, a group, a view or a request.
func (l *lab) empty() {
	l.Helper()
	if rows := l.ps(); len(rows) != 0 {
		l.Errorf("grants left: %+v", rows)
	}
	if names, err := l.tree.Groups(); err != nil || len(names) != 0 {
		l.Errorf("groups left: %v %v", names, err)
	}
	for _, dir := range []string{"views", "requests"} {
		if entries, err := os.ReadDir(filepath.Join(l.state, dir)); err != nil || len(entries) != 0 {
			l.Errorf("left in %s: %v %v", dir, entries, err)
		}
	}
}

// nudge runs an operation that only cleans up.
func (l *lab) nudge() {
	l.Helper()
	l.ok(append([]string{"run", "--class", "flexible"}, play("exit", "0")...)...)
}

// need skips the test on a machine with fewer CPUs.
func (l *lab) need(cpus int) {
	l.Helper()
	if l.usable.Count() < cpus {
		l.Skipf("needs %d CPUs, has %v", cpus, l.usable)
	}
}

// needProgram skips the test if a program of packages.txt is not installed, as in the guests.
func (l *lab) needProgram(name string) {
	l.Helper()
	if _, err := exec.LookPath(name); err != nil {
		l.Skipf("scripts/test-deps.sh installs it: %v", err)
	}
}

// gone waits for the end of a process that is not a child of this process.
func gone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if stat, err := procfs.ReadStat(pid); err != nil || stat.State == 'Z' {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d does not end", pid)
		}
	}
}
