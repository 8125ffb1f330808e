package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRunPassesThrough: a program has the streams, arguments and files of candor run, and candor run returns
// its exit code.
func TestRunPassesThrough(t *testing.T) {
	l := newLab(t)
	cat := l.candor(append([]string{"run", "--cpu", "0.5"}, play("cat")...)...)
	cat.Stdin = strings.NewReader("all of\nthis\x00")
	if got := do(t, cat); got != (outcome{0, "all of\nthis\x00", "and this"}) {
		t.Errorf("streams: %+v", got)
	}
	for _, code := range []int{0, 1, 2, 77, 255} {
		got := do(t, l.candor(append([]string{"run", "--cpu", "0.5"}, play("exit", strconv.Itoa(code))...)...))
		if got != (outcome{code: code}) {
			t.Errorf("exit %d: %+v", code, got)
		}
	}
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL, unix.SIGHUP} {
		got := do(t, l.candor(append([]string{"run", "--cpu", "0.5"}, play("suicide", strconv.Itoa(int(sig)))...)...))
		if got != (outcome{code: 128 + int(sig)}) {
			t.Errorf("%v: %+v", sig, got)
		}
	}
	words := []string{"two words", "--cpu", "", "\xff\xfe", "$HOME", "--"}
	if got := l.ok(append([]string{"run", "--cpu", "0.5"}, play(append([]string{"print"}, words...)...)...)...); got != strings.Join(words, " ")+"\n" {
		t.Errorf("arguments: %q", got)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	write.WriteString("from file 3")
	write.Close()
	file := l.candor(append([]string{"run", "--cpu", "0.5"}, play("file")...)...)
	file.ExtraFiles = []*os.File{read}
	if got := do(t, file); got != (outcome{0, "from file 3", ""}) {
		t.Errorf("file 3: %+v", got)
	}
	read.Close()
	l.empty()
}

// TestRunNoProgram: errors that only the kernel finds: a file is no program, or its interpreter is missing.
func TestRunNoProgram(t *testing.T) {
	l := newLab(t)
	for name, text := range map[string]string{"garbage": "\x7fELF and no more", "lost": "#!/no/such/interpreter\n"} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		got := do(t, l.candor("run", "--cpu", "0.5", "--", file))
		if got.code != 126 || got.out != "" || !strings.Contains(got.err, file) || strings.Count(got.err, "\n") != 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	l.empty()
}

// TestRunView: a program sees exactly the CPUs that it has.
func TestRunView(t *testing.T) {
	l := newLab(t)
	all := l.usable.Count()
	host := sees()
	tests := []struct {
		flags []string
		want  string
	}{
		{[]string{"--cpu", "0.3"}, "1 1 1"},
		{[]string{"--cpu", "1"}, "1 1 1"},
		{[]string{"--cpu", "1500m"}, "2 2 2"},
		{[]string{"--cpu", strconv.Itoa(all)}, fmt.Sprintf("%d %d %d", all, all, all)},
		{[]string{"--class", "flexible"}, host},
		{[]string{"--cpu", "1", "--view", "affinity"}, "1 " + host[strings.Index(host, " ")+1:]},
		{[]string{"--cpu", "1", "--mems", "--policy", "best-effort", "--topology", "single-numa", "--period", "10ms"}, "1 1 1"},
	}
	for _, test := range tests {
		if strings.Contains(strings.Join(test.flags, " "), "1500m") && all < 2 {
			continue
		}
		got := strings.TrimSpace(l.ok(append(append([]string{"run"}, test.flags...), play("sees")...)...))
		if got != test.want {
			t.Errorf("%v: affinity, sysfs, procfs tell %q, want %q", test.flags, got, test.want)
		}
	}
	// candor's own affinity is not the program's.
	var one unix.CPUSet
	one.Set(l.usable.First())
	if all >= 2 {
		withAffinity(t, &one, func() {
			got := strings.TrimSpace(l.ok(append([]string{"run", "--cpu", "2"}, play("sees")...)...))
			if got != "2 2 2" {
				t.Errorf("started on one CPU: got %q, want 2 2 2", got)
			}
		})
	}
	for _, user := range []string{"", "7"} {
		cmd := l.candor(append([]string{"run", "--cpu", "0.5", "--env"}, play("environ", "GOMAXPROCS")...)...)
		want := "1\n"
		if user != "" {
			cmd.Env, want = append(cmd.Env, "GOMAXPROCS="+user), user+"\n"
		}
		if got := do(t, cmd); got.out != want {
			t.Errorf("GOMAXPROCS: %+v, want %q", got, want)
		}
	}
	l.empty()
}

// withAffinity runs f on a thread with an affinity, which the processes that f starts inherit.
func withAffinity(t *testing.T, mask *unix.CPUSet, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The thread ends with the goroutine: it is not unlocked.
		runtime.LockOSThread()
		if err := unix.SchedSetaffinity(0, mask); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}

