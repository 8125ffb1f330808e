package containerd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A wrapped is a containerd without the NRI plugin whose clients use candor-runc as their runtime.
type wrapped struct {
	*lab
	wrapper string // candor-runc
}

// newWrapped starts a wrapped with a state directory and groups of its own.
func newWrapped(t *testing.T) *wrapped {
	t.Helper()
	parent := fmt.Sprintf("/candor-runtime-test-%d", os.Getpid())
	dir := t.TempDir()
	for name, value := range map[string]string{
		"CANDOR_STATE_DIR": filepath.Join(dir, "state"), "CANDOR_CONFIG": filepath.Join(dir, "host.json"),
		"CANDOR_CGROUP_PARENT": parent, "CANDOR_CGROUP_DRIVER": "cgroupfs",
	} {
		t.Setenv(name, value)
	}
	t.Cleanup(func() {
		if err := removeGroups(parent); err != nil {
			t.Error(err)
		}
	})
	w := &wrapped{newEngine(t), filepath.Join(dir, "candor-runc")}
	if err := os.Symlink(w.candor, w.wrapper); err != nil {
		t.Fatal(err)
	}
	image(t, w.path("image.tar"), busybox, w.busybox, nil)
	if out, err := w.ctr("images", "import", "--local", "--snapshotter", "native", w.path("image.tar")); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return w
}

// run runs a program and returns its output; after an error, its standard error.
func (w *wrapped) run(program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		return errOut.String(), err
	}
	return strings.TrimSpace(string(out)), nil
}

func (w *wrapped) ctr(args ...string) (string, error) {
	return w.run(filepath.Join(w.bin, "ctr"), append([]string{"--address", w.path("containerd.sock")}, args...)...)
}

// TestRuntime: candor-runc under containerd's shim, called like nerdctl --runtime candor-runc: by its path,
// with annotations, in the namespace's group.
func TestRuntime(t *testing.T) {
	w := newWrapped(t)
	does := func(args ...string) string {
		t.Helper()
		out, err := w.ctr(args...)
		if err != nil {
			t.Fatalf("ctr %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	start := []string{"run", "-d", "--snapshotter", "native", "--runc-binary", w.wrapper}
	for _, name := range []string{"web", "log", "bad"} {
		t.Cleanup(func() { w.ctr("task", "rm", "-f", name); w.ctr("containers", "rm", name) })
	}
	does(append(start, "--cpus", "1.5", busybox, "web", "sleep", "9999")...)
	does(append(start, "--cpus", "0.3", "--annotation", "candor.dev/class=flexible", busybox, "log", "sleep", "9999")...)
	if got := does("task", "exec", "--exec-id", "x", "web", "busybox", "nproc"); got != "2" {
		t.Errorf("nproc prints %s", got)
	}
	rows, err := w.run(w.candor, "ps")
	if err != nil || !strings.Contains(rows, "\nweb   sensitive  1500m ") || !strings.Contains(rows, "\nlog   flexible   300m ") {
		t.Errorf("%v\n%s", err, rows)
	}
	got, err := w.ctr(append(start, "--annotation", "candor.dev/class=x", busybox, "bad", "sleep", "9999")...)
	if err == nil || !strings.Contains(got, `candor: bad: annotation candor.dev/class: class "x": must be one of sensitive, flexible`) {
		t.Errorf("%v\n%s", err, got)
	}
	does("task", "rm", "-f", "web")
	does("task", "rm", "-f", "log")
	if rows, err := w.run(w.candor, "ps", "-o", "json"); err != nil || rows != "[]" {
		t.Errorf("left: %v %s", err, rows)
	}
}

// TestRuntimeNamespaces: containers with the same name in two namespaces of containerd are different containers.
func TestRuntimeNamespaces(t *testing.T) {
	w := newWrapped(t)
	spaces := []string{fmt.Sprintf("candor-a%d", os.Getpid()), fmt.Sprintf("candor-b%d", os.Getpid())}
	in := func(space string, args ...string) string {
		t.Helper()
		out, err := w.ctr(append([]string{"--namespace", space}, args...)...)
		if err != nil {
			t.Errorf("%s: ctr %s: %v\n%s", space, strings.Join(args, " "), err, out)
		}
		return out
	}
	limits := func(want ...string) {
		t.Helper()
		rows, err := w.run(w.candor, "ps")
		for i, limit := range want {
			has := strings.Contains(rows, spaces[i]+"--web  sensitive  "+limit+" ")
			if err != nil || has != (limit != "") {
				t.Errorf("%s: want a limit of %q: %v\n%s", spaces[i], limit, err, rows)
			}
		}
	}
	for _, space := range spaces {
		t.Cleanup(func() {
			w.ctr("--namespace", space, "task", "rm", "-f", "web")
			w.ctr("--namespace", space, "containers", "rm", "web")
			if err := removeGroups("/" + space); err != nil {
				t.Error(err)
			}
		})
		in(space, "images", "import", "--local", "--snapshotter", "native", w.path("image.tar"))
		in(space, "run", "-d", "--snapshotter", "native", "--runc-binary", w.wrapper, "--cpus", "0.5", busybox, "web", "sleep", "9999")
	}
	limits("500m", "500m")
	if out, err := w.run(w.wrapper, "--root", "/run/containerd/runc/"+spaces[1], "update", "--cpu-quota", "70000", "--cpu-period", "100000", "web"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	limits("500m", "700m")
	in(spaces[0], "task", "rm", "-f", "web")
	limits("", "700m")
	in(spaces[1], "task", "rm", "-f", "web")
	if rows, err := w.run(w.candor, "ps", "-o", "json"); err != nil || rows != "[]" {
		t.Errorf("left: %v %s", err, rows)
	}
}
