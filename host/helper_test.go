package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/host/state"
)

// A program with the command line of a waiting helper keeps its grant when the state is lost.
func TestImitatedHelperIsAdopted(t *testing.T) {
	if os.Getenv("CANDOR_IN_GUEST") != "" {
		t.Skip("cat is busybox there, which takes argv[0] for the program")
	}
	l := newLab(t)
	l.needCPUs(2)
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, HelperCommand), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("cat", HelperCommand, "3") // waits for a writer
	cmd.Args[0], cmd.Dir = "candor", dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	a := ask("web", "1")
	a.PID = cmd.Process.Pid
	if _, err := l.Allocate(ctx, a); err != nil {
		t.Fatal(err)
	}
	l.forge(func(s *state.State) { s.Grants = nil })
	l.nudge()
	l.check("web")
}

// TestListPIDsQuotesNames: a program can choose its name. A name with control characters is quoted for the
// terminal.
func TestListPIDsQuotesNames(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	evil := filepath.Join(t.TempDir(), "\x1b[2J")
	if err := exec.Command("cp", sleep, evil).Run(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(evil, "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	// In an exec, the kernel closes the pipe for which Start waits, and then sets the name.
	got := ""
	for end := time.Now().Add(10 * time.Second); !strings.HasSuffix(got, ` ("\x1b[2J")`); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q", got)
		}
		got = listPIDs([]int{cmd.Process.Pid})
	}
}
