package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A docker is a Docker engine for a test. The lab's candor is its runtime.
type docker struct {
	*lab
	dir    string
	bin    string
	daemon *exec.Cmd
	flags  []string
}

// newDocker starts an engine with candor's two runtimes, which candor setup has added, and with the image "box".
func newDocker(t *testing.T, flags ...string) *docker {
	t.Helper()
	return newDockerIn(newLab(t), flags...)
}

// newDockerIn starts an engine as newDocker does, with the cgroup driver of a lab.
func newDockerIn(l *lab, flags ...string) *docker {
	l.Helper()
	t := l.T
	for _, program := range []string{"dockerd", "docker", "runc", "busybox"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs Docker, runc and busybox: %v", err)
		}
	}
	dir, err := os.MkdirTemp("", "candor-docker-") // short: it holds sockets
	if err != nil {
		t.Fatal(err)
	}
	d := &docker{lab: l, dir: dir, bin: filepath.Join(dir, "bin"), flags: flags}
	t.Cleanup(d.clear)
	installIn(t, d.bin)
	if err := os.WriteFile(d.in("daemon.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	d.up()
	d.configure()
	d.does("import", boxArchive(t, dir), "box")
	return d
}

// in returns the path of a file of the engine.
func (d *docker) in(name string) string { return filepath.Join(d.dir, name) }

// installIn installs candor and its names as a runtime in a directory, as make install does.
func installIn(t *testing.T, dir string) {
	t.Helper()
	script := `mkdir -p "$1" && cp "$CANDOR_BIN" "$1/candor" && ln -s candor "$1/candor-runc" && ln -s candor "$1/candor-flexible-runc"`
	if got := do(t, exec.Command("sh", "-c", script, "sh", dir)); got.code != 0 {
		t.Fatalf("install: %+v", got)
	}
}

// configure follows docs/docker.md: it runs candor setup docker and reloads the engine.
func (d *docker) configure() {
	d.Helper()
	setup := d.candor("setup", "docker", "--file", d.in("daemon.json"))
	setup.Path = filepath.Join(d.bin, "candor")
	if got := do(d.T, setup); got.code != 0 {
		d.Fatalf("candor setup docker: %+v", got)
	}
	d.daemon.Process.Signal(unix.SIGHUP)
	for deadline := time.Now().Add(time.Minute); !strings.Contains(d.does("info", "--format", "{{json .Runtimes}}"), `"candor-flexible"`); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			d.Fatal("the reloaded Docker engine does not list candor-flexible")
		}
	}
}

// up starts the engine and waits until it answers.
func (d *docker) up() {
	d.Helper()
	in := d.in
	log, err := os.OpenFile(in("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		d.Fatal(err)
	}
	defer log.Close()
	os.Remove(in("pid")) // of one that was killed
	args := append([]string{"--host", "unix://" + in("sock"), "--data-root", in("data"), "--exec-root", in("exec"), "--pidfile", in("pid"),
		"--config-file", in("daemon.json"), "--iptables=false", "--ip6tables=false", "--bridge=none", "--userland-proxy=false", "--storage-driver", storageDriver(),
		"--exec-opt", "native.cgroupdriver=" + string(d.driver)}, d.flags...)
	d.daemon = exec.Command("dockerd", args...)
	d.daemon.Env = d.candor().Env
	d.daemon.Stdout, d.daemon.Stderr = log, log
	if err := d.daemon.Start(); err != nil {
		d.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); do(d.T, d.docker("info")).code != 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			d.Fatal("the Docker engine does not start")
		}
	}
}

// storageDriver returns the storage driver of the engine. The guests have no modules, so their kernels lack overlayfs.
func storageDriver() string {
	if os.Getenv("CANDOR_IN_GUEST") != "" {
		return "vfs"
	}
	return "overlay2"
}

// docker returns a docker command for this engine.
func (d *docker) docker(args ...string) *exec.Cmd {
	cmd := exec.Command("docker", append([]string{"--host", "unix://" + filepath.Join(d.dir, "sock")}, args...)...)
	cmd.WaitDelay = time.Minute
	return cmd
}

