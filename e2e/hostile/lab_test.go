// Package hostile attacks candor as a tenant, a local user or a careless administrator would, and checks that the node
// keeps working. Each attack is a test that runs as root on a real kernel. The attacks that need an engine with a CRI
// are in e2e/containerd. Attacks that take longer than 5 s run only with CANDOR_HOSTILE=1: make test-hostile.
package hostile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
)

// roleVariable makes this test binary play an attacker instead of running tests.
const roleVariable = "CANDOR_HOSTILE_ROLE"

// roles maps the name of an attack to the program that performs it. Each test file adds its own in an init function.
// A role prints "ready" once the attack is in place.
var roles = map[string]func(args []string){}

// TestMain plays a role, or builds candor once and runs the tests.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		roles[role](os.Args[1:])
		return
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	if os.Getenv("CANDOR_BIN") == "" {
		dir, err := os.MkdirTemp("", "candor-hostile-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		bin := filepath.Join(dir, "candor")
		build := exec.Command("go", "build", "-o", bin, "../../cmd/candor")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build ./cmd/candor: %v\n%s", err, out)
			return 1
		}
		os.Chmod(dir, 0o755) // some attackers are other users
		os.Setenv("CANDOR_BIN", bin)
	}
	return m.Run()
}

// heavy skips an attack that takes longer than 5 s, unless make test-hostile runs it.
func heavy(t *testing.T) {
	t.Helper()
	if os.Getenv("CANDOR_HOSTILE") == "" {
		t.Skip("heavy: make test-hostile runs it")
	}
}

// A lab is candor with a state directory and cgroups of its own.
type lab struct {
	*testing.T
	dir, state, parent string
	tree               *cgroup.Tree
}

var labs atomic.Int64

// newLab returns a lab that is removed after the test.
func newLab(t *testing.T) *lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("creates cgroups: needs root")
	}
	dir := t.TempDir()
	l := &lab{T: t, dir: dir, state: filepath.Join(dir, "state"), parent: fmt.Sprintf("/candor-hostile-%d-%d", os.Getpid(), labs.Add(1))}
	var err error
	if l.tree, err = cgroup.Open(cgroup.Options{Parent: l.parent, Driver: cgroup.Cgroupfs}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.remove)
	return l
}

// remove ends the processes of the lab and removes its cgroups.
func (l *lab) remove() {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		names, err := l.tree.Groups()
		if err != nil {
			l.Error(err)
			return
		}
		for _, name := range names {
			if err := l.tree.Group(name).End(); err != nil && !errors.Is(err, cgroup.ErrBusy) {
				l.Error(err)
			}
		}
		if err = l.tree.Remove(); err == nil {
			return
		}
		if time.Now().After(deadline) {
			l.Error(err)
			return
		}
	}
}

// candor returns a command line of candor in the lab.
func (l *lab) candor(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Getenv("CANDOR_BIN"), args...)
	cmd.Env = append(os.Environ(), "CANDOR_STATE_DIR="+l.state, "CANDOR_CGROUP_PARENT="+l.parent,
		"CANDOR_CGROUP_DRIVER=cgroupfs", "CANDOR_CONFIG="+filepath.Join(l.dir, "host.json"))
	cmd.WaitDelay = time.Minute
	return cmd
}

// A result is the end of a command.
type result struct {
	code        int
	out, errOut string
}

// run runs a command to its end.
func run(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatalf("%v: %v", cmd, err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// ok runs candor, which must succeed, and returns its standard output.
func (l *lab) ok(args ...string) string {
	l.Helper()
	got := run(l.T, l.candor(args...))
	if got.code != 0 {
		l.Fatalf("candor %s: exit %d\n%s%s", strings.Join(args, " "), got.code, got.out, got.errOut)
	}
	return got.out
}

// role returns a command line that makes this binary play a role.
func role(name string, args ...string) []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return append([]string{"env", roleVariable + "=" + name, self}, args...)
}

// start starts candor run with a role and waits until it prints "ready".
func (l *lab) start(flags []string, name string, args ...string) *exec.Cmd {
	l.Helper()
	command := append(append([]string{"run"}, flags...), "--")
	return l.launch(l.candor(append(command, role(name, args...)...)...))
}

// launch starts a command and waits until it prints "ready"; the command is killed after the test.
func (l *lab) launch(cmd *exec.Cmd) *exec.Cmd {
	l.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		l.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = write, os.Stderr
	if err := cmd.Start(); err != nil {
		l.Fatal(err)
	}
	write.Close()
	l.Cleanup(func() { cmd.Process.Kill(); cmd.Wait(); read.Close() })
	read.SetReadDeadline(time.Now().Add(time.Minute))
	if line, err := bufio.NewReader(read).ReadString('\n'); line != "ready\n" {
		l.Fatalf("%v: read %q, %v; want ready", cmd, line, err)
	}
	return cmd
}

// unprivileged is the user id of the attacker.
const unprivileged = 65534

// asUnprivileged makes a command run as another user, without any right of root.
func asUnprivileged(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivileged, Gid: unprivileged}}
	cmd.Dir = "/"
	cmd.Env = append(cmd.Env, "CANDOR_CONFIG=/nonexistent") // the lab's may be root's alone
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

// walkState calls a function with each file and folder of the state directory, and its mode.
func (l *lab) walkState(inspect func(path string, entry fs.DirEntry, mode fs.FileMode)) {
	l.Helper()
	err := filepath.WalkDir(l.state, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			inspect(path, entry, info.Mode().Perm())
		}
		return err
	})
	if err != nil {
		l.Error(err)
	}
}

// ps returns the containers of candor ps by name, each as decoded JSON.
func (l *lab) ps() map[string]map[string]any {
	l.Helper()
	var rows []map[string]any
	if err := json.Unmarshal([]byte(l.ok("ps", "-o", "json")), &rows); err != nil {
		l.Fatal(err)
	}
	byName := map[string]map[string]any{}
	for _, row := range rows {
		byName[row["id"].(string)] = row
	}
	return byName
}
