package hostile

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
)

func init() {
	roles["idle"] = func([]string) {
		fmt.Println("ready")
		select {}
	}
}

// secret is an argument that no other user may see.
const secret = "hunter2"

// TestHostileArgumentReader: only root and the owner of a process can read a secret in its arguments, or in its --on-resize
// command. No file that other users can read contains it.
func TestHostileArgumentReader(t *testing.T) {
	l := newLab(t)
	l.open()
	l.start([]string{"--cpu", "0.5", "--name", "web", "--on-resize", "exec:true " + secret}, "idle", secret)
	for _, command := range [][]string{{"ps"}, {"ps", "-o", "json"}, {"inspect", "web", "--during", "0"}, {"inspect", "web", "--during", "0", "-o", "json"}} {
		if got := l.ok(command...); strings.Contains(command[0], "inspect") && strings.Count(got, secret) != 2 || !strings.Contains(got, secret) {
			t.Errorf("root's candor %v does not show the arguments:\n%s", command, got)
		}
		got := run(t, asUnprivileged(l.candor(command...)))
		if got.code != 0 || strings.Contains(got.out+got.errOut, secret) || !strings.Contains(got.out, "env") {
			t.Errorf("another user's candor %v: exit %d; want the program's name without arguments:\n%s%s", command, got.code, got.out, got.errOut)
		}
	}
	if got := run(t, asUnprivileged(l.candor("map"))); got.code != 0 {
		t.Errorf("another user's candor map: %+v", got)
	}
	l.noSecret()
}

// noSecret fails if a file of the state that another user can read holds the secret.
func (l *lab) noSecret() {
	l.Helper()
	l.walkState(func(path string, entry fs.DirEntry, mode fs.FileMode) {
		if entry.IsDir() || mode&0o004 == 0 {
			return
		}
		if text, err := os.ReadFile(path); err != nil || bytes.Contains(text, []byte(secret)) {
			l.Errorf("%s, which every user can read with mode %v, holds the secret (%v)", path, mode, err)
		}
	})
}
