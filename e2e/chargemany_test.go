package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const countLoop = `i=0; while :; do i=$((i+1)); echo $i; done`

// chargedNumber returns the number of containers of a test with several charged containers, and the limit of each container in CPUs.
// CANDOR_CHARGED=50 sets the number.
func chargedNumber(t *testing.T) (number int, limit float64) {
	t.Helper()
	number = 5
	if text := os.Getenv("CANDOR_CHARGED"); text != "" {
		var err error
		if number, err = strconv.Atoi(text); err != nil || number < 1 {
			t.Fatalf("CANDOR_CHARGED=%q: must be a number of containers", text)
		}
	}
	return number, max(0.02, 0.6/float64(number)) // at 0.02, the quota is 2 ms in each period
}

// A chargedGroup has the containers of an engine that an agent charges.
type chargedGroup struct {
	*lab
	agent  *chargeAgent
	limit  float64          // of each container, in CPUs
	names  []string         // of the containers
	usage  []string         // their cgroups, as ReadUsage takes them
	helper []int            // process ID of the shim or of conmon of each container
	engine func() (pid int) // a helper of all containers, or nil
}

// settled waits until all containers are charged, and their debts from before are paid.
func (c *chargedGroup) settled() {
	c.Helper()
	for _, name := range c.names {
		c.waitFor("the end of the debt of "+name, func() bool {
			saved, err := c.agent.saved(name)
			return err == nil && saved > -0.3*c.limit
		})
	}
}

// reachesLimits measures until the containers and their helpers together use the sum of the limits: the agent finds new helpers after
// a second, and other work of the engine, such as a rotation of logs, can disturb a measurement.
func (c *chargedGroup) reachesLimits(when string) {
	c.Helper()
	c.settled()
	want := c.limit * float64(len(c.names))
	for range 5 {
		used, other := c.use(5 * time.Second)
		c.Logf("%s: %d containers with a limit of %.3f: %.3f of %.3f CPUs, and %.3f CPUs of other work", when, len(c.names), c.limit, used, want, other)
		if used > 0.85*want && used < 1.15*want && other < 0.25*want {
			return
		}
	}
	c.Errorf("%s: %d containers and their helpers do not use %.3f CPUs", when, len(c.names), want)
}

// use returns the CPU use of the containers and their helpers during a time, and the use of the engine for other work.
func (c *chargedGroup) use(during time.Duration) (used, other float64) {
	c.Helper()
	read := func() (sum time.Duration) {
		for i := range c.names {
			u, err := c.tree.ReadUsage(c.usage[i])
			if err != nil {
				c.Fatal(err)
			}
			sum += u.CPU + processTime(c.T, c.helper[i])
		}
		if c.engine != nil {
			sum += processTime(c.T, c.engine())
		}
		return sum
	}
	unattributed := func() float64 {
		seconds, err := c.agent.metric("candor_helper_unattributed_cpu_seconds_total{")
		if err != nil && c.engine != nil {
			c.Fatal(err)
		}
		return seconds
	}
	otherBefore, before, start := unattributed(), read(), time.Now()
	time.Sleep(during)
	span := time.Since(start)
	used, other = float64(read()-before)/float64(span), (unattributed()-otherBefore)/span.Seconds()
	return used - other, other
}

// checkCount checks that the lines of a log are consecutive numbers. The end of a running program's log can be a part of a line.
func checkCount(t *testing.T, name, log string) (first, last int) {
	t.Helper()
	lines := strings.Fields(log)
	if len(lines) < 100 {
		t.Fatalf("%s: the log has %d lines", name, len(lines))
	}
	first, err := strconv.Atoi(lines[0])
	if err != nil {
		t.Fatalf("%s: line 1: %q", name, lines[0])
	}
	for i, line := range lines[:len(lines)-1] {
		if line != strconv.Itoa(first+i) {
			t.Fatalf("%s: line %d: %q after %d", name, i+1, line, first+i-1)
		}
	}
	return first, first + len(lines) - 1
}

