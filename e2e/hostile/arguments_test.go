package hostile

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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

// as is a candor command of another user.
func (l *lab) as(uid uint32, args ...string) *exec.Cmd {
	cmd := l.candor(args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	cmd.Env = append(cmd.Env, "CANDOR_CONFIG=/nonexistent")
	return cmd
}

// open makes the lab's folder one that every user may enter, as /run is.
func (l *lab) open() {
	for dir := l.dir; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			l.Fatal(err)
		}
	}
}

// A secret in the arguments of a program, or of its --on-resize command, is for root and for the owner of the process
// alone. It is in no file that another user can read.
func TestHostileReaderOfArguments(t *testing.T) {
	l := newLab(t)
	l.open()
	l.start([]string{"--cpu", "0.5", "--name", "web", "--on-resize", "exec:true " + secret}, "idle", secret)
	for _, command := range [][]string{{"ps"}, {"ps", "-o", "json"}, {"inspect", "web", "--during", "0"}, {"inspect", "web", "--during", "0", "-o", "json"}} {
		if got := l.ok(command...); strings.Contains(command[0], "inspect") && strings.Count(got, secret) != 2 || !strings.Contains(got, secret) {
			t.Errorf("root's candor %v does not show the arguments:\n%s", command, got)
		}
		got := run(t, l.as(65534, command...))
		if got.code != 0 || strings.Contains(got.out+got.errOut, secret) || !strings.Contains(got.out, "env") {
			t.Errorf("another user's candor %v: exit %d; want the program's name without arguments:\n%s%s", command, got.code, got.out, got.errOut)
		}
	}
	if got := run(t, l.as(65534, "map")); got.code != 0 {
		t.Errorf("another user's candor map: %+v", got)
	}
	l.noSecret()
}

// noSecret fails if a file of the state that another user can read holds the secret.
func (l *lab) noSecret() {
	l.Helper()
	err := filepath.WalkDir(l.state, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if entry.IsDir() && info.Mode()&0o005 == 0 {
			return fs.SkipDir
		}
		text, _ := os.ReadFile(path)
		if info.Mode()&0o004 != 0 && bytes.Contains(text, []byte(secret)) {
			l.Errorf("%s holds the secret, and every user can read it: mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		l.Fatal(err)
	}
}
