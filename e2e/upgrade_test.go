package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/e2e/previous"
)

// An upgrade replaces candor, which the runtimes of a Docker engine run, while containers run.
type upgrade struct {
	*docker
	binaries [2]string // this candor and the previous release
	random   *rand.Rand
	granted  map[string]cpuset.Set // of the containers, by ID
	scratch  int                   // programs so far
	killed   int                   // operations that a signal ended
	finished int                   // operations that ended before the signal
}

// TestReleaseUpgrade swaps the previous release and this candor 20 times, and kills their operations with SIGKILL at random
// times. The cpusets of running containers do not change, and both read the state that the other has written.
func TestReleaseUpgrade(t *testing.T) {
	if os.Getenv("CANDOR_RELEASE") == "" {
		t.Skip("make test-release builds the previous release")
	}
	old := previous.Build(t, "..")
	u := &upgrade{docker: newDocker(t), binaries: [2]string{os.Getenv("CANDOR_BIN"), old}, granted: map[string]cpuset.Set{}}
	u.need(2)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	u.random = rand.New(rand.NewPCG(seed, 0))
	u.begin()
	for round := range 20 {
		current := u.binaries[(round+1)%2] // first the previous release
		u.swap(current)
		for range 3 {
			u.kill(u.operation(current))
		}
		// The operation can report the difference that a killed operation has left.
		if got := do(t, u.with(current, append([]string{"run", "--class", "flexible"}, play("exit", "0")...)...)); got.code != 0 {
			t.Fatalf("round %d: %+v", round, got)
		}
		if round%5 > 2 {
			u.engineOperations()
		}
		u.check(round)
	}
	if t.Logf("%d operations killed, %d finished", u.killed, u.finished); u.killed < 20 || u.finished == 0 {
		t.Error("the signals come too late or too early")
	}
	u.refuse()
	u.does("rm", "-f", "web", "log")
	for _, name := range []string{"job", "old"} {
		do(t, u.candor("release", name, "--kill"))
	}
	u.nudge()
	u.empty()
}

// with returns a command of one of the binaries in the lab.
func (u *upgrade) with(bin string, args ...string) *exec.Cmd {
	cmd := u.candor(args...)
	cmd.Path = bin
	return cmd
}

// begin starts two containers and two programs: exclusive CPUs and a fraction, a flexible container, a raised quota, and
// a program of the previous release.
func (u *upgrade) begin() {
	u.Helper()
	limit := fmt.Sprintf("--cpus=%d.5", u.usable.Count()-1)
	web := u.does("run", "-d", "--network=none", "--runtime=candor", "--name=web", limit, "box", "sleep", "9999")[:12]
	log := u.does("run", "-d", "--network=none", "--runtime=candor-flexible", "--name=log", "--cpus=0.2", "box", "sleep", "9999")[:12]
	u.start([]string{"--class", "flexible", "--cpu", "100m", "--burst", "quota", "--name", "job"}, "burn")
	u.swap(u.binaries[1])
	old := u.launch(u.with(u.binaries[1], append([]string{"run", "--class", "flexible", "--cpu", "50m", "--name", "old"}, play("sleep")...)...))
	if got := old.line(u.T); got != "ready" {
		u.Fatalf("the previous release prints %q, want ready", got)
	}
	for _, id := range []string{web, log, "job", "old"} {
		u.granted[id] = u.cpus(id)
	}
	u.check(-1)
}

// swap replaces the program that the engine's runtimes run.
func (u *upgrade) swap(bin string) {
	u.Helper()
	script := `cp "$1" "$2/candor.new" && mv "$2/candor.new" "$2/candor"`
	if got := do(u.T, exec.Command("sh", "-c", script, "sh", bin, u.bin)); got.code != 0 {
		u.Fatalf("swap: %+v", got)
	}
}

