package guest_test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/candor-project/candor/e2e/guest"
	"github.com/candor-project/candor/e2e/guest/report"
	"github.com/candor-project/candor/e2e/probes"
)

// TestGiveBack gives 20 containers back beside the same 20 containers without Candor, on 32 CPUs, with containerd and with the
// Docker of the distribution: on cgroup v2, on cgroup v1, and on cgroup v2 with systemd. Afterwards, the kernel's files of each
// pair are byte-equal. The tests in the guest kill the give-back at random points, and count the kills in the middle
// (CANDOR_GIVEBACK_KILLS).
//
// It takes too long for make test: make test-giveback runs it.
func TestGiveBack(t *testing.T) {
	needGuest(t)
	if os.Getenv("CANDOR_GUEST_GIVEBACK") == "" {
		t.Skip("takes long: make test-giveback, or CANDOR_GUEST_GIVEBACK=1")
	}
	all := kernels(t)
	newest := all[len(all)-1]
	var env []string
	if kills := os.Getenv("CANDOR_GIVEBACK_KILLS"); kills != "" {
		env = append(env, "CANDOR_GIVEBACK_KILLS="+kills)
	}
	machine := guest.Big
	machine.NodeMB = 1024 // each container of Docker has a copy of the image
	for _, k := range all {
		v2 := guest.Guest{Kernel: k, Cgroup: 2, Machine: machine}
		t.Run("v2/"+k.Release+"/containerd", func(t *testing.T) { withContainerd(t, long(v2), "TestGiveBack", env...) })
		t.Run("v2/"+k.Release+"/docker", func(t *testing.T) { withDocker(t, long(v2), "TestUninstallDocker", env...) })
		if k.CpusetsV1 {
			v1 := v2
			v1.Cgroup = 1
			t.Run("v1/"+k.Release+"/containerd", func(t *testing.T) { withContainerd(t, long(v1), "TestGiveBack", env...) })
			t.Run("v1/"+k.Release+"/docker", func(t *testing.T) { withDocker(t, long(v1), "TestUninstallDocker", env...) })
		}
	}
	booted := func() guest.Guest {
		g := systemd(t, newest)
		g.Machine = machine
		return long(g)
	}
	t.Run("systemd/"+newest.Release+"/containerd", func(t *testing.T) { withContainerd(t, booted(), "TestSystemdGiveBack", env...) })
	t.Run("systemd/"+newest.Release+"/docker", func(t *testing.T) { withDocker(t, booted(), "TestSystemdUninstallDocker", append(env, noPivot)...) })
}

// long returns a guest with the time for 50 kills. With -v, it prints the output of its commands while they run.
func long(g guest.Guest) guest.Guest {
	g.Limit = 90 * time.Minute
	if testing.Verbose() {
		g.Output = os.Stderr
	}
	return g
}

// noPivot makes Docker's containerd start containers without pivot_root, which is impossible if the root is the initramfs.
const noPivot = "DOCKER_RAMDISK=1"

// withDocker boots a guest that has the Docker engine of this machine, and runs a test of e2e there, with more environment
// variables.
func withDocker(t *testing.T, g guest.Guest, test string, env ...string) {
	t.Helper()
	built := build(t, "e2e")
	g.Init = filepath.Join(built.dir, "init")
	files := built.files(t)
	maps.Copy(files, g.Files)
	for _, name := range []string{"dockerd", "docker", "containerd", "containerd-shim-runc-v2", "runc"} {
		addProgram(t, files, name)
	}
	g.Files = files
	g.Texts = map[string]string{"/etc/hosts": "127.0.0.1 localhost\n", "/etc/resolv.conf": ""}
	if !g.Systemd {
		g.Texts["/etc/passwd"], g.Texts["/etc/group"] = "root:x:0:0::/root:/bin/sh\n", "root:x:0:\n"
	}
	g.Commands = []report.Command{{
		Name:  "docker",
		Args:  []string{"/bin/busybox", "sh", "-c", uninstallScript},
		Env:   append(env, "CANDOR_IN_GUEST=1", "CANDOR_BIN=/usr/bin/candor", "CANDOR_TEST="+test, "CANDOR_TIMEOUT="+(g.Limit-2*time.Minute).String()),
		Dir:   "/guest/e2e",
		Limit: g.Limit - time.Minute,
	}}
	for _, r := range run(t, &g) {
		relay(t, r)
		if bytes.Contains(r.Output, []byte("--- SKIP")) {
			t.Error("the machine is not what the test needs")
		}
	}
	t.Logf("%s: %.0f s of CPU time", g.Machine, g.CPUTime.Seconds())
}

// uninstallScript runs the test $CANDOR_TEST, and removes the groups that each Docker engine leaves.
const uninstallScript = `/guest/e2e/e2e.test -test.v=test2json -test.timeout="$CANDOR_TIMEOUT" -test.run="^$CANDOR_TEST\$"
code=$?
find /sys/fs/cgroup -depth -type d -name docker -exec rmdir {} \;
exit $code`

// addProgram adds a program of this machine with its libraries to the files of a guest, in a directory of the guest's $PATH.
func addProgram(t *testing.T, files map[string]string, name string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v: run scripts/test-deps.sh", err)
	}
	files["/usr/bin/"+name] = path
	libraries, err := probes.Linked(path)
	if err != nil { // linked statically: ldd prints no libraries
		return
	}
	for _, file := range libraries[1:] {
		files[file] = file
	}
}
