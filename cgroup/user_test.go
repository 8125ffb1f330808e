package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// nobody is the ID of an unprivileged user.
const nobody = 65534

// asUser runs in a child process: as an unprivileged user it creates, changes and removes a group, and prints
// the result.
func asUser(parent string) {
	tr, err := Open(Options{Parent: parent, Driver: Cgroupfs})
	if err != nil {
		fmt.Println("open:", err, errors.Is(err, ErrNotDelegated))
		return
	}
	cpus, _, err := tr.Effective()
	g := tr.Group("mine")
	err = errors.Join(err, g.Create(Settings{CPUs: cpus.Lowest(1)}, 0))
	s, failed := g.Settings()
	err = errors.Join(err, failed, g.SetCPUs(cpus, s.Mems), g.Remove(), tr.Remove())
	fmt.Println("made", s.CPUs == cpus.Lowest(1), err)
}

// runAsUser runs asUser in a child process and returns its output.
func runAsUser(t *testing.T, parent string) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"=user "+parent)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestNotDelegated(t *testing.T) {
	tr := tree(t)
	got := runAsUser(t, tr.parent)
	if !strings.HasSuffix(got, " true") || !strings.Contains(got, "run as root, or choose a delegated group with --cgroup-parent") {
		t.Error(got)
	}
	if strings.Contains(got, "\n") {
		t.Errorf("more than one line: %s", got)
	}
}

func TestDelegated(t *testing.T) {
	tr := tree(t)
	_, err := tr.makeParent()
	must(t, err)
	for _, h := range tr.all {
		for _, file := range []string{"", "/cgroup.procs", "/cgroup.subtree_control"} {
			if err := os.Chown(h.parent+file, nobody, nobody); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
	}
	if got := runAsUser(t, tr.parent+"/own"); got != "made true <nil>" {
		t.Error(got)
	}
}
