package containerd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/e2e/charged"
	"github.com/candor-project/candor/internal/procfs"
)

// A nerdctlContainer is a charged container of nerdctl.
type nerdctlContainer struct {
	*nerdctl
	name string
	log  string // file of the log
}

// startCharging starts a ledger agent that charges the containers of nerdctl.
func (n *nerdctl) startCharging(port string) *daemon {
	n.Helper()
	agent := n.start(n.candor, "ledger", "agent", "--charge", "--metrics", port) // the environment has the other settings
	n.Cleanup(agent.kill)
	n.wait("the agent", agent, func() bool { return page("http://127.0.0.1:"+port+"/metrics") != "" })
	return agent
}

// charged starts a charged container with more flags of run.
func (n *nerdctl) charged(name, cpus, script string, flags ...string) *nerdctlContainer {
	n.Helper()
	// A log has a directory of its own: at each rotation, the logger reads all files of the directory, and stops if one of them
	// disappears.
	logs := n.path("logs/" + name)
	if err := os.MkdirAll(logs, 0o755); err != nil {
		n.Fatal(err)
	}
	c := &nerdctlContainer{n, name, logs + "/json.log"}
	n.Cleanup(func() { n.try("rm", "-f", name) })
	n.does(slices.Concat([]string{"run", "-d", "--net=none", "--runtime=" + n.wrapper, "--name=" + name, "--cpus=" + cpus,
		"--env=CANDOR_CLASS=flexible", "--env=CANDOR_HELPERS=charge", "--log-driver=json-file", "--log-opt=log-path=" + c.log},
		flags, []string{busybox, "sh", "-c", script})...)
	return c
}

// groups are the ways in which a charged container pays for nerdctl's logger, with the flags of run. Without a chosen parent, Candor
// places the logger in the container's cgroup. Otherwise the agent charges it.
func (n *nerdctl) groups() map[string][]string {
	parent := fmt.Sprintf("/candor-nerdctl-test-%d", os.Getpid())
	n.Cleanup(func() { removeLedgerGroups(n.T, parent) })
	return map[string][]string{"placed": nil, "charged": {"--cgroup-parent=" + parent}}
}

// program returns the first process of the container.
func (c *nerdctlContainer) program() int {
	c.Helper()
	pid, err := strconv.Atoi(c.does("inspect", "--format", "{{.State.Pid}}", c.name))
	if err != nil {
		c.Fatal(err)
	}
	return pid
}

// logger returns the process ID of the container's logger.
func (c *nerdctlContainer) logger() int {
	c.Helper()
	logger, err := loggerOf(c.program(), "_NERDCTL_INTERNAL_LOGGING")
	if err != nil {
		c.Fatal(err)
	}
	return logger
}

// isPlaced reports whether the logger is in the cgroup of the container.
func (c *nerdctlContainer) isPlaced() bool {
	c.Helper()
	return strings.HasPrefix(cpuGroup(c.T, c.logger()), cpuGroup(c.T, c.program())+"/")
}

// helpers returns the helpers of the container outside of its cgroup: the shim, and the logger unless it is placed.
func (c *nerdctlContainer) helpers() []int {
	c.Helper()
	stat, err := procfs.ReadStat(c.program())
	if err != nil {
		c.Fatal(err)
	}
	if c.isPlaced() {
		return []int{stat.Parent}
	}
	return []int{stat.Parent, c.logger()}
}

// use returns the CPU use of containers and of their helpers together.
func (n *nerdctl) use(all []*nerdctlContainer, during time.Duration) (cpus float64) {
	n.Helper()
	var groups []string
	var helpers []int
	for _, c := range all {
		group := cpuGroup(n.T, c.program())
		groups, helpers = append(groups, group), append(helpers, c.helpers()...)
	}
	tree := n.allPods()
	defer tree.Close()
	read := func() (sum time.Duration) {
		for _, group := range groups {
			u, err := tree.ReadUsage(group)
			if err != nil {
				n.Fatal(err)
			}
			sum += u.CPU
		}
		for _, pid := range helpers {
			sum += threadTime(n.T, pid)
		}
		return sum
	}
	before, start := read(), time.Now()
	time.Sleep(during)
	return float64(read()-before) / float64(time.Since(start))
}

// reach measures until the containers and their helpers together use their limits: the agent finds new helpers after a second, and
// charges only their later work.
func (n *nerdctl) reach(want float64, agent *daemon, when string, all ...*nerdctlContainer) {
	n.Helper()
	for range 5 {
		sum := n.use(all, 4*time.Second)
		n.Logf("%s: sum %.3f of %.3f CPUs", when, sum, want)
		if sum > 0.76*want && sum < 1.2*want {
			return
		}
	}
	n.Errorf("%s: containers and helpers do not use %.3f CPUs\n%s", when, want, agent.output())
}

