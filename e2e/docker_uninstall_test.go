package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// uninstallKinds are the flags of containers, each of which runs once under Candor's runtime and once under runc.
var uninstallKinds = [][]string{
	{"--cpus", "0.1"},
	{"--cpus", "0.12", "--cpu-shares", "512"},
	{"--cpu-period", "50000", "--cpu-quota", "6789"},
	{"--cpu-shares", "2048"},
	{},
}

// TestUninstallDocker: after candor uninstall, the kernel's files of a container equal those of the same container without
// Candor, also if candor uninstall was killed at a random point before. The containers go on, and nothing remains.
func TestUninstallDocker(t *testing.T) {
	d := newDocker(t)
	moments := rand.New(rand.NewPCG(3, 3))
	for round := range uninstallRounds() {
		pairs := d.startPairs(round)
		d.does("update", "--cpus", "0.15", pairs[0][0])
		d.does("update", "--cpus", "0.15", pairs[0][1])
		config, err := os.ReadFile(d.in("daemon.json"))
		if err != nil || !strings.Contains(string(config), "candor-runc") {
			t.Fatalf("daemon.json: %s, %v", config, err)
		}
		planned := d.ok("uninstall", "--dry-run")
		if !strings.Contains(planned, "state "+d.state) || !strings.Contains(planned, "is not the state directory of candor-nri.service") {
			t.Fatalf("the dry run prints:\n%s", planned)
		}
		killed := d.candor("uninstall")
		if err := killed.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(moments.IntN(60)) * time.Millisecond) // a random point
		killed.Process.Kill()
		killed.Wait()
		if got := do(t, d.candor("uninstall")); got.code != 0 {
			t.Fatalf("round %d: %+v", round, got)
		}
		if after, err := os.ReadFile(d.in("daemon.json")); err != nil || string(after) != string(config) { // the state of this test does not belong to the service
			t.Errorf("round %d: daemon.json is %s, %v", round, after, err)
		}
		for i, pair := range pairs {
			given, plain := d.kernelFiles(pair[0]), d.kernelFiles(pair[1])
			if given != plain {
				t.Errorf("round %d: container %v has\n%s\nwithout Candor\n%s", round, uninstallKinds[i%len(uninstallKinds)], given, plain)
			}
			if sees := d.sees(pair[0]); sees != d.sees(pair[1]) {
				t.Errorf("round %d: container %d sees %s, without Candor %s", round, i, sees, d.sees(pair[1]))
			}
		}
		for _, pair := range pairs {
			d.does("rm", "-f", pair[0], pair[1])
		}
		if left, _ := os.ReadDir(d.state); len(left) > 0 {
			t.Errorf("round %d: the state directory has %v after the end of the containers", round, left)
		}
		if exists, err := d.tree.EngineGroup("parent", d.parent).Exists(); err != nil || exists {
			t.Errorf("round %d: the parent cgroup exists: %v, %v", round, exists, err)
		}
	}
}

// uninstallRounds returns the number of rounds, 3 by default (CANDOR_UNINSTALL_ROUNDS).
func uninstallRounds() int {
	if n, err := strconv.Atoi(os.Getenv("CANDOR_UNINSTALL_ROUNDS")); err == nil {
		return n
	}
	return 3
}

// startPairs starts two containers of each kind under Candor's runtimes, and each beside the same container under runc.
func (d *docker) startPairs(round int) (pairs [][2]string) {
	d.Helper()
	start := func(name, runtime string, flags []string) string {
		d.does(append(append([]string{"run", "-d", "--name", name, "--runtime", runtime}, flags...), "box", "sleep", "9999")...)
		return name
	}
	for i, flags := range slices.Concat(uninstallKinds, uninstallKinds) {
		runtime := "candor"
		if i >= len(uninstallKinds) {
			runtime = "candor-flexible"
		}
		name := fmt.Sprintf("r%d-%d", round, i)
		pairs = append(pairs, [2]string{start(name, runtime, flags), start(name+"-plain", "runc", flags)})
	}
	return pairs
}

// kernelFiles returns the content of the CPU files of a container's cgroup. On v2, cpuset.cpus can differ with the same
// effect, because the kernel can refuse an empty list for a cgroup with processes.
func (d *docker) kernelFiles(name string) string {
	d.Helper()
	membership, err := os.ReadFile("/proc/" + d.does("inspect", "--format", "{{.State.Pid}}", name) + "/cgroup")
	if err != nil {
		d.Fatal(err)
	}
	var all strings.Builder
	for line := range strings.Lines(string(membership)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		files := map[string][]string{
			"":       {"cpuset.cpus.effective", "cpuset.mems.effective", "cpu.max", "cpu.max.burst", "cpu.weight"},
			"cpuset": {"cpuset.cpus", "cpuset.mems"},
			"cpu":    {"cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.shares"},
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			for _, file := range files[controller] {
				found, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup", parts[1], parts[2], file))
				for _, path := range found {
					text, err := os.ReadFile(path)
					fmt.Fprintf(&all, "%s: %s (%v)\n", file, strings.TrimSpace(string(text)), err)
				}
			}
		}
	}
	return all.String()
}

