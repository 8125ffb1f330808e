package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/e2e/twins"
)

// An uninstallKind describes a container, which runs once under a runtime of Candor and once under runc.
type uninstallKind struct {
	name, runtime string
	isLarge       bool // only for machines with 16 CPUs
	flags         []string
}

// uninstallKinds are 20 containers: five with exclusive CPUs, five with a fraction of a CPU, five flexible, and five with a
// burst. The small containers fit on two CPUs.
var uninstallKinds = []uninstallKind{
	{"two exclusive CPUs and the memory of a NUMA node", "candor", true, []string{"--cpus", "2", "-e", "CANDOR_TOPOLOGY=single-numa"}},
	{"an exclusive CPU", "candor", false, []string{"--cpus", "1"}},
	{"two exclusive CPUs", "candor", true, []string{"--cpus", "2"}},
	{"an exclusive CPU and a fraction", "candor", true, []string{"--cpus", "1.5", "--cpu-shares", "1500"}},
	{"another exclusive CPU", "candor", true, []string{"--cpus", "1", "--cpu-shares", "3000"}},
	{updatedKind, "candor", false, []string{"--cpus", "0.1"}},
	{"a fraction with a weight", "candor", false, []string{"--cpus", "0.12", "--cpu-shares", "512"}},
	{"a fraction with another period", "candor", false, []string{"--cpu-period", "50000", "--cpu-quota", "6789"}},
	{"half a CPU", "candor", true, []string{"--cpus", "0.5"}},
	{"a large fraction", "candor", true, []string{"--cpus", "0.9", "--cpu-shares", "2"}},
	{"flexible", "candor-flexible", false, []string{"--cpus", "0.1"}},
	{"flexible with a weight", "candor-flexible", false, []string{"--cpus", "0.12", "--cpu-shares", "512"}},
	{"flexible with another period", "candor-flexible", false, []string{"--cpu-period", "50000", "--cpu-quota", "6789"}},
	{"flexible without a limit", "candor-flexible", false, []string{"--cpu-shares", "2048"}},
	{"without any settings", "candor", false, nil},
	{"a fraction with a burst", "candor", false, []string{"--cpus", "0.05", "-e", "CANDOR_BURST=5ms"}},
	{"a fraction with the longest burst", "candor", true, []string{"--cpus", "0.25", "-e", "CANDOR_BURST=kernel"}},
	{"an exclusive CPU and a fraction with a burst", "candor", true, []string{"--cpus", "1.5", "-e", "CANDOR_BURST=20ms"}},
	{"flexible with a burst", "candor-flexible", false, []string{"--cpus", "0.05", "-e", "CANDOR_BURST=5ms"}},
	{"flexible with the longest burst", "candor-flexible", true, []string{"--cpus", "0.3", "-e", "CANDOR_BURST=kernel"}},
}

// updatedKind is the name of the container that gets another limit while it runs.
const updatedKind = "a fraction that is updated"

// TestUninstallDocker: after candor uninstall, the kernel's files of a container equal those of the same container without
// Candor, also if candor uninstall was killed at random points before. The containers go on, and nothing remains. A machine with
// 16 CPUs runs 20 pairs, a smaller machine some of them.
//
//	CANDOR_GIVEBACK_KILLS=50 go test -run '^TestUninstallDocker$' -v   50 kills in the middle of a give-back
func TestUninstallDocker(t *testing.T) {
	newDocker(t).uninstallPairs(func() {})
}

// TestSystemdUninstallDocker is TestUninstallDocker with groups that systemd creates. A reload of systemd does not change the
// result.
func TestSystemdUninstallDocker(t *testing.T) {
	d := newDockerIn(newSystemdLab(t))
	d.uninstallPairs(func() {
		for _, command := range [][]string{{"daemon-reload"}, {"show", "--property=SystemState"}} { // answered after the reload
			if got := do(t, exec.Command("systemctl", command...)); got.code != 0 {
				t.Fatalf("systemctl %v: %+v", command, got)
			}
		}
	})
}