// checkLines waits until the log has the given number of lines, and checks that the log and the rotated logs have each line once.
func (c *nerdctlContainer) checkLines(lines int, agent *daemon) {
	c.Helper()
	last := fmt.Sprintf(`"log":"%d\n"`, lines)
	for end := time.Now().Add(5 * time.Minute); !strings.Contains(lastEntries(c.T, c.log), last); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			c.Fatalf("%s: the log does not end with line %d\n%s", c.name, lines, agent.output())
		}
	}
	files, err := filepath.Glob(c.log + "*")
	if err != nil || len(files) < 2 {
		c.Fatalf("%s: the log is not rotated: %q, %v", c.name, files, err)
	}
	var numbers []int
	for _, file := range files {
		numbers = append(numbers, c.numbersIn(file)...)
	}
	slices.Sort(numbers)
	for i, number := range numbers {
		if number != i+1 {
			c.Fatalf("%s: line %d is %d", c.name, i+1, number)
		}
	}
	if len(numbers) != lines {
		c.Errorf("%s: %d lines, want %d", c.name, len(numbers), lines)
	}
}

// numbersIn returns the lines of a log in JSON, which are numbers.
func (c *nerdctlContainer) numbersIn(file string) (numbers []int) {
	c.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		c.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var entry struct{ Log string }
		err := json.Unmarshal([]byte(line), &entry)
		number := 0
		if err == nil {
			number, err = strconv.Atoi(strings.TrimSuffix(entry.Log, "\n"))
		}
		if err != nil {
			c.Fatalf("%s: %q: %v", file, line, err)
		}
		numbers = append(numbers, number)
	}
	return numbers
}

// TestNerdctlCharge: a container of nerdctl and its helpers together use the container's limit, also after a restart of the
// container and of containerd. nerdctl's logger ends with containerd, so the container restarts too.
func TestNerdctlCharge(t *testing.T) {
	n := newNerdctl(t)
	agent := n.startCharging("19486")
	for name, flags := range n.groups() {
		c := n.charged(name, "0.5", echoLoop, flags...)
		if got := c.isPlaced(); got != (name == "placed") {
			t.Errorf("%s: the logger is in the cgroup of the container: %v", name, got)
		}
		n.reach(0.5, agent, name, c)
		if got := n.does("exec", name, "busybox", "echo", "there"); got != "there" {
			t.Errorf("%s: exec printed %q", name, got)
		}
		n.does("restart", "-t=0", name)
		n.reach(0.5, agent, name+", after a restart", c)
		n.engine.kill()
		n.startEngine()
		n.does("restart", "-t=0", name)
		n.reach(0.5, agent, name+", after a restart of containerd", c)
		n.does("rm", "-f", name)
	}
	if rows, err := n.run(n.candor, "ps", "-o", "json"); err != nil || rows != "[]" {
		t.Errorf("left: %v %s", err, rows)
	}
}

// TestNerdctlChargeLosesNoLine: the rotated log of a charged container of nerdctl has each line.
func TestNerdctlChargeLosesNoLine(t *testing.T) {
	n := newNerdctl(t)
	agent := n.startCharging("19487")
	const lines = 200000
	script := fmt.Sprintf(`i=0; while [ $i -lt %d ]; do i=$((i+1)); echo $i; done; exec sleep 100000`, lines)
	for name, flags := range n.groups() {
		c := n.charged(name, "0.5", script, slices.Concat(flags, []string{"--log-opt=max-size=1m", "--log-opt=max-file=1000"})...)
		c.checkLines(lines, agent)
		n.does("rm", "-f", name)
	}
}

// TestNerdctlChargeMany: several charged containers of nerdctl together use the sum of their limits, also while their logs are
// rotated, and no log lacks a line.
func TestNerdctlChargeMany(t *testing.T) {
	// The program ends after the file /stop appears, and writes its last number to the file /last.
	const script = `i=0; while [ ! -e /stop ]; do i=$((i+1)); echo $i; done; echo $i >/last; exec sleep 100000`
	number, limit := charged.Number(t)
	n := newNerdctl(t)
	agent := n.startCharging("19488")
	flags := slices.Concat(n.groups()["charged"], []string{"--log-opt=max-size=50k", "--log-opt=max-file=100000"})
	var all []*nerdctlContainer
	for i := range number {
		all = append(all, n.charged(fmt.Sprintf("count%d", i), fmt.Sprintf("%.3f", float64(limit)/1000), script, flags...))
	}
	n.reach(float64(number)*float64(limit)/1000, agent, fmt.Sprintf("%d containers", number), all...)
	roots := make([]string, number)
	for i, c := range all {
		roots[i] = fmt.Sprintf("/proc/%d/root", c.program())
		if err := os.WriteFile(roots[i]+"/stop", nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range all {
		var last []byte
		n.wait("the end of "+c.name, agent, func() bool {
			last, _ = os.ReadFile(roots[i] + "/last") // an error: it does not exist yet
			return strings.HasSuffix(string(last), "\n")
		})
		lines, err := strconv.Atoi(strings.TrimSpace(string(last)))
		if err != nil {
			t.Fatal(err)
		}
		c.checkLines(lines, agent)
		n.does("rm", "-f", c.name)
	}
}