// TestRunLeavesProcesses: processes that outlive their program keep its CPUs, and candor reports them.
func TestRunLeavesProcesses(t *testing.T) {
	l := newLab(t)
	got := do(t, l.candor(append([]string{"run", "--cpu", "1", "--name", "web"}, play("leave")...)...))
	if got.code != 3 || !strings.Contains(got.err, "still run") || strings.Count(got.err, "\n") != 1 {
		t.Fatalf("%+v", got)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(got.out))
	if err != nil {
		t.Fatal(err)
	}
	l.nudge()
	if r := l.ps()["web"]; r.State != "running" || len(r.PIDs) != 1 || r.CPUs.Count() != 1 {
		t.Errorf("%+v", r)
	}
	refused := do(t, l.candor("release", "web"))
	if refused.code != 2 || !strings.Contains(refused.err, strconv.Itoa(pid)) || strings.Count(refused.err, "\n") != 1 {
		t.Errorf("release: %+v", refused)
	}
	unix.Kill(pid, unix.SIGKILL)
	gone(t, pid)
	l.nudge()
	l.empty()
}

// TestRunKilled: if candor run is killed with SIGKILL, the program keeps its CPUs.
func TestRunKilled(t *testing.T) {
	l := newLab(t)
	n := l.start([]string{"--cpu", "1", "--name", "web"}, "sleep")
	n.cmd.Process.Kill()
	n.cmd.Wait()
	l.nudge()
	r := l.ps()["web"]
	if r.State != "running" || r.Exclusive.Count() != 1 {
		t.Errorf("%+v", r)
	}
	if has, err := l.tree.Group("web").Settings(); err != nil || has.CPUs != r.CPUs {
		t.Errorf("%+v, %v", has, err)
	}
	l.ok("kill", "web")
	gone(t, r.PID)
	l.empty()
}

// TestRunParallel: many programs at the same time get the requested CPUs and return them.
func TestRunParallel(t *testing.T) {
	l := newLab(t)
	count := 32
	if os.Getenv("CANDOR_IN_GUEST") != "" {
		count = 16 // emulated CPUs are slow
	}
	share := 1000 * l.usable.Count() / count
	if share > 1000 {
		share -= share % 500 // halves go two to a CPU: all fit
	}
	outcomes := make([]outcome, count)
	var all sync.WaitGroup
	for i := range count {
		cmd := l.candor(append([]string{"run", "--cpu", fmt.Sprintf("%dm", share)}, play("sees")...)...)
		all.Go(func() { outcomes[i] = do(t, cmd) })
	}
	all.Wait()
	want := fmt.Sprint((share + 999) / 1000)
	for _, got := range outcomes {
		if got != (outcome{out: strings.Join([]string{want, want, want}, " ") + "\n"}) {
			t.Errorf("%+v", got)
		}
	}
	l.empty()
}

// TestRunInContainer: candor runs in a container whose view hides the other CPUs. It still uses all CPUs of
// the machine, and moves no other container.
func TestRunInContainer(t *testing.T) {
	l := newLab(t)
	l.need(2)
	l.start([]string{"--cpu", "0.6", "--name", "web"}, "sleep")
	before := l.ps()["web"]
	bin := os.Getenv("CANDOR_BIN")
	outer := []string{"run", "--cpu", "1", "--name", "outer", "--", bin}
	got := l.ok(append(append(outer, "run", "--cpu", "0.3", "--name", "inner"), play("sees")...)...)
	if got != "1 1 1\n" {
		t.Errorf("the inner program gets %q", got)
	}
	inside := l.ok(append(outer, "inspect", "web", "-o", "json")...)
	if want := l.ok("inspect", "web", "-o", "json"); field(inside, "cpus") != field(want, "cpus") || field(inside, "lost") != `""` {
		t.Errorf("inside, candor prints\n%swhere it is\n%s", inside, want)
	}
	for _, command := range [][]string{{"topology"}, {"plan"}, {"setup", "host", "--reserved", "0", "--dry-run"}} {
		if got, want := l.ok(append(outer, command...)...), l.ok(command...); got != want {
			t.Errorf("inside, candor %v prints\n%soutside\n%s", command, got, want)
		}
	}
	if after := l.ps()["web"]; after.CPUs != before.CPUs || after.State != "running" {
		t.Errorf("was %+v, is %+v", before, after)
	}
}

// field returns the first value of a field in indented JSON.
func field(text, name string) string {
	_, rest, _ := strings.Cut(text, strconv.Quote(name)+": ")
	value, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSuffix(value, ",")
}

// TestRunReleaseFails: if a release fails, candor returns the program's exit code, and the next operation
// releases the CPUs.
func TestRunReleaseFails(t *testing.T) {
	l := newLab(t)
	cmd := l.candor(append([]string{"run", "--cpu", "0.5", "--name", "web"}, play("signals")...)...)
	var output strings.Builder
	cmd.Stderr = &output
	n := l.launch(cmd)
	if got := n.line(t); got != "ready" {
		t.Fatalf("got %q", got)
	}
	blocked := l.state + "/.state.json" // where the next state would be written
	if err := os.MkdirAll(blocked+"/x", 0o755); err != nil {
		t.Fatal(err)
	}
	n.cmd.Process.Signal(unix.SIGTERM)
	if code := n.end(); code != 5 {
		t.Errorf("exit code %d, want the program's 5", code)
	}
	if !strings.Contains(output.String(), "the next operation") || strings.Count(output.String(), "\n") != 1 {
		t.Errorf("got %q", &output)
	}
	if err := os.RemoveAll(blocked); err != nil {
		t.Fatal(err)
	}
	l.nudge()
	l.empty()
}
