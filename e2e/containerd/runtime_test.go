package containerd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRuntime is candor-runc under containerd's own shim, as nerdctl has it called (--runtime candor-runc): by its path, with
// annotations, in the namespace's group.
func TestRuntime(t *testing.T) {
	parent := fmt.Sprintf("/candor-runtime-test-%d", os.Getpid())
	dir := t.TempDir()
	for name, value := range map[string]string{
		"CANDOR_STATE_DIR": filepath.Join(dir, "state"), "CANDOR_CONFIG": filepath.Join(dir, "host.json"),
		"CANDOR_CGROUP_PARENT": parent, "CANDOR_CGROUP_DRIVER": "cgroupfs",
	} {
		t.Setenv(name, value)
	}
	t.Cleanup(func() {
		exec.Command("sh", "-c", `find /sys/fs/cgroup/*"$1" -depth -type d -exec rmdir {} \;`, "sh", parent).Run()
	})
	l := newEngine(t)
	wrapper := filepath.Join(dir, "candor-runc")
	if err := os.Symlink(l.candor, wrapper); err != nil {
		t.Fatal(err)
	}
	run := func(program string, args ...string) (string, error) {
		cmd := exec.Command(program, args...)
		var errOut strings.Builder
		cmd.Stderr = &errOut
		out, err := cmd.Output()
		if err != nil {
			return errOut.String(), err
		}
		return strings.TrimSpace(string(out)), nil
	}
	ctr := func(args ...string) (string, error) {
		return run(filepath.Join(l.bin, "ctr"), append([]string{"--address", l.path("containerd.sock")}, args...)...)
	}
	does := func(args ...string) string {
		t.Helper()
		out, err := ctr(args...)
		if err != nil {
			t.Fatalf("ctr %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	image(t, l.path("image.tar"), busybox, l.busybox, nil)
	does("images", "import", "--local", "--snapshotter", "native", l.path("image.tar"))
	start := []string{"run", "-d", "--snapshotter", "native", "--runc-binary", wrapper}
	does(append(start, "--cpus", "1.5", busybox, "web", "sleep", "9999")...)
	t.Cleanup(func() { ctr("task", "rm", "-f", "web"); ctr("containers", "rm", "web") })
	does(append(start, "--cpus", "0.3", "--annotation", "candor.dev/class=flexible", busybox, "log", "sleep", "9999")...)
	t.Cleanup(func() { ctr("task", "rm", "-f", "log"); ctr("containers", "rm", "log") })
	if got := does("task", "exec", "--exec-id", "x", "web", "busybox", "nproc"); got != "2" {
		t.Errorf("nproc says %s", got)
	}
	rows, err := run(l.candor, "ps")
	if err != nil || !strings.Contains(rows, "\nweb   sensitive  1500m ") || !strings.Contains(rows, "\nlog   flexible   300m ") {
		t.Errorf("%v\n%s", err, rows)
	}
	got, err := ctr(append(start, "--annotation", "candor.dev/class=x", busybox, "bad", "sleep", "9999")...)
	t.Cleanup(func() { ctr("containers", "rm", "bad") })
	if err == nil || !strings.Contains(got, `candor: bad: annotation candor.dev/class: class "x": want one of sensitive, flexible`) {
		t.Errorf("%v\n%s", err, got)
	}
	does("task", "rm", "-f", "web")
	does("task", "rm", "-f", "log")
	if rows, err := run(l.candor, "ps", "-o", "json"); err != nil || rows != "[]" {
		t.Errorf("left: %v %s", err, rows)
	}
}