// does runs docker, which must succeed, and returns its output.
func (d *docker) does(args ...string) string {
	d.Helper()
	got := do(d.T, d.docker(args...))
	if got.code != 0 {
		d.Fatalf("docker %s: exit %d\n%s%s", strings.Join(args, " "), got.code, got.out, got.err)
	}
	return strings.TrimSpace(got.out)
}

// boxArchive creates the archive of an image that contains only busybox.
func boxArchive(t *testing.T, dir string) string {
	t.Helper()
	root := filepath.Join(dir, "box")
	busybox, err := exec.LookPath("busybox") // command -v of busybox's own shell prints no path
	if err != nil {
		t.Fatal(err)
	}
	script := `mkdir -p "$1/bin" && cp "$2" "$1/bin/busybox" &&
for name in sh nproc sleep cat grep; do ln -s busybox "$1/bin/$name"; done && tar -C "$1" -cf "$1.tar" .`
	if got := do(t, exec.Command("sh", "-c", script, "sh", root, busybox)); got.code != 0 {
		t.Fatalf("image: %+v", got)
	}
	return root + ".tar"
}

// kill kills the engine and its containerd, like a crash. The containers continue to run.
func (d *docker) kill() {
	d.daemon.Process.Kill()
	d.daemon.Wait()
	file := filepath.Join(d.dir, "exec", "containerd", "containerd.pid")
	text, err := os.ReadFile(file)
	if err != nil {
		d.Fatal(err)
	}
	var pid int
	if fmt.Sscan(string(text), &pid); pid > 1 {
		unix.Kill(pid, unix.SIGKILL)
		gone(d.T, pid)
	}
	os.Remove(file) // the engine would take a zombie for a containerd that runs
}

// down stops the engine like a service manager.
func (d *docker) down() {
	d.daemon.Process.Signal(unix.SIGTERM)
	d.daemon.Wait()
}

// clear stops the containers and the engine, and removes everything that they left.
func (d *docker) clear() {
	if ids := strings.Fields(do(d.T, d.docker("ps", "-aq")).out); len(ids) > 0 {
		do(d.T, d.docker(append([]string{"rm", "-f"}, ids...)...))
	}
	d.down()
	if d.Failed() {
		text, _ := os.ReadFile(filepath.Join(d.dir, "log"))
		d.Logf("engine:\n%s", text[max(0, len(text)-2000):])
	}
	clearEngine(d.lab, d.dir)
}

// clearEngine removes the leftovers of an engine: the groups of its runtime in hierarchies that Candor does
// not use, its mounts and its directory.
func clearEngine(l *lab, dir string) {
	exec.Command("sh", "-c", `find /sys/fs/cgroup/*"$1"* -depth -type d -exec rmdir {} \;`, "sh", l.parent).Run()
	exec.Command("sh", "-c", `grep -o " $1/[^ ]*" /proc/self/mountinfo | xargs -r umount -l`, "sh", dir).Run()
	if err := os.RemoveAll(dir); err != nil {
		l.Error(err)
	}
}

// sees returns the CPU counts in a running container: the affinity, sysfs and procfs.
func (d *docker) sees(name string) string {
	d.Helper()
	return strings.Join(strings.Fields(d.does("exec", name, "sh", "-c", seesScript)), " ")
}

// seesScript prints the number of CPUs in the affinity and in /proc/cpuinfo, and the list of online CPUs.
const seesScript = "nproc; grep -c ^processor /proc/cpuinfo; cat /sys/devices/system/cpu/online"

// honest fails the test unless the kernel's settings equal the state, and each exclusive CPU belongs to one container.
func (l *lab) honest() {
	l.Helper()
	owner := map[int]string{}
	for name, r := range l.ps() {
		has, err := l.tree.Group(name).Settings()
		if err != nil || has.CPUs != r.CPUs {
			l.Errorf("%s: the kernel has %v (%v), the state %v", name, has.CPUs, err, r.CPUs)
		}
		for cpu := range r.Exclusive.All() {
			if other := owner[cpu]; other != "" {
				l.Errorf("CPU %d is exclusive to %s and to %s", cpu, other, name)
			}
			owner[cpu] = name
		}
	}
	for name, r := range l.ps() {
		for cpu := range r.CPUs.All() {
			if other := owner[cpu]; other != "" && other != name {
				l.Errorf("%s may run on CPU %d, which is exclusive to %s", name, cpu, other)
			}
		}
	}
}
