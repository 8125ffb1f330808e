package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/bandwidth/record"
	"github.com/candor-project/candor/bandwidth/timescale"
	"github.com/candor-project/candor/cgroup"
)

// recording reads a recording that can still grow. It returns nil if the file does not have its header yet.
func recording(t *testing.T, file string) *timescale.Summary {
	t.Helper()
	in, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	s, err := timescale.Read(in)
	if errors.Is(err, record.ErrCut) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// waitFor reads a recording repeatedly until the condition holds.
func waitFor(t *testing.T, file string, is func(*timescale.Summary) bool) *timescale.Summary {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if s := recording(t, file); s != nil && is(s) {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("never as it should be: %+v", recording(t, file))
		}
	}
}

// TestRecordCommand: a command runs in its own group, whose whole use is recorded. candor returns its exit code.
func TestRecordCommand(t *testing.T) {
	l := newLab(t)
	file := filepath.Join(t.TempDir(), "usage")
	got := do(t, l.candor(append([]string{"record", "-o", file}, play("bursts", "2", "work", "100ms", "300ms", "3")...)...))
	if got.code != 0 || got.err != "" {
		t.Fatalf("%+v", got)
	}
	lines := strings.Fields(strings.TrimPrefix(got.out, "ready\n"))
	printed := time.Duration(0)
	for i := 1; i < len(lines); i += 2 {
		var used time.Duration
		fmt.Sscan(lines[i], &used)
		printed += used
	}
	s := recording(t, file)
	if s == nil || s.Cut || len(s.Groups) != 1 || !strings.Contains(s.Groups[0].Name, " bursts 2 work") {
		t.Fatalf("%+v", s)
	}
	// The rest is the start of the program and its runtime, which take long on emulated CPUs. The kernel
	// charges the CPU time of a group or of a thread at its ticks.
	if used := s.Groups[0].Used.CPU; printed < 600*ms || used < printed-printed/20 || used > 2*printed+time.Second {
		t.Errorf("recorded %v of CPU time, the program prints %v", used, printed)
	}
	if got := do(t, l.candor(append([]string{"record", "-o", file}, play("exit", "7")...)...)); got.code != 7 || got.err != "" {
		t.Errorf("%+v, want exit code 7", got)
	}
	if got := do(t, l.candor(append([]string{"record", "-o", file}, play("suicide", "9")...)...)); got.code != 128+9 {
		t.Errorf("%+v, want exit code 137", got)
	}
	if got := do(t, l.candor("record", "-o", file, "--", "/no/such/program")); got.code != 127 {
		t.Errorf("%+v, want exit code 127", got)
	}
}

// TestRecordKilled: a growing recording can be read, and a killed recorder leaves a recording that is
// complete up to its last second. The report marks the hidden demand of a throttled group.
func TestRecordKilled(t *testing.T) {
	l := newLab(t)
	l.confine("program", bandwidth.Bandwidth{Quota: 50 * ms, Period: 100 * ms}, l.usable.Lowest(1), "spin", "2")
	file := filepath.Join(t.TempDir(), "usage")
	cmd := l.candor("record", "-o", file, "--cgroup", l.parent+"/program", "--interval", "5ms")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	grown := waitFor(t, file, func(s *timescale.Summary) bool { return s.Span > 2*time.Second })
	cmd.Process.Kill()
	cmd.Wait()
	s := recording(t, file)
	if s == nil || !s.Cut || s.Span < grown.Span {
		t.Fatalf("after %v were read: %+v", grown.Span, s)
	}
	g := s.Groups[0]
	if g.Mean() > 0.6 || g.Used.Throttled == 0 || g.Quota != 50*ms || g.Period != 100*ms || g.HiddenDemand == nil || g.HiddenDemand.Wanted < g.Mean() {
		t.Errorf("%+v, hidden %+v", g.Used, g.HiddenDemand)
	}
	got := do(t, l.candor("usage", file))
	if got.code != 0 || !strings.Contains(got.out, "its recorder still runs or was killed") || !strings.Contains(got.out, "shows its use, not its demand") {
		t.Errorf("%+v", got)
	}
}

// TestRecordEnds: a recording is complete if its groups end, after --duration, and after a signal.
func TestRecordEnds(t *testing.T) {
	l := newLab(t)
	file := filepath.Join(t.TempDir(), "usage")
	web := l.start([]string{"--name", "web", "--cpu", "1"}, "sleep")
	for _, c := range []struct {
		flags string
		code  int
		end   func(recorder *os.Process)
	}{
		{"--container web --duration 100ms", 0, func(*os.Process) {}},
		{"--all", 0, func(p *os.Process) { p.Signal(syscall.SIGTERM) }},
		{fmt.Sprintf("--pid %d", l.ps()["web"].PID), 0, func(p *os.Process) { p.Signal(os.Interrupt) }},
		{"--container web --duration 1h", 130, func(p *os.Process) { p.Signal(os.Interrupt) }}, // shorter than requested
		{"--container web", 0, func(*os.Process) { web.cmd.Process.Signal(syscall.SIGTERM); web.end() }},
	} {
		l.recordsUntil(file, c.flags, c.code, c.end)
	}
}

