package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/e2e/compatibility"
)

// A compatEngine starts the containers of a cell of docs/compatibility.md. Its runtime is candor-runc.
type compatEngine interface {
	// begin starts a container. isFlexible selects the class.
	begin(name string, milli int, isFlexible bool) (id string)
	// resize changes the limit of a container.
	resize(id string, milli int)
	// prints runs a shell script in a container and returns its output.
	prints(id, script string) string
	// finish ends a container and removes it.
	finish(id string)
}

// A compat is a cell of docs/compatibility.md.
type compat struct {
	*lab
	compatEngine
}

// TestCompatibility measures a cell of docs/compatibility.md with candor-runc: make matrix.
func TestCompatibility(t *testing.T) {
	cell := compatibility.Selected(t)
	compatibility.Step(t, compatibility.Start)
	c := newCompat(t, cell)
	c.need(2)
	compatibility.Step(t, compatibility.Sensitive)
	web := c.begin("web", 1500, false)
	c.isSensitive(web, 1500, 2)
	compatibility.Step(t, compatibility.Flexible)
	log := c.begin("log", 300, true)
	c.isFlexible(log, 300)
	compatibility.Step(t, compatibility.Resize)
	c.resize(web, 1000)
	c.isSensitive(web, 1000, 1)
	c.resize(log, 200)
	c.isFlexible(log, 200)
	c.resize(web, 1500)
	c.isSensitive(web, 1500, 2)
	compatibility.Step(t, compatibility.Killed)
	c.killOperations(web, log)
	c.isSensitive(web, 1500, 2)
	c.isFlexible(log, 200)
	compatibility.Step(t, compatibility.End)
	c.finish(web)
	c.finish(log)
	c.empty()
}

// newCompat starts the engine of a cell.
func newCompat(t *testing.T, cell compatibility.Cell) *compat {
	t.Helper()
	switch name := cell.Engine.Name; {
	case strings.HasPrefix(name, "docker-"):
		d := newDocker(t)
		version := d.does("version", "--format", "{{.Server.Version}}")
		cell.Engine.CheckVersion(t, version)
		compatibility.RecordVersions(t, kernelOf(t, d.lab), "Docker "+version, firstLine(t, "runc", "--version"))
		return &compat{d.lab, compatDocker{d}}
	case strings.HasPrefix(name, "podman-"):
		runtime := name[strings.LastIndex(name, "-")+1:]
		path, err := exec.LookPath(runtime)
		if err != nil {
			t.Skip(err)
		}
		t.Setenv("CANDOR_RUNTIME", path)
		p := newPodman(t)
		version := firstLine(t, "podman", "--version")
		cell.Engine.CheckVersion(t, strings.TrimPrefix(version, "podman version "))
		compatibility.RecordVersions(t, kernelOf(t, p.lab), version, firstLine(t, runtime, "--version"))
		return &compat{p.lab, compatPodman{p}}
	default: // runc or crun
		w := newWrappedIn(t, compatLab(t), fmt.Sprintf("exec %s \"$@\"", name))
		compatibility.RecordVersions(t, kernelOf(t, w.lab), firstLine(t, name, "--version"))
		return &compat{w.lab, compatRuntime{w}}
	}
}

// compatLab returns a lab that lets systemd create the cgroups in a guest with systemd.
func compatLab(t *testing.T) *lab {
	t.Helper()
	if _, err := os.Stat("/run/systemd/system"); err == nil && os.Getenv("CANDOR_IN_GUEST") != "" {
		return newSystemdLab(t)
	}
	return newLab(t)
}

// kernelOf describes the kernel of this machine.
func kernelOf(t *testing.T, l *lab) string {
	t.Helper()
	return compatibility.Kernel(t, l.tree.Version(), l.driver == cgroup.Systemd)
}

