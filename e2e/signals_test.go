package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestRunForwardsSignals: candor forwards signals to the program.
func TestRunForwardsSignals(t *testing.T) {
	l := newLab(t)
	n := l.start([]string{"--cpu", "0.5"}, "signals")
	for _, sig := range []syscall.Signal{unix.SIGUSR1, unix.SIGINT, unix.SIGQUIT, unix.SIGWINCH} {
		n.cmd.Process.Signal(sig)
		if got := n.line(t); got != unix.SignalName(sig) {
			t.Errorf("sent %v, the program got %q", sig, got)
		}
	}
	n.cmd.Process.Signal(unix.SIGTERM)
	if got := n.line(t); got != "terminated" {
		t.Errorf("the program got %q", got)
	}
	if code := n.end(); code != 5 {
		t.Errorf("exit code %d, want the program's 5", code)
	}
	l.empty()
}

// TestRunGroupSignal: without a terminal, a signal to candor's process group reaches the program once.
func TestRunGroupSignal(t *testing.T) {
	l := newLab(t)
	cmd := l.candor(append([]string{"run", "--cpu", "0.5"}, play("signals")...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	n := l.launch(cmd)
	if got := n.line(t); got != "ready" {
		t.Fatalf("got %q", got)
	}
	for _, sig := range []syscall.Signal{unix.SIGUSR1, unix.SIGINT, unix.SIGQUIT} {
		if err := unix.Kill(-cmd.Process.Pid, sig); err != nil {
			t.Fatal(err)
		}
		if got := n.line(t); got != unix.SignalName(sig) {
			t.Errorf("sent %v, the program got %q", sig, got)
		}
		// A second one would come before this.
		cmd.Process.Signal(unix.SIGWINCH)
		if got := n.line(t); got != "SIGWINCH" {
			t.Errorf("sent %v: the program got %q as well", sig, got)
		}
	}
	cmd.Process.Signal(unix.SIGTERM)
	if got, code := n.line(t), n.end(); got != "terminated" || code != 5 {
		t.Errorf("got %q, exit %d", got, code)
	}
	l.empty()
}

// TestRunOnTerminal: Ctrl-C on a terminal that candor and the program share reaches the program once.
func TestRunOnTerminal(t *testing.T) {
	l := newLab(t)
	master, slave := terminal(t)
	cmd := l.candor(append([]string{"run", "--cpu", "0.5"}, play("signals")...)...)
	cmd.Stdin = slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	n := l.launch(cmd)
	slave.Close()
	if got := n.line(t); got != "ready" {
		t.Fatalf("got %q", got)
	}
	for _, key := range []struct{ typed, want string }{{"\x03", "SIGINT"}, {"\x1c", "SIGQUIT"}} {
		if _, err := master.WriteString(key.typed); err != nil {
			t.Fatal(err)
		}
		if got := n.line(t); got != key.want {
			t.Errorf("typed %q: the program got %q", key.typed, got)
		}
		// A second one would come before this.
		n.cmd.Process.Signal(unix.SIGUSR1)
		if got := n.line(t); got != "SIGUSR1" {
			t.Errorf("typed %q: the program got %q as well", key.typed, got)
		}
	}
	n.cmd.Process.Signal(unix.SIGTERM)
	if got, code := n.line(t), n.end(); got != "terminated" || code != 5 {
		t.Errorf("got %q, exit %d", got, code)
	}
	l.empty()
}

// terminal opens a pseudo-terminal.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	return master, slave
}

// TestRunKeepsIgnoredSignals: under nohup, candor and the program ignore SIGHUP.
func TestRunKeepsIgnoredSignals(t *testing.T) {
	l := newLab(t)
	// The role handles signals itself; /proc shows whether a program ignores SIGHUP from its start.
	cmd := l.candor(append([]string{"run", "--cpu", "0.5", "--name", "web"}, play("sleep")...)...)
	n := l.launchIgnoring(cmd, unix.SIGHUP)
	if got := n.line(t); got != "ready" {
		t.Fatalf("got %q", got)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", l.ps()["web"].PID))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "SigIgn:\t")
	ignored, err := strconv.ParseUint(strings.Fields(rest)[0], 16, 64)
	if err != nil || ignored&1 == 0 {
		t.Errorf("SIGHUP is not ignored: SigIgn %x, %v", ignored, err)
	}
}

// launchIgnoring starts a command as launch does, with an ignored signal, as nohup does.
func (l *lab) launchIgnoring(cmd *exec.Cmd, sig syscall.Signal) *tenant {
	l.Helper()
	args := append([]string{roleArgument, "ignoring", strconv.Itoa(int(sig))}, slices.Concat([]string{cmd.Path}, cmd.Args[1:])...)
	wrapped := exec.Command("/proc/self/exe", args...)
	wrapped.Env = cmd.Env
	return l.launch(wrapped)
}

// TestRunInterruptedBeforeStart: a signal interrupts the wait for the lock, with and without a terminal.
func TestRunInterruptedBeforeStart(t *testing.T) {
	l := newLab(t)
	l.nudge()
	lock := l.lock()
	n := l.launch(l.candor(append([]string{"run", "--cpu", "0.5"}, play("print", "started")...)...))
	waitsForLock(t, n.cmd.Process.Pid)
	n.cmd.Process.Signal(unix.SIGTERM)
	if code := n.end(); code != 128+int(unix.SIGTERM) {
		t.Errorf("exit code %d", code)
	}
	lock.Close()
	l.empty()
}

// TestRunInterruptedAtEnd: a signal after the program's end interrupts the wait for the lock of another process. candor
// returns the program's exit code, and the next operation releases the CPUs.
func TestRunInterruptedAtEnd(t *testing.T) {
	l := newLab(t)
	cmd := l.candor(append([]string{"run", "--cpu", "0.5"}, play("signals")...)...)
	var output strings.Builder
	cmd.Stderr = &output
	n := l.launch(cmd)
	if got := n.line(t); got != "ready" {
		t.Fatalf("got %q", got)
	}
	lock := l.lock()
	cmd.Process.Signal(unix.SIGTERM)
	if got := n.line(t); got != "terminated" {
		t.Fatalf("got %q", got)
	}
	waitsForLock(t, cmd.Process.Pid)
	cmd.Process.Signal(unix.SIGINT)
	if code := n.end(); code != 5 {
		t.Errorf("exit code %d, want the program's 5", code)
	}
	if !strings.Contains(output.String(), "interrupted while process "+strconv.Itoa(os.Getpid())) ||
		!strings.Contains(output.String(), "the next operation") || strings.Count(output.String(), "\n") != 1 {
		t.Errorf("got %q", &output)
	}
	lock.Close()
	l.nudge()
	l.empty()
}

// lock takes the lock of the lab's state, as an operation does.
func (l *lab) lock() *os.File {
	l.Helper()
	lock, err := os.OpenFile(l.state+"/lock", os.O_RDWR, 0)
	if err == nil {
		l.Cleanup(func() { lock.Close() })
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		l.Fatal(err)
	}
	return lock
}

// waitsForLock waits until a process waits for a file lock.
func waitsForLock(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		locks, err := os.ReadFile("/proc/locks")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(locks)) {
			if f := strings.Fields(line); len(f) > 5 && f[1] == "->" && f[5] == strconv.Itoa(pid) {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not wait for the lock")
		}
	}
}