// recordsUntil runs candor record until end stops it. code is the expected exit code.
func (l *lab) recordsUntil(file, flags string, code int, end func(*os.Process)) {
	l.Helper()
	os.Remove(file)
	cmd := l.candor(append([]string{"record", "-o", file}, strings.Fields(flags)...)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		l.Fatal(err)
	}
	waitFor(l.T, file, func(*timescale.Summary) bool { return true })
	end(cmd.Process)
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != code {
		l.Errorf("record %s: %v, want exit code %d", flags, err, code)
	}
	s := recording(l.T, file)
	if s == nil || s.Cut || len(s.Groups) == 0 {
		l.Errorf("record %s: %+v", flags, s)
	}
}

// TestRecordConfined: a recorded command stays on the CPUs that candor itself may use.
func TestRecordConfined(t *testing.T) {
	l := newLab(t)
	if l.usable.Count() < 2 {
		t.Skip("one CPU")
	}
	cpu := l.usable.Last()
	cmd := l.candor("record", "-o", filepath.Join(t.TempDir(), "usage"), "--", "grep", "Cpus_allowed_list", "/proc/self/status")
	var before, mask unix.CPUSet
	mask.Set(cpu)
	runtime.LockOSThread() // a child has the affinity of the thread that starts it
	defer runtime.UnlockOSThread()
	if err := errors.Join(unix.SchedGetaffinity(0, &before), unix.SchedSetaffinity(0, &mask)); err != nil {
		t.Fatal(err)
	}
	defer unix.SchedSetaffinity(0, &before)
	if got := do(t, cmd); got.code != 0 || strings.TrimSpace(strings.TrimPrefix(got.out, "Cpus_allowed_list:")) != fmt.Sprint(cpu) {
		t.Errorf("%+v, want CPU %d alone", got, cpu)
	}
}

// TestRecordRemainingProcesses: processes that a recorded command leaves behind go on running, and candor
// record returns the command's exit code.
func TestRecordRemainingProcesses(t *testing.T) {
	l := newLab(t)
	got := do(t, l.candor(append([]string{"record", "-o", filepath.Join(t.TempDir(), "usage")}, play("leave")...)...))
	var pid int
	if _, err := fmt.Sscan(got.out, &pid); err != nil || syscall.Kill(pid, syscall.SIGKILL) != nil {
		t.Errorf("%+v, want the pid of a process that runs on", got)
	}
	if got.code != 3 || !strings.Contains(got.err, "has processes") || strings.Count(got.err, "\n") != 1 {
		t.Errorf("%+v, want exit code 3 and a line that says what is left", got)
	}
	tree, err := cgroup.Open(cgroup.Options{Parent: "/candor-record", Driver: cgroup.Cgroupfs})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) { // the next recordings clear it away
		if got := do(t, l.candor("record", "-o", os.DevNull, "--", "true")); got.code != 0 {
			t.Fatalf("%+v", got)
		}
		left, err := tree.Groups()
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("left: %v, %v", left, err)
		}
		if len(left) == 0 {
			break
		}
	}
	if got := do(t, l.candor("record", "-o", os.DevNull, "--interval", "1s", "--duration", "10ms", "--", "true")); got.code != 2 {
		t.Errorf("shorter than its interval: %+v", got)
	}
}

// TestRecordAllAgain: a recording of all groups contains a group twice if it ends and is recreated.
func TestRecordAllAgain(t *testing.T) {
	l := newLab(t)
	file := filepath.Join(t.TempDir(), "usage")
	web := l.start([]string{"--name", "web", "--class", "flexible"}, "sleep")
	cmd := l.candor("record", "-o", file, "--all", "--interval", "50ms")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	webs := func(s *timescale.Summary) (n int) {
		for i := range s.Groups {
			if s.Groups[i].Name == l.parent+"/web" {
				n++
			}
		}
		return n
	}
	waitFor(t, file, func(s *timescale.Summary) bool { return webs(s) == 1 })
	web.cmd.Process.Signal(syscall.SIGTERM)
	web.end()
	l.start([]string{"--name", "web", "--class", "flexible"}, "sleep")
	waitFor(t, file, func(s *timescale.Summary) bool { return webs(s) == 2 })
}