// firstLine returns the first line of a program's output. It skips the test if the program is missing.
func firstLine(t *testing.T, program string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skip(err)
	}
	got := do(t, exec.Command(program, args...))
	if got.code != 0 {
		t.Fatalf("%s: %+v", program, got)
	}
	line, _, _ := strings.Cut(got.out, "\n")
	return line
}

// isSensitive checks the limit of a sensitive container, and the CPU counts that it finds.
func (c *compat) isSensitive(id string, limit, cpus int) {
	c.Helper()
	r := c.ps()[id]
	if r.State != "running" || r.Class != "sensitive" || r.Limit != limit || r.CPUs.Count() != cpus {
		c.Fatalf("%+v, want a limit of %d on %d CPUs", r, limit, cpus)
	}
	sees := strings.Join(strings.Fields(c.prints(id, seesScript)), " ")
	if want := fmt.Sprintf("%d %d %s", cpus, cpus, r.CPUs); sees != want {
		c.Fatalf("the container sees %q, want %q", sees, want)
	}
	c.holds()
}

// holds ends the test unless the state of Candor is that of the kernel.
func (c *compat) holds() {
	c.Helper()
	if c.honest(); c.Failed() {
		c.FailNow()
	}
}

// isFlexible checks the limit and the kernel's quota of a flexible container.
func (c *compat) isFlexible(id string, limit int) {
	c.Helper()
	r := c.ps()[id]
	has, err := c.tree.Group(id).Settings()
	want := time.Duration(limit) * 100 * time.Microsecond
	if err != nil || r.State != "running" || r.Class != "flexible" || r.Limit != limit || has.Quota != want || has.Period != 100*time.Millisecond {
		c.Fatalf("%+v with %+v in the kernel, %v; want a limit of %d", r, has, err, limit)
	}
	c.holds()
}

// killOperations kills operations of candor at random times. The containers keep their CPUs.
func (c *compat) killOperations(ids ...string) {
	c.Helper()
	before, latest := c.ps(), 50*time.Millisecond
	if os.Getenv("CANDOR_IN_GUEST") != "" { // emulated CPUs are slow
		latest *= 10
	}
	for range 5 {
		cmd := c.candor(append([]string{"run", "--class", "flexible", "--cpu", "50m"}, play("nap", "50ms")...)...)
		if err := cmd.Start(); err != nil {
			c.Fatal(err)
		}
		time.Sleep(time.Duration(rand.Int64N(int64(latest))))
		cmd.Process.Kill()
		cmd.Wait()
	}
	// The programs of killed operations end later. The next operation can report the difference that a killed operation has left.
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if got := do(c.T, c.candor(append([]string{"run", "--class", "flexible"}, play("exit", "0")...)...)); got.code != 0 {
			c.Fatalf("after killed operations: %+v", got)
		}
		if len(c.ps()) == len(ids) {
			break
		}
		if time.Now().After(end) {
			c.Fatalf("a minute after killed operations, candor ps has %+v", c.ps())
		}
	}
	for after, id := c.ps(), 0; id < len(ids); id++ {
		if was, is := before[ids[id]], after[ids[id]]; was.CPUs != is.CPUs || was.PID != is.PID {
			c.Fatalf("after killed operations, %+v became %+v", was, is)
		}
	}
}

// A compatDocker is Docker.
type compatDocker struct{ *docker }

func (d compatDocker) begin(name string, milli int, isFlexible bool) string {
	runtime := map[bool]string{false: "candor", true: "candor-flexible"}[isFlexible]
	return startedID(d.T, do(d.T, d.docker.docker("run", "-d", "--network=none", "--runtime="+runtime, "--name="+name, cpusFlag(milli), "box", "sleep", "9999")))
}

// startedID returns the ID of a container that a command has started, as Candor shortens it. Otherwise it ends the test with the error of the
// engine alone, which is the reason in docs/compatibility.md.
func startedID(t *testing.T, got outcome) string {
	t.Helper()
	if got.code != 0 || len(got.out) < 12 {
		t.Fatalf("exit %d %s", got.code, strings.TrimSpace(got.err))
	}
	return got.out[:12]
}

