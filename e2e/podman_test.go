package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A podman is Podman with storage of its own. The lab's candor is its runtime.
type podman struct {
	*lab
	dir string
}

func newPodman(t *testing.T) *podman {
	t.Helper()
	l := newLab(t)
	for _, program := range []string{"podman", "conmon", "runc", "busybox"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs Podman, runc and busybox: %v", err)
		}
	}
	dir, err := os.MkdirTemp("", "candor-podman-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		clearEngine(l, dir)
		exec.Command("sh", "-c", "find /sys/fs/cgroup/*/libpod_parent -depth -type d -exec rmdir {} \\;").Run() // the kernel refuses it for groups in use
	})
	p := &podman{l, dir}
	p.does("import", boxArchive(t, dir), "box")
	return p
}

// podman runs Podman.
func (p *podman) podman(args ...string) outcome {
	p.Helper()
	all := []string{"--root", p.dir + "/root", "--runroot", p.dir + "/run", "--tmpdir", p.dir + "/tmp", "--runtime", p.runtimeScript(p.dir),
		"--cgroup-manager", "cgroupfs", "--storage-driver", "vfs", "--events-backend", "none"}
	cmd := exec.Command("podman", append(all, args...)...)
	cmd.WaitDelay = time.Minute
	return do(p.T, cmd)
}

// does runs Podman, which must succeed, and returns its output.
func (p *podman) does(args ...string) string {
	p.Helper()
	got := p.podman(args...)
	if got.code != 0 {
		p.Fatalf("podman %s: %+v", strings.Join(args, " "), got)
	}
	return strings.TrimSpace(got.out)
}

// boxOf returns the arguments of podman run for a container with half a CPU.
func boxOf(more ...string) []string {
	return append([]string{"run", "--network=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024", "--cpus=0.5"}, more...)
}

// TestPodman: the life of a container under Podman, which calls its runtime without an environment.
func TestPodman(t *testing.T) {
	p := newPodman(t)
	id := p.does(boxOf("-d", "box", "sleep", "9999")...)
	defer p.podman("rm", "-f", "-t=0", id)
	for _, again := range []bool{false, true} {
		if again {
			p.does("restart", "-t=0", id)
		}
		if r := p.ps()[id[:12]]; r.State != "running" || r.Limit != 500 || r.CPUs.Count() != 1 || p.does("exec", id, "nproc") != "1" {
			t.Errorf("%+v", r)
		}
	}
	p.does("rm", "-f", "-t=0", id)
	p.empty()
}

// TestPodmanImageAnnotations: the annotations of an image, which Podman 4 passes on, have no more rights than its
// environment.
func TestPodmanImageAnnotations(t *testing.T) {
	p := newPodman(t)
	file := filepath.Join(p.dir, "Dockerfile")
	if err := os.WriteFile(file, []byte("FROM box\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, annotation := range []string{"candor.dev/preserve=true", "candor.dev/burst=20ms"} {
		p.does("build", "--format=oci", "--annotation", annotation, "--annotation=io.container.manager=docker", "--annotation=io.podman.annotations.init=", "-t", "evil", "-f", file, p.dir)
		got := p.podman(boxOf("--rm", "evil", "nproc")...)
		if got.code == 0 || !strings.Contains(got.err, "an image must not set it, and this engine passes on annotations or labels of images") {
			t.Errorf("%s: %+v; want it refused", annotation, got)
		}
	}
	p.allowImages("burst")
	if got := p.does(boxOf("--rm", "evil", "nproc")...); got != "1" {
		t.Errorf("burst allowed: it counts %s", got)
	}
	p.empty()
}

// TestPodmanAnnotations: a container has the settings of its annotations, or it is refused.
func TestPodmanAnnotations(t *testing.T) {
	p := newPodman(t)
	p.allowImages("burst")
	id := p.does(boxOf("-d", "--annotation", "candor.dev/class=flexible", "--annotation", "candor.dev/burst=20ms", "box", "sleep", "9999")...)
	defer p.podman("rm", "-f", "-t=0", id)
	has, err := p.tree.Group(id[:12]).Settings()
	if r := p.ps()[id[:12]]; r.Class != "flexible" || err != nil || has.Burst != 20*time.Millisecond {
		t.Errorf("%+v, %+v %v", r, has, err)
	}
	p.does("rm", "-f", "-t=0", id)
	p.empty()
	got := p.podman(boxOf("--rm", "--annotation", "candor.dev/class=x", "box", "nproc")...)
	if got.code == 0 || !strings.Contains(got.err, `annotation candor.dev/class: class "x": must be one of sensitive, flexible`) {
		t.Errorf("a class that there is not: %+v", got)
	}
	p.empty()
}

// TestPodmanSetup: Podman reads the configuration that candor setup podman writes.
func TestPodmanSetup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: Podman without root starts no runtime on machines without newuidmap")
	}
	if _, err := exec.LookPath("podman"); err != nil {
		t.Skipf("needs Podman: %v", err)
	}
	dir := t.TempDir()
	installIn(t, dir)
	file := filepath.Join(dir, "candor.conf")
	setup := exec.Command(filepath.Join(dir, "candor"), "setup", "podman", "--default", "--file", file)
	setup.Env = append(os.Environ(), "CANDOR_CONFIG="+filepath.Join(dir, "host.json"))
	if got := do(t, setup); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	for _, test := range []struct{ flag, want string }{{"--runtime=candor-flexible", "candor-flexible-runc"}, {"--runtime=candor", "candor-runc"}, {"--events-backend=none", "candor-runc"}} {
		info := exec.Command("podman", "--root", dir+"/root", "--runroot", dir+"/run", "--tmpdir", dir+"/tmp", "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs",
			test.flag, "info", "--format", "{{.Host.OCIRuntime.Path}}")
		info.Env = append(os.Environ(), "CONTAINERS_CONF="+file)
		if got := do(t, info); got.code != 0 || strings.TrimSpace(got.out) != filepath.Join(dir, test.want) {
			t.Errorf("%s: %+v, want %s", test.flag, got, test.want)
		}
	}
}

// runtimeScript returns a script that calls candor-runc with the lab's settings, for engines that pass on no
// environment.
func (l *lab) runtimeScript(dir string) string {
	l.Helper()
	link, script := filepath.Join(dir, "candor-runc"), filepath.Join(dir, "runtime")
	if _, err := os.Stat(script); err == nil {
		return script
	}
	if err := os.Symlink(os.Getenv("CANDOR_BIN"), link); err != nil {
		l.Fatal(err)
	}
	var text strings.Builder
	text.WriteString("#!/bin/sh\n")
	for _, entry := range l.candor().Env {
		if strings.HasPrefix(entry, "CANDOR_") && !strings.Contains(entry, "'") {
			fmt.Fprintf(&text, "export '%s'\n", entry)
		}
	}
	fmt.Fprintf(&text, "exec '%s' \"$@\"\n", link)
	if err := os.WriteFile(script, []byte(text.String()), 0o755); err != nil {
		l.Fatal(err)
	}
	return script
}