// TestRecordAllEnclosing: a recording of all groups contains a group once, even if it is recorded for its limit first
// and gets its own process later.
func TestRecordAllEnclosing(t *testing.T) {
	l := newLab(t)
	if l.tree.Version() != 1 {
		t.Skip("cgroup v2: a group that others are in has no processes")
	}
	cpus := l.usable.Lowest(1)
	if err := l.tree.Group("pod").Create(cgroup.Settings{CPUs: cpus, Quota: 20 * ms, Period: 100 * ms}, 0); err != nil {
		t.Fatal(err)
	}
	pod, err := cgroup.Open(cgroup.Options{Parent: l.parent + "/pod", Driver: cgroup.Cgroupfs})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(pod.Group("web").End(), pod.Remove()); err != nil {
			t.Error(err)
		}
	}()
	sleeper := func() *tenant {
		command := play("sleep")[1:]
		return l.launch(exec.Command(command[0], command[1:]...))
	}
	web := sleeper()
	defer func() { web.cmd.Process.Kill(); web.cmd.Wait() }()
	if err := pod.Group("web").Create(cgroup.Settings{CPUs: cpus}, web.cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	file, path := filepath.Join(t.TempDir(), "usage"), l.parent+"/pod"
	cmd := l.candor("record", "-o", file, "--all", "--interval", "50ms")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	named := func(s *timescale.Summary, name string) (n int) {
		for i := range s.Groups {
			if s.Groups[i].Name == name {
				n++
			}
		}
		return n
	}
	waitFor(t, file, func(s *timescale.Summary) bool { return named(s, path+"/web") == 1 })
	late := sleeper()
	defer func() { late.cmd.Process.Kill(); late.cmd.Wait() }()
	if err := os.WriteFile("/sys/fs/cgroup/cpu"+path+"/cgroup.procs", []byte(strconv.Itoa(late.cmd.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	if err := l.tree.Group("marker").Create(cgroup.Settings{CPUs: cpus}, sleeper().cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if s := waitFor(t, file, func(s *timescale.Summary) bool { return named(s, l.parent+"/marker") == 1 }); named(s, path) != 1 {
		t.Errorf("%s is in the recording %d times", path, named(s, path))
	}
}

// TestRecordWithoutCpuset: a group without the cpuset controller, such as a systemd unit on cgroup v1, can be recorded.
func TestRecordWithoutCpuset(t *testing.T) {
	l := newLab(t)
	if l.tree.Version() != 1 {
		t.Skip("cgroup v2: all controllers have the same groups")
	}
	name := fmt.Sprintf("/candor-e2e-unit-%d", os.Getpid())
	for _, controller := range []string{"cpu", "cpuacct"} {
		dir := "/sys/fs/cgroup/" + controller + name
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(dir)
	}
	file := filepath.Join(t.TempDir(), "usage")
	if got := do(t, l.candor("record", "-o", file, "--cgroup", name, "--duration", "100ms")); got.code != 0 {
		t.Errorf("%+v", got)
	}
	if s := recording(t, file); s == nil || len(s.Groups) != 1 || s.Groups[0].Quota != 0 {
		t.Errorf("%+v, want one group without a quota", s)
	}
}

// TestRecordLimitOfParent: a recording has the limit of the parent group, as of a pod, and the demand that this limit
// hides in a group without a limit.
func TestRecordLimitOfParent(t *testing.T) {
	l := newLab(t)
	cpus := l.usable.Lowest(1)
	if err := l.tree.Group("pod").Create(cgroup.Settings{CPUs: cpus, Quota: 20 * ms, Period: 100 * ms}, 0); err != nil {
		t.Fatal(err)
	}
	pod, err := cgroup.Open(cgroup.Options{Parent: l.parent + "/pod", Driver: cgroup.Cgroupfs})
	if err != nil {
		t.Fatal(err)
	}
	command := play("spin", "1")[1:]
	n := l.launch(exec.Command(command[0], command[1:]...))
	if err := pod.Group("web").Create(cgroup.Settings{CPUs: cpus}, n.cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	l.outweighOthers() // or on a busy machine its quota would not run out
	defer func() {
		n.cmd.Process.Kill()
		n.cmd.Wait()
		if err := errors.Join(pod.Group("web").End(), pod.Remove()); err != nil {
			t.Error(err)
		}
	}()
	file := filepath.Join(t.TempDir(), "usage")
	path := l.parent + "/pod"
	for _, flags := range [][]string{{"--cgroup", path + "/web"}, {"--all"}, {"--cgroup", path + "/web", "--cgroup", path}} {
		l.ok(append([]string{"record", "-o", file, "--duration", "2s"}, flags...)...)
		s := recording(t, file)
		var web, above *timescale.Group
		for i := range s.Groups {
			switch g := &s.Groups[i]; g.Name {
			case path:
				above = g
			case path + "/web":
				web = g
			}
		}
		if web == nil || above == nil || above.Encloses != (len(flags) < 4) || above.Quota != 20*ms || web.Quota != 0 || web.Used.Throttled != 0 {
			t.Fatalf("%v: %+v", flags, s.Groups)
		}
		if web.Ancestor == nil || web.Ancestor.Name != path || web.Ancestor.Used.Throttled < 3 || web.HiddenDemand == nil || web.Mean() > 0.6 {
			t.Errorf("%v: above %+v, hidden %+v", flags, web.Ancestor, web.HiddenDemand)
		}
	}
	if out := l.ok("usage", file, "--group", path+"/web"); !strings.Contains(out, "web: the group above, "+path+", has a limit of 0.20 CPUs, 20ms of each 100ms; it was throttled in ") {
		t.Error(out)
	}
	if out := l.ok("advise", file, "--group", path+"/web", "--period", "100ms", "--target", "throttled<100%"); !strings.Contains(out, "or that of the group above, "+path) {
		t.Error(out)
	}
}