func (d compatDocker) resize(id string, milli int)     { d.does("update", cpusFlag(milli), id) }
func (d compatDocker) prints(id, script string) string { return d.does("exec", id, "sh", "-c", script) }
func (d compatDocker) finish(id string)                { d.does("rm", "-f", id) }

// cpusFlag returns the flag of Docker and Podman for a limit.
func cpusFlag(milli int) string { return fmt.Sprintf("--cpus=%g", float64(milli)/1000) }

// A compatPodman is Podman.
type compatPodman struct{ *podman }

func (p compatPodman) begin(name string, milli int, isFlexible bool) string {
	class := map[bool]string{false: "sensitive", true: "flexible"}[isFlexible]
	id := startedID(p.T, p.podman.podman("run", "-d", "--network=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024",
		"--annotation=candor.dev/class="+class, "--name="+name, cpusFlag(milli), "box", "sleep", "9999"))
	p.Cleanup(func() { p.podman.podman("rm", "-f", "-t=0", id) })
	return id
}

func (p compatPodman) resize(id string, milli int)     { p.does("update", cpusFlag(milli), id) }
func (p compatPodman) prints(id, script string) string { return p.does("exec", id, "sh", "-c", script) }
func (p compatPodman) finish(id string)                { p.does("rm", "-f", "-t=0", id) }

// A compatRuntime is candor-runc over runc or crun, without an engine.
type compatRuntime struct{ *wrapped }

func (w compatRuntime) begin(name string, milli int, isFlexible bool) string {
	w.writeConfig(milli*100, func(s ociSpec) {
		if w.driver == cgroup.Systemd {
			s.of("linux")["cgroupsPath"] = "system.slice:docker:" + name
		}
	})
	program := map[bool]string{false: "candor-runc", true: "candor-flexible-runc"}[isFlexible]
	create := []string{"create", "--bundle", w.dir}
	if w.driver == cgroup.Systemd { // a guest whose root is the initramfs, so that pivot_root is impossible
		create = append(create, "--no-pivot")
	}
	for _, args := range [][]string{append(create, name), {"start", name}} {
		if got := do(w.T, w.call(program, args...)); got.code != 0 {
			w.failed(args, got)
		}
	}
	w.Cleanup(func() { do(w.T, w.call("candor-runc", "delete", "--force", name)) })
	return name
}

// call returns a command of the runtime, with systemd as its cgroup driver in a lab with systemd.
func (w compatRuntime) call(program string, args ...string) *exec.Cmd {
	if w.driver == cgroup.Systemd {
		args = append([]string{"--systemd-cgroup"}, args...)
	}
	return w.command(program, args...)
}

func (w compatRuntime) failed(args []string, got outcome) {
	w.Helper()
	text, _ := os.ReadFile(filepath.Join(w.dir, "out"))
	w.Fatalf("candor-runc %s: exit %d %s", args[0], got.code, bytes.TrimSpace(text))
}

func (w compatRuntime) resize(id string, milli int) {
	w.Helper()
	args := []string{"update", "--cpu-quota", fmt.Sprint(milli * 100), "--cpu-period", "100000", id}
	if got := do(w.T, w.call("candor-runc", args...)); got.code != 0 {
		w.failed(args, got)
	}
}

func (w compatRuntime) prints(id, script string) string {
	w.Helper()
	cmd := w.call("candor-runc", "exec", id, "sh", "-c", script)
	var out bytes.Buffer
	cmd.Stdout = &out
	if got := do(w.T, cmd); got.code != 0 {
		w.failed([]string{"exec", id}, got)
	}
	return out.String()
}

func (w compatRuntime) finish(id string) {
	w.Helper()
	args := []string{"delete", "--force", id}
	if got := do(w.T, w.call("candor-runc", args...)); got.code != 0 {
		w.failed(args, got)
	}
}
