package containerd

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A nerdctl is a wrapped containerd with the command line of nerdctl.
type nerdctl struct {
	*wrapped
	command []string // program and flags
}

// newNerdctl starts a nerdctl, if nerdctl is installed or $CANDOR_NERDCTL names it.
func newNerdctl(t *testing.T) *nerdctl {
	t.Helper()
	program := os.Getenv("CANDOR_NERDCTL")
	if program == "" {
		var err error
		if program, err = exec.LookPath("nerdctl"); err != nil {
			t.Skipf("optional: %v", err)
		}
	}
	w := newWrapped(t)
	return &nerdctl{w, []string{program, "--address", w.path("containerd.sock"), "--namespace", "default", "--snapshotter", "native",
		"--cgroup-manager", "cgroupfs", "--data-root", w.path("nerdctl")}}
}

// try runs a command of nerdctl and returns its output; after an error, its standard error.
func (n *nerdctl) try(args ...string) (string, error) {
	return n.run(n.command[0], slices.Concat(n.command[1:], args)...)
}

// does runs a command of nerdctl, which must succeed, and returns its output.
func (n *nerdctl) does(args ...string) string {
	n.Helper()
	out, err := n.try(args...)
	if err != nil {
		n.Fatalf("nerdctl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// TestNerdctl: the life of a container under nerdctl. The update passes the quota, because nerdctl ignores --cpus there.
func TestNerdctl(t *testing.T) {
	w := newNerdctl(t)
	does := w.does
	t.Cleanup(func() { w.try("rm", "-f", "web") })
	start := []string{"run", "-d", "--net=none", "--runtime=" + w.wrapper, "--name=web", "--cpus=1.5"}
	got, err := w.try(append(start, "--env=CANDOR_CLASS=x", busybox, "sleep", "9999")...)
	if err == nil || !strings.Contains(got, "environment CANDOR_CLASS: ") {
		t.Errorf("%v\n%s", err, got)
	}
	does("rm", "-f", "web")
	does(append(start, busybox, "sleep", "9999")...)
	for _, step := range []struct {
		args []string
		cpus string
	}{{nil, "2"}, {[]string{"update", "--cpu-quota=100000", "web"}, "1"}, {[]string{"restart", "-t=0", "web"}, "1"}} {
		if step.args != nil {
			does(step.args...)
		}
		rows, err := w.run(w.candor, "ps")
		if got := does("exec", "web", "busybox", "nproc"); got != step.cpus || err != nil || !strings.Contains(rows, "\nweb   sensitive  ") {
			t.Errorf("%v: nproc prints %s, want %s; %v\n%s", step.args, got, step.cpus, err, rows)
		}
	}
	does("rm", "-f", "web")
	annotation := "--label" // of nerdctl 1
	if strings.Contains(does("run", "--help"), "--annotation") {
		annotation = "--annotation"
	}
	does(append(start, annotation+"=candor.dev/class=flexible", busybox, "sleep", "9999")...)
	if rows, err := w.run(w.candor, "ps"); err != nil || !strings.Contains(rows, "  flexible  1500m ") {
		t.Errorf("%s: %v\n%s", annotation, err, rows)
	}
	does("rm", "-f", "web")
	if rows, err := w.run(w.candor, "ps", "-o", "json"); err != nil || rows != "[]" {
		t.Errorf("left: %v %s", err, rows)
	}
}
