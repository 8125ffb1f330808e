package audit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// process writes a directory like /proc/PID, with a command line and a working directory, and returns it.
func process(t *testing.T, cwd string, words ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	err := os.WriteFile(filepath.Join(dir, "cmdline"), []byte(strings.Join(words, "\x00")+"\x00"), 0o644)
	if err == nil && cwd != "" {
		err = os.Symlink(cwd, filepath.Join(dir, "cwd"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestIsOwnUsers: only processes of this user count, so candor reads no files named by processes of other
// users.
func TestIsOwnUsers(t *testing.T) {
	if !isOwnUsers("/proc/self") || isOwnUsers("/proc/none") {
		t.Error("want true for a process of this user, and false for an ended process")
	}
	if os.Geteuid() != 0 {
		t.Skip("starts a process of another user: needs root")
	}
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if isOwnUsers(fmt.Sprintf("/proc/%d", cmd.Process.Pid)) {
		t.Error("got true for a process of another user")
	}
}

func TestWatcherOf(t *testing.T) {
	const shim, tasks = "/usr/bin/containerd-shim-runc-v2", "/run/containerd/io.containerd.runtime.v2.task/"
	for _, test := range []struct {
		cwd   string
		words []string
		id    string
		want  watcher
	}{
		{tasks + "k8s.io/sandbox", []string{shim, "-namespace", "k8s.io", "-id", "sandbox"}, id, watcher{"containerd", "", tasks + "k8s.io/" + id}},
		{tasks + "moby/" + id, []string{shim, "-namespace", "moby", "-id", id}, id, watcher{"docker", "", tasks + "moby/" + id}},
		{tasks + "moby/" + id, []string{shim, "-namespace", "moby", "-id", id}, id[:12], watcher{"docker", "", tasks + "moby/" + id}},
		{"", []string{shim, "-namespace"}, id, watcher{runtime: "containerd"}},
		{"/", []string{"/usr/bin/conmon", "-c", id, "-b", "/var/b", "-n", "web"}, id, watcher{"podman", "web", "/var/b"}},
		{"/", []string{"conmon", "-b"}, id, watcher{runtime: "podman"}},
	} {
		if w := watcherOf(process(t, test.cwd, test.words...), test.id); w == nil || *w != test.want {
			t.Errorf("%q: %+v; want %+v", test.words, w, test.want)
		}
	}
	for _, words := range [][]string{{""}, {"sleep", "-b", "/x"}, {"/bin/sh", "containerd-shim"}} {
		if w := watcherOf(process(t, "/", words...), id); w != nil {
			t.Errorf("%q: got watcher %+v, want none", words, w)
		}
	}
	inner := process(t, "/", "/usr/bin/conmon", "-b", "/etc", "-n", "evil")
	if err := os.WriteFile(filepath.Join(inner, "status"), []byte("Name:\tconmon\nUid:\t0\t0\t0\t0\nNSpid:\t7\t1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if w := watcherOf(inner, id); w != nil {
		t.Errorf("process in a container: got watcher %+v, want none", w)
	}
	if w := watcherOf("/nowhere", id); w != nil {
		t.Errorf("no process: got watcher %+v, want none", w)
	}
}
