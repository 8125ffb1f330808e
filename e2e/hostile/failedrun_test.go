package hostile

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestHostileFailedRuns: no way in which candor run fails leaves a trace in the control groups, whichever of the groups above
// the container exist.
func TestHostileFailedRuns(t *testing.T) {
	l := newLab(t)
	top := l.parent
	l.move(top + "/deep/candor")
	garbage, orphan := filepath.Join(l.dir, "garbage"), filepath.Join(l.dir, "orphan")
	for file, text := range map[string]string{garbage: "\x00\x01", orphan: "#!/no/such/interpreter\n"} {
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	failures := []struct {
		attack string
		code   int
		args   []string
	}{
		{"more CPUs than the machine has", 2, []string{"--cpu", "1000", "--", "true"}},
		{"a bad limit", 2, []string{"--cpu", "x", "--", "true"}},
		{"a command that does not exist", 127, []string{"--cpu", "1", "--", "/no/such/command"}},
		{"a command that is a directory", 126, []string{"--cpu", "1", "--", "/tmp"}},
		{"a file that the kernel does not execute", 126, []string{"--cpu", "1", "--", garbage}},
		{"the same without a view", 126, []string{"--cpu", "100m", "--class", "flexible", "--", garbage}},
		{"a script without its interpreter", 126, []string{"--cpu", "1", "--", orphan}},
	}
	for _, exists := range []string{"no group exists", "the parent exists"} {
		before := readForest(t, top)
		for _, f := range failures {
			attack := f.attack + ", " + exists
			if got := run(t, l.candor(append([]string{"run"}, f.args...)...)); got.code != f.code {
				t.Errorf("%s: exit %d, want %d\n%s", attack, got.code, f.code, got.errOut)
			}
			before.same(t, attack, readForest(t, top))
		}
		before.same(t, "a signal while the lock is taken, "+exists, l.interrupted(top))
		l.ok("run", "--cpu", "1", "--", "true")
	}
}

// interrupted ends a run that waits for the lock of the state.
func (l *lab) interrupted(top string) forest {
	l.Helper()
	lock, err := os.OpenFile(filepath.Join(l.state, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		l.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		l.Fatal(err)
	}
	cmd := l.candor("run", "--cpu", "1", "--", "true")
	if err := cmd.Start(); err != nil {
		l.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond) // whether it waits already or not, it must end without a trace
	cmd.Process.Signal(syscall.SIGTERM)
	err = cmd.Wait()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 128+int(syscall.SIGTERM) && exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		l.Errorf("ended with %v, want SIGTERM", err)
	}
	return readForest(l.T, top)
}
