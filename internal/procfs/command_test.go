package procfs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestCommandText: CommandText returns the first 4096 bytes of a command line, and an error for an exited
// process.
func TestCommandText(t *testing.T) {
	for _, arguments := range []string{"a", strings.Repeat("a", 100_000)} {
		cmd := exec.Command("cat", "-", arguments)
		in, _ := cmd.StdinPipe()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		want := "cat\x00-\x00" + arguments + "\x00"
		var got string
		var err error
		for deadline := time.Now().Add(10 * time.Second); !strings.HasPrefix(got, "cat") && time.Now().Before(deadline); {
			got, err = CommandText(cmd.Process.Pid)
		}
		if want = want[:min(len(want), 4096)]; got != want || err != nil {
			t.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
		}
		in.Close()
		cmd.Wait()
		if got, err := CommandText(cmd.Process.Pid); err == nil {
			t.Errorf("an exited process: %q", got)
		}
	}
	if uid, err := Owner(os.Getpid()); uid != os.Geteuid() || err != nil {
		t.Errorf("owner %d, %v", uid, err)
	}
}

// TestCommandTextInTime: a read that blocks, here on a pipe, returns ErrSlow after its timeout.
func TestCommandTextInTime(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err := readTextInTime(pipe, 20*time.Millisecond)
	if took := time.Since(began); !errors.Is(err, ErrSlow) || took > 5*time.Second {
		t.Errorf("after %v: %v; want ErrSlow after 20 ms", took, err)
	}
	writer, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	writer.Close()
}