// uninstallPairs runs the rounds of TestUninstallDocker. After a call of reload, the containers must still equal their twins.
func (d *docker) uninstallPairs(reload func()) {
	t := d.T
	d.allowImages("burst") // Docker 20 has no flag for annotations
	config, err := os.ReadFile(d.in("daemon.json"))
	if err != nil || !strings.Contains(string(config), "candor-runc") {
		t.Fatalf("daemon.json: %s, %v", config, err)
	}
	k := twins.NewKiller(t)
	k.Rounds(t, func(round int) {
		pairs, names := d.startPairs(round)
		planned := d.ok("uninstall", "--dry-run")
		if !strings.Contains(planned, "state "+d.state) || !strings.Contains(planned, "is not the state directory of candor-nri.service") {
			t.Fatalf("the dry run prints:\n%s", planned)
		}
		k.Interrupt(t, pairs, func() twins.Program { return startUninstall(t, d.candor("uninstall")) })
		if got := do(t, d.candor("uninstall")); got.code != 0 {
			t.Fatalf("round %d: %+v", round, got)
		}
		if after, err := os.ReadFile(d.in("daemon.json")); err != nil || string(after) != string(config) { // the state of this test does not belong to the service
			t.Errorf("round %d: daemon.json is %s, %v", round, after, err)
		}
		if err := twins.Check(pairs); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		reload()
		if err := twins.Check(pairs); err != nil {
			t.Errorf("round %d, after a reload: %v", round, err)
		}
		for i := 0; i < len(names); i += 4 { // some of them, because each look starts a process
			if sees, want := d.sees(names[i]), d.sees(names[i]+"-plain"); sees != want {
				t.Errorf("round %d: %s sees %s, without Candor %s", round, pairs[i].Name, sees, want)
			}
		}
		for _, name := range names {
			d.does("rm", "-f", name, name+"-plain")
		}
		if left, _ := os.ReadDir(d.state); len(left) > 0 {
			t.Errorf("round %d: the state directory has %v after the end of the containers", round, left)
		}
		if exists, err := d.tree.EngineGroup("parent", "/"+strings.TrimPrefix(d.parent, "/")).Exists(); err != nil || exists {
			t.Errorf("round %d: the parent cgroup exists: %v, %v", round, exists, err)
		}
	})
}

// startPairs starts the containers under Candor's runtimes, and each beside the same container under runc.
func (d *docker) startPairs(round int) (pairs []*twins.Pair, names []string) {
	d.Helper()
	start := func(name, runtime string, kind *uninstallKind) int {
		d.does(append(append([]string{"run", "-d", "--name", name, "--runtime", runtime}, kind.flags...), "box", "sleep", "9999")...)
		if kind.name == updatedKind {
			d.does("update", "--cpus", "0.15", name)
		}
		pid, err := strconv.Atoi(d.does("inspect", "--format", "{{.State.Pid}}", name))
		if err != nil {
			d.Fatal(err)
		}
		return pid
	}
	for i := range uninstallKinds {
		kind := &uninstallKinds[i]
		if kind.isLarge && d.usable.Count() < 16 {
			continue
		}
		name := fmt.Sprintf("r%d-%d", round, i)
		names = append(names, name)
		pairs = append(pairs, &twins.Pair{Name: kind.name, Given: start(name, kind.runtime, kind), Plain: start(name+"-plain", "runc", kind)})
	}
	d.Logf("%d pairs on %d CPUs", len(pairs), d.usable.Count())
	return pairs, names
}

// An uninstallProcess lets a twins.Killer kill candor uninstall.
type uninstallProcess struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// startUninstall starts cmd. The test fails if cmd ends with an error other than the SIGKILL.
func startUninstall(t *testing.T, cmd *exec.Cmd) *uninstallProcess {
	t.Helper()
	var output bytes.Buffer
	cmd.Stderr = &output
	p := &uninstallProcess{cmd, make(chan struct{})}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() > 0 { // -1 after a signal
			t.Errorf("candor uninstall: %v\n%s", err, output.String())
		}
	}()
	return p
}

// Kill kills the process with SIGKILL.
func (p *uninstallProcess) Kill() {
	p.cmd.Process.Kill()
	<-p.ended
}

// IsComplete reports whether the process has ended.
func (p *uninstallProcess) IsComplete() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
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
