package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/e2e/charged"
	"github.com/candor-project/candor/hybrid"
)

// A chargedGroup has the containers of an engine that an agent charges.
type chargedGroup struct {
	*lab
	agent  *chargeAgent
	limit  hybrid.Milli     // of each container
	names  []string         // of the containers
	usage  []string         // their cgroups, as ReadUsage takes them
	helper []int            // process ID of the shim or of conmon of each container
	engine func() (pid int) // a helper of all containers, or nil
}

// reachesLimits waits until all containers are charged, and checks that they and their helpers together use the sum of the limits.
func (c *chargedGroup) reachesLimits(when string) {
	c.Helper()
	c.allSettled()
	charged.ReachLimits(c.T, when, len(c.names), c.limit, c.cpuTime, c.unattributed)
}

// allSettled waits until the agent has charged each container, and has then seen it without a large debt. It reads the metrics once a
// second, because each reading costs the agent CPU time.
func (c *chargedGroup) allSettled() {
	c.Helper()
	rest := slices.Clone(c.names)
	for range 60 {
		text, err := c.agent.metrics()
		if err != nil {
			c.Fatal(err)
		}
		rest = slices.DeleteFunc(rest, func(name string) bool {
			saved, err := metricIn(text, accountOf(name))
			return err == nil && saved > -0.3*float64(c.limit)/1000 && strings.Contains(c.agent.log(), `use a part of its limit" container=`+name)
		})
		if len(rest) == 0 {
			return
		}
		time.Sleep(time.Second)
	}
	c.Fatalf("waited a minute for the end of the debts of %v", rest)
}

// cpuTime returns the CPU time of the containers and their helpers.
func (c *chargedGroup) cpuTime() (sum time.Duration) {
	c.Helper()
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

// unattributed returns the CPU time of the engine that no container caused.
func (c *chargedGroup) unattributed() time.Duration {
	c.Helper()
	if c.engine == nil {
		return 0
	}
	seconds, err := c.agent.metric(`candor_helper_unattributed_cpu_seconds_total{daemon="dockerd"}`)
	if err != nil {
		c.Fatal(err)
	}
	return time.Duration(seconds * float64(time.Second))
}

// checkCount checks that the lines of a log are consecutive numbers, and returns the first. The last line can be incomplete.
func checkCount(t *testing.T, name, log string) (first int) {
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
	return first
}

// TestChargeDockerMany: several charged containers of Docker together use the sum of their limits, also after a restart of the
// engine. No log lacks a line. The logs are not rotated, because dockerd's work for a rotation is not attributed: it renames
// max-file files. TestChargeDockerLosesNoLine rotates a log.
func TestChargeDockerMany(t *testing.T) {
	number, limit := charged.Number(t)
	d := newDocker(t, "--live-restore")
	c := &chargedGroup{lab: d.lab, agent: d.startCharging("19489"), limit: limit, engine: func() int { return d.daemon.Process.Pid }}
	for i := range number {
		name := fmt.Sprint("count", i)
		id := d.does("run", "-d", "--name", name, "--network", "none", "--runtime", "candor", "--cpus", fmt.Sprintf("%.3f", float64(limit)/1000), "-e", "CANDOR_HELPERS=charge",
			"box", "sh", "-c", charged.CountLoop)
		pid, err := strconv.Atoi(d.does("inspect", "-f", "{{.State.Pid}}", name))
		if err != nil {
			t.Fatal(err)
		}
		c.names, c.usage, c.helper = append(c.names, name), append(c.usage, id[:12]), append(c.helper, parentOf(t, pid))
	}
	c.reachesLimits("at the start")
	for _, name := range c.names {
		if first := checkCount(t, name, d.does("logs", name)); first != 1 {
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

// TestChargePodmanMany: several charged containers of Podman together use the sum of their limits, also after a restart of a
// container. No line is missing within a log. conmon deletes the lines of a log that has its maximum size.
func TestChargePodmanMany(t *testing.T) {
	number, limit := charged.Number(t)
	p := newPodman(t)
	c := &chargedGroup{lab: p.lab, agent: p.startCharging("19490"), limit: limit}
	parent := p.parent + "-engine"
	defer p.removeEngineGroups(parent)
	for i := range number {
		name := fmt.Sprint("count", i)
		p.does("run", "-d", "--name", name, "--network=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024", "--cgroup-parent", parent,
			"--cpus", fmt.Sprintf("%.3f", float64(limit)/1000), "--annotation", "candor.dev/helpers=charge", "--log-driver=k8s-file", "--log-opt=max-size=100kb",
			"box", "busybox", "sh", "-c", charged.CountLoop)
		defer p.podman("rm", "-f", "-t=0", name)
		usage, conmon := p.locate(name)
		c.names, c.usage, c.helper = append(c.names, name), append(c.usage, usage), append(c.helper, conmon)
	}
	c.reachesLimits("at the start")
	isRotated := false
	for _, name := range c.names {
		log := ""
		p.waitFor("the log of "+name, func() bool { // a new log is short
			log = p.does("logs", name)
			return strings.Count(log, "\n") > 100
		})
		isRotated = checkCount(t, name, log) > 1 || isRotated
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
