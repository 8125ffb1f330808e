package hostile

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestHostileMute: a program of another user maps a file over its arguments that never answers. A read of its
// /proc/PID/cmdline hangs, and no signal ends it. Candor inspects the program, which the state does not know, without
// that file.
func TestHostileMute(t *testing.T) {
	l := newLab(t)
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("no FUSE in this kernel")
	}
	dir := filepath.Join(l.dir, "fuse")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for at := l.dir; at != "/" && at != os.TempDir(); at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil { // the program is another user's
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	server := role("serveMute", dir)
	l.launch(exec.Command(server[0], server[1:]...))
	l.start([]string{"--cpu", "0.1", "--name", "evil0"}, "mute", filepath.Join(dir, "mute"))
	if err := os.Remove(filepath.Join(l.state, "state.json")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"ps"}, {"audit"}, {"map"}, {"run", "--cpu", "0.1", "--", "true"}, {"ps"}} {
		ended := make(chan result, 1)
		go func() { ended <- run(l.T, l.candor(args...)) }()
		select {
		case got := <-ended:
			if got.code != 0 {
				t.Errorf("candor %s: exit %d\n%s", args[0], got.code, got.errOut)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("candor %s hangs", args[0])
		}
	}
	if l.ps()["evil0"] == nil {
		t.Error("the program was not adopted")
	}
}
