package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A doctorReport is the JSON of candor doctor.
type doctorReport struct {
	Status string
	Checks []struct{ ID, Status, Found, Next string }
}

// doctored runs candor doctor for a single check in a private mount namespace, after a shell script has changed the mounts there.
func (l *lab) doctored(script, id string) (code int, status, found string) {
	l.Helper()
	l.needProgram("unshare")
	check := l.candor("doctor", "-o", "json", "--check", id)
	cmd := exec.Command("unshare", append([]string{"--mount", "--propagation", "private", "sh", "-ec", script + "\nexec \"$@\"", "sh"}, check.Args...)...)
	cmd.Env = check.Env
	got := do(l.T, cmd)
	var r doctorReport
	if err := json.Unmarshal([]byte(got.out), &r); err != nil || len(r.Checks) != 1 {
		l.Fatalf("%v: %+v", err, got)
	}
	return got.code, r.Checks[0].Status, r.Checks[0].Found
}

// TestDoctorReadOnlyCgroups: candor doctor fails where a cgroup file system is mounted read-only.
func TestDoctorReadOnlyCgroups(t *testing.T) {
	l := newLab(t)
	const readOnly = `awk '$3 ~ /^cgroup/ {print $2}' /proc/self/mounts | while read -r dir; do mount -o remount,bind,ro "$dir"; done`
	if code, status, found := l.doctored("true", "cgroup-writable"); code != 0 || status != "ok" {
		t.Errorf("with writable cgroups: code %d, %s: %s", code, status, found)
	}
	if code, status, found := l.doctored(readOnly, "cgroup-writable"); code != 1 || status != "failed" || !strings.Contains(found, "is mounted read-only") {
		t.Errorf("with read-only cgroups: code %d, %s: %s", code, status, found)
	}
}

// TestDoctorStaticKubelet: candor doctor fails beside the configuration of a kubelet with the static policy.
func TestDoctorStaticKubelet(t *testing.T) {
	l := newLab(t)
	if _, err := os.Stat("/var/lib"); err != nil {
		t.Skip("needs a directory /var/lib, over which the test mounts a file system")
	}
	const kubelet = `mount -t tmpfs tmpfs /var/lib
mkdir /var/lib/kubelet
printf 'kind: KubeletConfiguration\ncpuManagerPolicy: static\n' >/var/lib/kubelet/config.yaml`
	if code, status, found := l.doctored(kubelet, "kubelet-cpu-manager"); code != 1 || status != "failed" || !strings.Contains(found, "static") {
		t.Errorf("code %d, %s: %s", code, status, found)
	}
}

// TestDoctorWithoutRoot: a user without rights gets all rows in less than 2 s, and the checks that could not read a file are named.
func TestDoctorWithoutRoot(t *testing.T) {
	l := newLab(t)
	cmd := l.candor("doctor")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	start := time.Now()
	got := do(t, cmd)
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	last := got.out[strings.LastIndex(strings.TrimSuffix(got.out, "\n"), "\n")+1:]
	if got.code > 1 || got.err != "" || !strings.Contains(last, "cgroup-writable") || !strings.Contains(last, "root can read more") {
		t.Errorf("%+v", got)
	}
}
