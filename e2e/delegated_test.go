package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/candor-project/candor/cgroup"
)

// TestDelegated: a user without root rights runs candor in a delegated group.
func TestDelegated(t *testing.T) {
	l := newLab(t)
	const nobody = 65534
	if err := l.tree.Group("session").Create(cgroup.Settings{CPUs: l.usable}, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.endDelegated)
	delegate(t, l.parent, nobody)
	home := t.TempDir()
	if err := errors.Join(os.Chown(home, nobody, nobody), os.Chmod(filepath.Dir(home), 0o755)); err != nil {
		t.Fatal(err)
	}
	l.state = filepath.Join(home, "state")
	l.parent += "/candor"

	bin := os.Getenv("CANDOR_BIN")
	run := func(flags ...string) outcome {
		cmd := l.candor(append(append([]string{"run"}, flags...), "--", bin, "version")...)
		inside := exec.Command("/proc/self/exe", append([]string{roleArgument, "in-group", l.parent, cmd.Path}, cmd.Args[1:]...)...)
		inside.Env = cmd.Env
		return do(t, inside)
	}
	if got := run("--cpu", "0.5", "--view", "affinity"); got.code != 0 || !strings.HasPrefix(got.out, "candor ") {
		t.Errorf("%+v", got)
	}
	if got := run("--class", "flexible"); got.code != 0 || !strings.HasPrefix(got.out, "candor ") {
		t.Errorf("%+v", got)
	}
	got := run("--cpu", "0.5")
	if got.code != 2 || !strings.Contains(got.err, "--view affinity") || strings.Count(got.err, "\n") != 1 {
		t.Errorf("a full view without the right to mount: %+v", got)
	}
}

// delegate changes the owner of a group and of the groups below it to a user.
func delegate(t *testing.T, parent string, user int) {
	t.Helper()
	for _, dir := range groupDirs(parent) {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && (d.IsDir() || strings.HasPrefix(d.Name(), "cgroup.")) {
				err = os.Chown(path, user, user)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// groupDirs returns the directories of a group in all hierarchies.
func groupDirs(parent string) []string {
	var dirs []string
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		found, _ := filepath.Glob(pattern + parent)
		for _, dir := range found { // v1 has links to the hierarchies of several controllers
			if dir, err := filepath.EvalSymlinks(dir); err == nil && !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// endDelegated removes the groups that the user created.
func (l *lab) endDelegated() {
	for _, dir := range groupDirs(l.parent) {
		if err := syscall.Rmdir(dir); err != nil {
			l.Error(dir, err)
		}
	}
	if err := l.tree.Group("session").Remove(); err != nil {
		l.Error(err)
	}
}

// enterGroup executes its arguments without root rights (user nobody), in the delegated group and in a new session.
func enterGroup(parent string, args []string) error {
	for _, dir := range groupDirs(filepath.Dir(parent) + "/session") {
		if err := os.WriteFile(dir+"/cgroup.procs", []byte("0"), 0); err != nil {
			return err
		}
	}
	err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(65534), syscall.Setuid(65534))
	if err != nil {
		return err
	}
	return syscall.Exec(args[0], args, os.Environ())
}
