package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/procfs"
)

// comparing returns a command of candor with the environment of the engine.
func (d *docker) comparing(args ...string) *exec.Cmd {
	cmd := d.candor(args...)
	cmd.Env = append(cmd.Env, "DOCKER_HOST=unix://"+d.in("sock"))
	return cmd
}

// An imageReport has the fields of candor compare -o json that the tests use.
type imageReport struct {
	Image struct {
		Name   string
		Engine struct{ Name, Runtime string }
	}
	Runs []struct {
		Setup, Round, Instance int
		Values                 map[string]float64
		Failure                string
		CPU                    float64
		Periods                int
	}
}

// measures runs candor compare, which must succeed, and returns its report.
func measures(t *testing.T, cmd *exec.Cmd) (r imageReport) {
	t.Helper()
	got := do(t, cmd)
	if err := json.Unmarshal([]byte(got.out), &r); err != nil || got.code != 0 || got.err != "" {
		t.Fatalf("%v: %v, %+v", cmd.Args, err, got)
	}
	return r
}

// nothingLeft fails the test if the engine has containers, or if a lab of candor remains.
func (d *docker) nothingLeft(of *exec.Cmd) {
	d.Helper()
	if ids := d.does("ps", "-aq"); ids != "" {
		d.Errorf("containers are left: %s", ids)
	}
	if left := labsLeft(of.Process.Pid); len(left) > 0 {
		d.Errorf("%v is left", left)
	}
	if rows := d.ps(); len(rows) > 0 {
		d.Errorf("grants are left: %v", rows)
	}
}

// toldScript prints the CPU counts that a container sees, and then computes for a few periods of the quota.
const toldScript = `echo affinity $(nproc) cpuinfo $(grep -c ^processor /proc/cpuinfo) threads ${OMP_NUM_THREADS:-0}
i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done`

// TestDockerCompare: a container gets the same CPUs as a program from each setup, and the experiment leaves
// nothing behind.
func TestDockerCompare(t *testing.T) {
	d := newDocker(t)
	d.need(2)
	cpus, err := procfs.ReadCPUTimes()
	if err != nil {
		t.Fatal(err)
	}
	all, usable := float64(len(cpus)), float64(d.usable.Count())
	cmd := d.comparing("compare", "--cpu", "500m", "--setups", "none,quota,quota+threads,cpuset,shared-fraction,candor", "-n", "2", "--warm-up", "0",
		"--image", "box", "--engine", "docker", "--engine-flags", "--network none", "-o", "json",
		"--metric", `affinity=affinity (\d+)`, "--metric", `cpuinfo=cpuinfo (\d+)`, "--metric", `threads=threads (\d+)`, "--", "sh", "-c", toldScript)
	report := measures(t, cmd)
	if report.Image.Name != "box" || report.Image.Engine.Name != "docker" || len(report.Runs) != 14 {
		t.Errorf("%+v and %d runs, want docker's box, and 2 x (5 + 2)", report.Image, len(report.Runs))
	}
	want := [][3]float64{{usable, all, 0}, {usable, all, 0}, {usable, all, 1}, {1, all, 0}, {1, all, 0}, {1, 1, 0}}
	for _, r := range report.Runs {
		if got := [3]float64{r.Values["affinity"], r.Values["cpuinfo"], r.Values["threads"]}; got != want[r.Setup] {
			t.Errorf("%+v: got %v, want %v", r, got, want[r.Setup])
		}
		if hasQuota := r.Setup == 1 || r.Setup == 2; r.CPU == 0 || hasQuota && r.Periods == 0 {
			t.Errorf("%+v: want that it used CPU time, and periods of its quota", r)
		}
	}
	d.nothingLeft(cmd)
}