// TestChargeDockerMany: several charged containers of Docker together use the sum of their limits, also after a restart of the engine.
// No rotated log lacks a line.
func TestChargeDockerMany(t *testing.T) {
	number, limit := chargedNumber(t)
	d := newDocker(t, "--live-restore")
	c := &chargedGroup{lab: d.lab, agent: d.startCharging("19489"), limit: limit, engine: func() int { return d.daemon.Process.Pid }}
	for i := range number {
		name := fmt.Sprint("count", i)
		id := d.does("run", "-d", "--name", name, "--network", "none", "--runtime", "candor", "--cpus", fmt.Sprintf("%.3f", limit), "-e", "CANDOR_HELPERS=charge",
			"--log-opt", "max-size=20k", "--log-opt", "max-file=100000", "box", "sh", "-c", countLoop)
		pid, err := strconv.Atoi(d.does("inspect", "-f", "{{.State.Pid}}", name))
		if err != nil {
			t.Fatal(err)
		}
		c.names, c.usage, c.helper = append(c.names, name), append(c.usage, id[:12]), append(c.helper, parentOf(t, pid))
	}
	c.reachesLimits("at the start")
	for _, name := range c.names {
		if rotated, err := filepath.Glob(d.in("data/containers/*/*-json.log.1")); err != nil || len(rotated) == 0 {
			t.Errorf("no log was rotated: %v", err)
		}
		if first, _ := checkCount(t, name, d.does("logs", name)); first != 1 {
			t.Errorf("%s: the log begins with %d", name, first)
		}
	}
	d.daemon.Process.Signal(os.Interrupt)
	d.daemon.Wait()
	d.up()
	c.reachesLimits("after a restart of the engine")
	for _, name := range c.names {
		d.does("rm", "-f", name)
	}
}

// TestChargePodmanMany: several charged containers of Podman together use the sum of their limits, also after a restart of a container.
// No line is missing within a log. conmon deletes the old lines of a log that has its greatest size.
func TestChargePodmanMany(t *testing.T) {
	number, limit := chargedNumber(t)
	p := newPodman(t)
	c := &chargedGroup{lab: p.lab, agent: p.startCharging("19490"), limit: limit}
	parent := p.parent + "-engine"
	defer exec.Command("sh", "-c", "find /sys/fs/cgroup/*"+parent+" -depth -type d -exec rmdir {} \\;").Run() // conmon can still be in it
	for i := range number {
		name := fmt.Sprint("count", i)
		p.does("run", "-d", "--name", name, "--network=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024", "--cgroup-parent", parent,
			"--cpus", fmt.Sprintf("%.3f", limit), "--annotation", "candor.dev/helpers=charge", "--log-driver=k8s-file", "--log-opt=max-size=100kb",
			"box", "busybox", "sh", "-c", countLoop)
		defer p.podman("rm", "-f", "-t=0", name)
		usage, conmon := p.locate(name)
		c.names, c.usage, c.helper = append(c.names, name), append(c.usage, usage), append(c.helper, conmon)
	}
	c.reachesLimits("at the start")
	isRotated := false
	for _, name := range c.names {
		first, _ := checkCount(t, name, p.does("logs", name))
		isRotated = isRotated || first > 1
	}
	if !isRotated {
		t.Error("no log was rotated")
	}
	p.does("restart", "-t=0", c.names[0])
	c.usage[0], c.helper[0] = p.locate(c.names[0])
	c.reachesLimits("after a restart of a container")
}

// locate returns the cgroup of a container, and the process ID of its conmon.
func (p *podman) locate(name string) (usage string, conmon int) {
	p.Helper()
	pid, err := strconv.Atoi(p.does("inspect", "-f", "{{.State.Pid}}", name))
	if err != nil {
		p.Fatal(err)
	}
	return p.payer(pid), parentOf(p.T, pid)
}
