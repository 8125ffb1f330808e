package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
)

// A doctorReport is the JSON of candor doctor.
type doctorReport struct {
	Status string
	Checks []struct{ ID, Status, Found, Next string }
}

// doctored runs candor doctor for a single check with more flags in a private mount namespace, after a shell script has changed
// the mounts there.
func (l *lab) doctored(script, id string, flags ...string) (code int, status, found string) {
	l.Helper()
	l.needProgram("unshare")
	check := l.candor(append([]string{"doctor", "-o", "json", "--check", id}, flags...)...)
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

// emptyEtc hides the files of /etc. Some guests have no /etc.
const emptyEtc = "mkdir -p /etc; mount -t tmpfs tmpfs /etc\n"

// TestDoctorFindings: candor doctor fails on this machine after a change of its files.
func TestDoctorFindings(t *testing.T) {
	for _, c := range []struct{ id, use, program, script, found string }{
		{"state", "run", "", `mkdir -p "$CANDOR_STATE_DIR"; chmod 777 "$CANDOR_STATE_DIR"`, "others can write it"},
		{"state", "run", "", `mkdir -p "$CANDOR_STATE_DIR"; chmod 700 "$CANDOR_STATE_DIR"; echo '{"version":99}' >"$CANDOR_STATE_DIR/state.json"`, "newer"},
		{"state-space", "run", "", `mkdir -p "$CANDOR_STATE_DIR"; mount -t tmpfs -o size=512k tmpfs "$CANDOR_STATE_DIR"`, "has 0.5 MiB"},
		{"host-options", "run", "", `echo '{"reserved":"999"}' >"$CANDOR_CONFIG"`, "does not have CPU 999"},
		{"nri-config", "nri", "", emptyEtc + `mkdir /etc/candor; printf 'version: 1\nreserve: 1\n' >/etc/candor/nri.yaml`, "unknown field"},
		{"docker-runtimes", "docker", "dockerd",
			emptyEtc + `mkdir /etc/docker; echo '{"runtimes":{"candor":{"path":"/no/such/candor-runc"}}}' >/etc/docker/daemon.json`, "/no/such/candor-runc, is missing"},
	} {
		t.Run(c.id, func(t *testing.T) {
			l := newLab(t)
			if c.program != "" {
				l.needProgram(c.program)
			}
			if _, status, found := l.doctored("true", c.id, "--for", c.use); strings.Contains(found, c.found) {
				t.Errorf("without the change: %s: %s", status, found)
			}
			if code, status, found := l.doctored(c.script, c.id, "--for", c.use); code != 1 || status != "failed" || !strings.Contains(found, c.found) {
				t.Errorf("code %d, %s: %s; want %s", code, status, found, c.found)
			}
		})
	}
}

// TestDoctorOldContainerd: candor doctor fails with containerd 1.6, which has no NRI.
func TestDoctorOldContainerd(t *testing.T) {
	l := newLab(t)
	l.needProgram("containerd")
	if version := do(t, exec.Command("containerd", "--version")).out; !strings.Contains(version, " 1.6.") {
		t.Skipf("needs containerd 1.6, has %s", version)
	}
	if code, status, found := l.doctored("true", "runtime-version", "--for", "nri"); code != 1 || status != "failed" || !strings.Contains(found, "has no NRI") {
		t.Errorf("code %d, %s: %s", code, status, found)
	}
}

// TestDoctorGroups: candor doctor warns about a quota and about missing CPUs above Candor's containers.
func TestDoctorGroups(t *testing.T) {
	l := newLab(t)
	l.need(2)
	warns := func(l *lab, id, want string) {
		t.Helper()
		code, status, found := l.doctored("true", id)
		if isWarning := want != ""; code != 0 || (status == "warning") != isWarning || !strings.Contains(found, want) {
			t.Errorf("%s of %s: code %d, %s: %s; want %q", id, l.parent, code, status, found, want)
		}
	}
	outer := l.tree.Group("outer")
	if err := outer.Create(cgroup.Settings{CPUs: l.usable}, 0); err != nil {
		t.Fatal(err)
	}
	inner := *l
	inner.parent += "/outer/candor"
	warns(&inner, "cgroup-cpus", "")
	warns(&inner, "cgroup-quota", "")
	one := l.usable.Lowest(1)
	if err := outer.Apply(cgroup.Settings{CPUs: one, Quota: 50 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	warns(&inner, "cgroup-cpus", "can have CPU "+one.String()+", and lacks")
	warns(&inner, "cgroup-quota", "group "+l.parent+"/outer has a quota of 50ms per 100ms")
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