// TestDockerCompareFailures: runs that fail or do not end are counted, and their containers are removed.
func TestDockerCompareFailures(t *testing.T) {
	d := newDocker(t)
	for want, test := range map[string][]string{
		"exit code 3: so be it": {"--", "sh", "-c", "echo so be it; exit 3"},
		"not ended after 1s":    {"--timeout", "1s", "--", "sleep", "9999"},
	} {
		cmd := d.comparing(append([]string{"compare", "--cpu", "500m", "--setups", "candor", "-n", "2", "--warm-up", "0", "-o", "json",
			"--image", "box", "--engine-flags", "--network none"}, test...)...)
		report := measures(t, cmd)
		for _, r := range report.Runs {
			if r.Failure != want || len(r.Values) > 0 {
				t.Errorf("%+v, want the failure %q", r, want)
			}
		}
		if len(report.Runs) != 2 {
			t.Errorf("%d runs, want 2", len(report.Runs))
		}
		d.nothingLeft(cmd)
	}
}

// TestDockerCompareCleanup: the containers and groups are removed, whether candor ends, is interrupted or is killed.
func TestDockerCompareCleanup(t *testing.T) {
	d := newDocker(t)
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGKILL} {
		cmd := d.comparing("compare", "--cpu", "500m", "--image", "box", "--engine-flags", "--network none", "--", "sleep", "9999")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		within(t, "a container runs", func() bool { return d.does("ps", "-q") != "" })
		cmd.Process.Signal(sig)
		cmd.Wait()
		if sig == unix.SIGKILL {
			within(t, "its guard clears up", func() bool { return len(labsLeft(cmd.Process.Pid)) == 0 })
		} else if code := cmd.ProcessState.ExitCode(); code != 130 {
			t.Errorf("%v: exit code %d, want 130", sig, code)
		}
		d.nothingLeft(cmd)
	}
}

// TestDockerCompareCleanupByNextLab: if the guard is killed too, the next lab removes the containers and groups.
func TestDockerCompareCleanupByNextLab(t *testing.T) {
	d := newDocker(t)
	cmd := d.comparing("compare", "--cpu", "500m", "--image", "box", "--engine-flags", "--network none", "--", "sleep", "9999")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	within(t, "a container runs", func() bool { return d.does("ps", "-q") != "" })
	guard := guardOf(t, cmd.Process.Pid)
	unix.Kill(guard, unix.SIGKILL)
	cmd.Process.Kill()
	cmd.Wait()
	gone(t, guard)
	if d.does("ps", "-q") == "" || len(labsLeft(cmd.Process.Pid)) == 0 {
		t.Error("nothing is left: the test tests nothing")
	}
	if got := do(t, d.comparing("compare", "--cpu", "500m", "-n", "2", "--", "true")); got.code != 0 {
		t.Errorf("the next one: %+v", got)
	}
	d.nothingLeft(cmd)
}

// guardOf returns the guard of a candor process. If the candor process is killed, the guard cleans up.
func guardOf(t *testing.T, pid int) int {
	t.Helper()
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, file := range files {
		children, _ := os.ReadFile(file)
		for child := range strings.FieldsSeq(string(children)) {
			if line, _ := os.ReadFile("/proc/" + child + "/cmdline"); strings.Contains(string(line), "\x00internal-guard\x00") {
				guard, _ := strconv.Atoi(child)
				return guard
			}
		}
	}
	t.Fatalf("process %d has no guard", pid)
	return 0
}

