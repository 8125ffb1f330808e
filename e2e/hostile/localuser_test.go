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
			l.open()
			defer syscall.Umask(syscall.Umask(umask))
			l.launch(l.candor("run", "--cpu", "100m", "--name", "web", "--view", "full+stat", "--on-resize", "exec:true", "--", "sh", "-c", "echo ready; exec sleep 60"))
			before := l.ps()["web"]
			l.checkModes()
			if got := run(t, asUnprivileged(l.candor("ps"))); got.code != 0 || !strings.Contains(got.out, "web") {
				t.Errorf("a user cannot list the containers: %+v", got)
			}
			for _, args := range [][]string{
				{"run", "--cpu", "100m", "--", "true"}, {"resize", "web", "--cpu", "200m"}, {"release", "web", "--kill"},
			} {
				if got := run(t, asUnprivileged(l.candor(args...))); got.code == 0 || strings.Count(got.errOut, "\n") != 1 {
					t.Errorf("candor %s by a user: %+v; want a refusal in one line", strings.Join(args, " "), got)
				}
			}
			if got := run(t, asUnprivileged(exec.Command("sh", "-c", tampering, "sh", l.state))); got.out != "" || got.code != 0 {
				t.Errorf("a user changed the state: %+v", got)
			}
			if after := l.ps()["web"]; after == nil || after["limitMilli"] != before["limitMilli"] || after["state"] != "running" {
				t.Errorf("web was %v and is %v", before, after)
			}
		})
	}
}

// checkModes compares the modes below the state directory with the table in docs/reference/rights.md.
func (l *lab) checkModes() {
	l.Helper()
	l.walkState(func(path string, entry fs.DirEntry, mode fs.FileMode) {
		want := fs.FileMode(0o644)
		switch isCommand := strings.Contains(path, "/commands"); {
		case entry.IsDir() && isCommand:
			want = 0o700
		case entry.IsDir():
			want = 0o755
		case entry.Name() == "lock", entry.Name() == "live", isCommand:
			want = 0o600
		}
		if mode != want {
			l.Errorf("%s has the mode %v, want %v", path, mode, want)
		}
	})
}

// A state directory that a user prepared, or that a link of a user names, is refused.
func TestHostileStateDirectory(t *testing.T) {
	l := newLab(t)
	mine := filepath.Join(l.dir, "mine")
	if err := os.MkdirAll(filepath.Join(mine, "views"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(mine, unprivileged, unprivileged); err != nil {
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