// TestUndoDocker: after candor setup docker --undo, the engine retains the runtimes until it restarts, also after a reload. Then
// a container that was created with the runtime candor cannot start, and can be removed.
func TestUndoDocker(t *testing.T) {
	d := newDocker(t)
	d.does("run", "-d", "--name", "web", "--runtime", "candor", "--cpus", "0.1", "box", "sleep", "9999")
	if got := do(t, d.candor("setup", "docker", "--undo", "--file", d.in("daemon.json"))); got.code != 0 || !strings.Contains(got.out, "Now: systemctl restart docker") {
		t.Fatalf("%+v", got)
	}
	reloads := d.reloads()
	d.daemon.Process.Signal(unix.SIGHUP)
	for deadline := time.Now().Add(time.Minute); d.reloads() == reloads; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the Docker engine does not reload")
		}
	}
	const format = "{{json .Runtimes}}"
	if runtimes := d.does("info", "--format", format); !strings.Contains(runtimes, `"candor"`) {
		t.Errorf("after a reload, the engine has the runtimes %s", runtimes)
	}
	d.down()
	d.up()
	if runtimes := d.does("info", "--format", format); strings.Contains(runtimes, "candor") {
		t.Errorf("after a restart, the engine has the runtimes %s", runtimes)
	}
	if got := do(t, d.docker("start", "web")); got.code == 0 || !strings.Contains(got.err, "candor") {
		t.Errorf("start: %+v", got)
	}
	d.does("rm", "-f", "web")
}

// reloads returns how often the engine has read its configuration again.
func (d *docker) reloads() int {
	d.Helper()
	text, err := os.ReadFile(d.in("log"))
	if err != nil {
		d.Fatal(err)
	}
	return strings.Count(string(text), "Reloaded configuration")
}

// TestUninstallRun: programs of candor run go on after candor uninstall with all CPUs, and their end leaves nothing.
func TestUninstallRun(t *testing.T) {
	l := newLab(t)
	web := l.start([]string{"--cpu", "0.5", "--name", "web"}, "sleep")
	if got := do(t, l.candor("uninstall")); got.code != 0 || !strings.Contains(got.out, "state "+l.state) {
		t.Fatalf("%+v", got)
	}
	if cpus, _, err := l.tree.Group("web").IsConfined(); err != nil || cpus {
		t.Errorf("web is confined: %v, %v", cpus, err)
	}
	if runs, err := l.tree.Group("web").Populated(); err != nil || !runs {
		t.Errorf("web runs: %v, %v", runs, err)
	}
	web.cmd.Process.Signal(os.Interrupt)
	web.end()
	if names, err := l.tree.Groups(); err != nil || len(names) > 0 {
		t.Errorf("groups %v, %v", names, err)
	}
	if _, err := os.Stat(l.state); !os.IsNotExist(err) {
		t.Errorf("the state directory: %v", err)
	}
	if got := do(t, l.candor("uninstall")); got.code != 0 || !strings.HasPrefix(got.out, "Nothing to remove.") {
		t.Errorf("again: %+v", got)
	}
}

// TestRemovalDocker: the packages refuse their removal while a container runs under candor-runc, also after candor uninstall,
// which removes the record of the container. Programs of candor run do not count.
func TestRemovalDocker(t *testing.T) {
	d := newDocker(t)
	d.start([]string{"--cpu", "0.1", "--name", "batch"}, "sleep")
	id := d.does("run", "-d", "--name", "web", "--runtime", "candor", "--cpus", "0.1", "box", "sleep", "9999")[:12]
	removal := func() outcome { return do(t, d.candor("internal-removal")) }
	if got := removal(); got.code != 1 || got.out != "" || !strings.HasSuffix(got.err, "running containers: web; remove these containers first\n") {
		t.Errorf("with web: %+v", got)
	}
	if got := do(t, d.candor("uninstall")); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if got := removal(); got.code != 1 || got.out != "" || !strings.HasSuffix(got.err, "running containers: "+id+"; remove these containers first\n") {
		t.Errorf("after candor uninstall: %+v", got)
	}
	d.does("rm", "-f", "web")
	if got := removal(); got.code != 0 || got.out != "" {
		t.Errorf("after the end of web: %+v", got)
	}
}