// TestDockerCompareRefuses: each workload that cannot run gives one line, and nothing remains.
func TestDockerCompareRefuses(t *testing.T) {
	d := newDocker(t)
	refuses := func(want string, cmd *exec.Cmd) {
		t.Helper()
		if got := do(t, cmd); got.code != 2 || got.out != "" || !strings.Contains(got.err, want) || strings.Count(got.err, "\n") != 1 {
			t.Errorf("%v: %+v; want exit code 2 and one line with %q", cmd.Args, got, want)
		}
		d.nothingLeft(cmd)
	}
	compare := func(args ...string) *exec.Cmd {
		return d.comparing(append([]string{"compare", "--cpu", "500m", "-n", "2", "--engine-flags", "--network none"}, args...)...)
	}
	refuses("docker has no no/such:image; run docker pull no/such:image", compare("--image", "no/such:image"))
	refuses("must be the name of an image", compare("--image=-x"))
	refuses("bad workload: duplicate metric", compare("--image", "box", "--metric", "time=x(1)"))
	refuses("no-such-program", compare("--image", "box", "--", "no-such-program"))
	refuses("unknown flag: --no-such-flag", compare("--image", "box", "--engine-flags", "--no-such-flag"))
	refuses("flag --cpus=2: must not be", compare("--image", "box", "--engine-flags", "--cpus=2"))
	refuses("are for --image", compare("--", "true"))
	refuses("must be one of docker, podman, nerdctl", compare("--image", "box", "--engine", "lxc"))
	refuses("cannot be combined with --image", compare("--image", "box", "--server", "true", "--client", "true"))
	refuses("--probe", d.comparing("classify", "--probe", "--image", "box"))
	silent := compare("--image", "box", "--engine", "docker")
	silent.Env = append(silent.Env, "DOCKER_HOST=unix:///no/such/socket")
	refuses("docker does not answer: ", silent)
	none := compare("--image", "box")
	none.Env = append(none.Env, "PATH="+t.TempDir())
	refuses("no docker, nor podman, nor nerdctl in the PATH", none)

	setup := d.candor("setup", "docker", "--undo", "--file", d.in("daemon.json"))
	setup.Path = filepath.Join(d.bin, "candor")
	if got := do(t, setup); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	d.down() // by a reload it forgets no runtime
	d.up()
	refuses("docker has no runtime candor; run candor setup docker", compare("--image", "box"))
}

// TestDockerClassify: classify measures an image like a program. It splits the words of a workload without a shell.
func TestDockerClassify(t *testing.T) {
	d := newDocker(t)
	d.need(2)
	cmd := d.comparing("classify", "--cpu", "0.5", "--image", "box", "--engine-flags", "--network none", "--metric", `v (\d+)`,
		"--workload", "one='a b'", "-o", "json", "--", "sh", "-c", `test "$1" = "a b" && echo v $(nproc)`, "sh")
	got := do(t, cmd)
	var class struct {
		Class       string
		Evaluations []struct {
			Pairs int
			Ratio float64
		}
	}
	if err := json.Unmarshal([]byte(got.out), &class); err != nil || class.Class != "sensitive" || len(class.Evaluations) != 1 || class.Evaluations[0].Pairs != 8 {
		t.Errorf("%v, %+v; want sensitive after 8 pairs", err, got)
	}
	d.nothingLeft(cmd)
}

// TestPodmanCompare: Podman needs no setup, because candor passes it the path of candor-runc.
func TestPodmanCompare(t *testing.T) {
	p := newPodman(t)
	bin := filepath.Join(p.dir, "bin")
	installIn(t, bin)
	script := "#!/bin/sh\nexec " + mustFind(t, "podman") + " --root " + p.dir + "/root --runroot " + p.dir + "/run --tmpdir " + p.dir +
		"/tmp --cgroup-manager cgroupfs --storage-driver vfs --events-backend none \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "podman"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := p.candor("compare", "--cpu", "500m", "--setups", "none,candor", "-n", "2", "--warm-up", "0", "--image", "box", "--engine", "podman",
		"--engine-flags", "--network none --ulimit nofile=1024:1024 --ulimit nproc=1024:1024", "-o", "json", "--metric", `n=^(\d+)$`, "--", "nproc")
	cmd.Path = filepath.Join(bin, "candor")
	cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"))
	report := measures(t, cmd)
	for _, r := range report.Runs {
		if want := []int{p.usable.Count(), 1}[r.Setup]; r.Values["n"] != float64(want) || r.CPU == 0 {
			t.Errorf("%+v, want that it sees %d, and used CPU time", r, want)
		}
	}
	if len(report.Runs) != 4 {
		t.Errorf("%d runs, want 4", len(report.Runs))
	}
	if ids := p.does("ps", "-aq"); ids != "" {
		t.Errorf("containers are left: %s", ids)
	}
	if left := labsLeft(cmd.Process.Pid); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// mustFind returns the path of a program.
func mustFind(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
