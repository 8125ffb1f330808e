package hostile

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// nobody is the user that attacks.
const nobody = 65534

// asNobody makes a command run as another user, without any right of root.
func asNobody(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	cmd.Dir = "/"
	return cmd
}

// tampering tries to change each file and folder of a state directory, and prints those that changed.
const tampering = `
umask 0
find "$1" | while read -r path; do
	if [ -d "$path" ]; then
		( : >"$path/planted" ) && echo "planted a file in $path"
		ln -s /etc/shadow "$path/link" && echo "planted a link in $path"
	else
		( : >>"$path" ) && echo "opened $path"
		rm -f "$path" && echo "removed $path"
		mv "$path" "$path.moved" && echo "moved $path"
	fi
	chmod 777 "$path" && echo "changed the mode of $path"
done 2>/dev/null
true`

// A local user reads the state and changes nothing, whatever the umask of root is.
func TestHostileLocalUser(t *testing.T) {
	for name, umask := range map[string]int{"umask 000": 0, "umask 077": 0o077} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			if err := os.Chmod(filepath.Dir(l.dir), 0o755); err != nil { // Go's temporary folders are root's alone
				t.Fatal(err)
			}
			if err := os.Chmod(l.dir, 0o755); err != nil {
				t.Fatal(err)
			}
			defer syscall.Umask(syscall.Umask(umask))
			l.launch(l.candor("run", "--cpu", "100m", "--name", "web", "--", "sh", "-c", "echo ready; exec sleep 60"))
			before := l.ps()["web"]
			l.checkModes()
			if got := run(t, asNobody(l.candor("ps"))); got.code != 0 || !strings.Contains(got.out, "web") {
				t.Errorf("a user cannot list the containers: %+v", got)
			}
			for _, args := range [][]string{
				{"run", "--cpu", "100m", "--", "true"}, {"resize", "web", "--cpu", "200m"}, {"release", "web", "--kill"},
			} {
				if got := run(t, asNobody(l.candor(args...))); got.code == 0 || strings.Count(got.errOut, "\n") != 1 {
					t.Errorf("candor %s by a user: %+v; want a refusal in one line", strings.Join(args, " "), got)
				}
			}
			if got := run(t, asNobody(exec.Command("sh", "-c", tampering, "sh", l.state))); got.out != "" || got.code != 0 {
				t.Errorf("a user changed the state: %+v", got)
			}
			if after := l.ps()["web"]; after == nil || after["limit"] != before["limit"] || after["state"] != "running" {
				t.Errorf("web was %v and is %v", before, after)
			}
		})
	}
}

// checkModes compares the modes below the state directory with the table in docs/security.md.
func (l *lab) checkModes() {
	l.Helper()
	err := filepath.WalkDir(l.state, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o644)
		switch {
		case d.IsDir():
			want = 0o755
		case d.Name() == "lock":
			want = 0o600
		}
		if got := info.Mode().Perm(); got != want {
			l.Errorf("%s has the mode %v, want %v", file, got, want)
		}
		return nil
	})
	if err != nil {
		l.Error(err)
	}
}

// A state directory that a user prepared, or that a link of a user names, is refused.
func TestHostileStateDirectory(t *testing.T) {
	l := newLab(t)
	mine := filepath.Join(l.dir, "mine")
	if err := os.MkdirAll(filepath.Join(mine, "views"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(mine, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	link, open := filepath.Join(l.dir, "link"), filepath.Join(l.dir, "open")
	if err := os.Symlink(mine, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{mine, link, open} {
		l.state = dir
		got := run(t, l.candor("run", "--cpu", "100m", "--", "true"))
		if got.code != 2 || !strings.Contains(got.errOut, "state directory") || strings.Count(got.errOut, "\n") != 1 {
			t.Errorf("state directory %s: %+v; want a refusal in one line", dir, got)
		}
	}
}