// operation returns an operation that does not change the CPUs of the containers.
func (u *upgrade) operation(bin string) *exec.Cmd {
	switch u.random.IntN(4) {
	case 0:
		return u.with(bin, "resize", "job", "--cpu", fmt.Sprintf("%dm", 90+u.random.IntN(20)))
	case 1:
		return u.with(bin, "resize", "old", "--cpu", fmt.Sprintf("%dm", 40+u.random.IntN(20)))
	case 2:
		return u.with(bin, "release", fmt.Sprintf("scratch-%d", u.scratch), "--kill")
	default:
		u.scratch++
		return u.with(bin, append([]string{"run", "--class", "flexible", "--cpu", "20m", "--name", fmt.Sprintf("scratch-%d", u.scratch)}, play("nap", "100ms")...)...)
	}
}

// kill starts an operation and kills it at a random time.
func (u *upgrade) kill(cmd *exec.Cmd) {
	u.Helper()
	if err := cmd.Start(); err != nil {
		u.Fatal(err)
	}
	time.Sleep(time.Duration(u.random.Int64N(int64(50 * time.Millisecond))))
	cmd.Process.Kill()
	if cmd.Wait(); cmd.ProcessState.Exited() {
		u.finished++
	} else {
		u.killed++
	}
}

// engineOperations lets Docker call the runtime: an update, a new container, and a restart, which retains the CPUs.
func (u *upgrade) engineOperations() {
	u.Helper()
	u.does("update", fmt.Sprintf("--cpus=0.%d", 15+u.random.IntN(5)), "log")
	if got := u.does("run", "--rm", "--network=none", "--runtime=candor-flexible", "--cpus=0.02", "box", "nproc"); got != "1" {
		u.Errorf("a flexible container beside the others: nproc prints %s", got)
	}
	u.does("restart", "-t=0", "web")
}

// cpus returns the cpuset of a container in the kernel.
func (u *upgrade) cpus(id string) cpuset.Set {
	u.Helper()
	has, err := u.tree.Group(id).Settings()
	if err != nil {
		u.Fatal(err)
	}
	return has.CPUs
}

// check compares the cpusets with those at the start. Both binaries list the containers.
func (u *upgrade) check(round int) {
	u.Helper()
	for id, cpus := range u.granted {
		if got := u.cpus(id); got != cpus {
			u.Errorf("round %d: %s has CPUs %v, had %v", round, id, got, cpus)
		}
	}
	rows := u.ps()
	for _, bin := range u.binaries {
		got := do(u.T, u.with(bin, "ps", "-o", "json"))
		if got.code != 0 || got.err != "" {
			u.Errorf("round %d: %+v", round, got)
		}
		for id := range u.granted {
			if rows[id].State != "running" || !strings.Contains(got.out, id) {
				u.Errorf("round %d: %s is %+v", round, id, rows[id])
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(u.state, "state.json"))
	if err != nil || !strings.HasPrefix(string(text), `{"version":2,`) {
		u.Errorf("round %d: %v, state %.60s", round, err, text)
	}
	if bad, err := os.ReadFile(filepath.Join(u.state, "state.json.bad")); err == nil {
		u.Fatalf("round %d: one of the releases has refused the state:\n%s", round, bad)
	}
	if table := u.ok("ps"); !strings.Contains(table, "\nweb ") {
		u.Errorf("round %d: candor ps lacks the name of Docker:\n%s", round, table)
	}
}

// refuse uses a feature that the previous release does not know: it refuses the state, and changes nothing. After the end of
// the feature, it reads the state again.
func (u *upgrade) refuse() {
	u.Helper()
	nothing := append([]string{"run", "--class", "flexible"}, play("exit", "0")...)
	u.start([]string{"--class", "flexible", "--cpu", "20m", "--helpers", "charge", "--name", "charged"}, "sleep")
	file := filepath.Join(u.state, "state.json")
	before, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(before), `{"version":3,"features":["helpers"],`) {
		u.Errorf("with a feature: %v, state %.60s", err, before)
	}
	if got := do(u.T, u.with(u.binaries[1], nothing...)); got.code == 0 || !strings.Contains(got.err, "version 3: written by a newer Candor") {
		u.Errorf("the previous release does not refuse the feature: %+v", got)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		u.Errorf("the previous release has changed the state: %v\n%s", err, after)
	}
	u.ok("release", "charged", "--kill")
	if got := do(u.T, u.with(u.binaries[1], nothing...)); got.code != 0 {
		u.Errorf("after the end of the feature: %+v", got)
	}
}
