package sample

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// startShell starts a shell under the name of another program. The shell reads its commands from the returned pipe.
func startShell(t *testing.T, program string, args ...string) (shell *exec.Cmd, commands io.Writer) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: only helpers of root are trusted")
	}
	text, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Skip(err)
	}
	path := filepath.Join(t.TempDir(), program)
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	shell = exec.Command(path, append([]string{"-s", "--"}, args...)...)
	in, err := shell.StdinPipe()
	if err == nil {
		err = shell.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); shell.Wait() })
	return shell, in
}

// TestDedicatedHelper: the parent of a runtime is the helper if it is conmon for the same container; a logger is a child of a shim
// with the container's ID in its environment.
func TestDedicatedHelper(t *testing.T) {
	id, other := strings.Repeat("0123456789abcdef", 4), strings.Repeat("f", 64)
	start := func(program string, args ...string) (pid int, commands io.Writer) {
		t.Helper()
		shell, commands := startShell(t, program, args...)
		return shell.Process.Pid, commands
	}
	conmon, _ := start("conmon", "-c", id)
	if h := DedicatedHelper(conmon, id); h == nil || h.PID != conmon || h.Name != "conmon" {
		t.Errorf("conmon: %+v", h)
	}
	shim, commands := start("containerd-shim-runc-v2", "-id", id)
	dedicated := func(id string) *Helper {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if h := DedicatedHelper(shim, id); h != nil {
				return h
			}
		}
		return nil
	}
	if h := DedicatedHelper(shim, id); h != nil {
		t.Errorf("a shim is no dedicated helper: %+v", h)
	}
	fmt.Fprintf(commands, "CONTAINER_ID=%s sleep 60 & trap 'kill $!' EXIT\n", other)
	if h := dedicated(other); h == nil || h.PID == shim || h.Container != other {
		t.Errorf("logger: %+v", h)
	}
	named, _ := start("sh", "-c", id)
	for name, test := range map[string]struct {
		parent int
		id     string
	}{
		"another container": {conmon, other}, "another program": {named, id}, "logger of another container": {shim, id},
		"this test": {os.Getpid(), id}, "no process": {1 << 22, id},
	} {
		if h := DedicatedHelper(test.parent, test.id); h != nil {
			t.Errorf("%s: %+v", name, h)
		}
	}
}
