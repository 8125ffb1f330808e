package containerd

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// chargeArgs returns the arguments of a ledger agent that charges the containers of the lab.
func (l *lab) chargeArgs(port string) []string {
	return []string{"ledger", "agent", "--charge", "--metrics", port, "--state-dir", l.path("candor"), "--config", l.path("host.json"), "--cgroup-parent", l.parent + "-run"}
}

// startCharging starts a ledger agent that charges containers, and waits until it serves metrics.
func (l *lab) startCharging(port string) *daemon {
	l.Helper()
	agent := l.start(l.candor, l.chargeArgs(port)...)
	l.Cleanup(agent.kill)
	l.wait("the agent", agent, func() bool { return page("http://127.0.0.1:"+port+"/metrics") != "" })
	return agent
}

// charged starts a container with a limit whose helpers are charged.
func (l *lab) charged(name, script, burst string) *container {
	l.Helper()
	return l.chargedWith(name, script, burst, 500)
}

// chargedWith starts a container with another limit.
func (l *lab) chargedWith(name, script, burst string, limit hybrid.Milli) *container {
	l.Helper()
	return l.chargedRequest(name, script, burst, limit, min(limit, 100))
}

// chargedRequest is chargedWith with another request.
func (l *lab) chargedRequest(name, script, burst string, limit, request hybrid.Milli) *container {
	l.Helper()
	p := must[*pod](l.T)(l.newPod(0, 0, map[string]string{"candor.dev/helpers": "charge", "candor.dev/burst": burst}))
	p.config.LogDirectory = filepath.Join(l.path("logs"), fmt.Sprintf("default_%s_%s", p.name, p.config.Metadata.Uid), name)
	if err := os.MkdirAll(p.config.LogDirectory, 0o755); err != nil {
		l.Fatal(err)
	}
	return must[*container](l.T)(p.run(name, limit, request, false, "sh", "-c", script))
}

// ownTime returns the CPU time of the container's cgroup.
func (c *container) ownTime() time.Duration {
	c.Helper()
	u, err := c.allPods().ReadUsage(filepath.Join(c.parent, c.pod.name, c.prefix+c.id))
	if err != nil {
		c.Fatal(err)
	}
	return u.CPU
}

// monitorPID returns the process ID of the monitor (shim or conmon), the parent of the container's first process.
func (c *container) monitorPID() int {
	c.Helper()
	pids, err := c.group().Processes()
	if err != nil || len(pids) == 0 {
		c.Fatalf("processes of %s: %v, %v", c.name, pids, err)
	}
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndex(string(stat), ")")+1:]))
		parent, _ := strconv.Atoi(fields[1])
		if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", parent)); strings.HasPrefix(string(comm), c.monitor) {
			return parent
		}
	}
	c.Fatalf("no process of %s has %s as its parent", c.name, c.monitor)
	return 0
}

// copyTime returns the CPU time of the runtime, if it copies the output of containers.
func (l *lab) copyTime() time.Duration {
	l.Helper()
	if !l.copies {
		return 0
	}
	return threadTime(l.T, l.engine.Process.Pid)
}

// sumOfUse measures the use of a container and its helpers in CPUs. No other container writes.
func (c *container) sumOfUse(during time.Duration) (own, helpers float64) {
	c.Helper()
	monitor := c.monitorPID()
	read := func() (time.Duration, time.Duration) {
		return c.ownTime(), c.copyTime() + threadTime(c.T, monitor)
	}
	ownBefore, helpersBefore := read()
	start := time.Now()
	time.Sleep(during)
	ownAfter, helpersAfter := read()
	took := float64(time.Since(start))
	return float64(ownAfter-ownBefore) / took, float64(helpersAfter-helpersBefore) / took
}

const (
	echoLoop = `while :; do echo 0123456789; done`
	yesLoop  = `yes`
)

// TestCharge: a container and its helpers together use the container's limit. Meanwhile, programs can be executed in the container,
// and it can be resized and stopped.
func TestCharge(t *testing.T) {
	l := newLab(t)
	agent := l.startCharging("19470")
	for _, c := range []struct{ name, script, burst string }{{"echo", echoLoop, "none"}, {"bursting", echoLoop, "auto"}, {"yes", yesLoop, "none"}} {
		name := c.name
		c := l.charged(c.name, c.script, c.burst)
		metric := fmt.Sprintf(`candor_container_helper_charged{container=%q,namespace="default",pod=%q}`, name, c.pod.name)
		l.wait("the charge of "+name, agent, func() bool { return metricsAt("http://127.0.0.1:19470/metrics")[metric] == 1 })
		account := strings.Replace(metric, "_charged{", "_account_seconds{", 1)
		l.wait("the end of the debt from before the charge", agent, func() bool { return metricsAt("http://127.0.0.1:19470/metrics")[account] > -0.15 })
		own, helpers := c.sumOfUse(6 * time.Second)
		t.Logf("%s: own %.3f, helpers %.3f, sum %.3f CPUs", name, own, helpers, own+helpers)
		if sum := own + helpers; sum < 0.42 || sum > 0.6 {
			t.Errorf("%s: own %.3f, helpers %.3f CPUs: want the sum 0.5\n%s", name, own, helpers, agent.output())
		}
		for range 3 {
			if got := c.exec("sh", "-c", "echo there"); got != "there" {
				t.Errorf("%s: exec printed %q", name, got)
			}
		}
		if err := c.resize(400); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		start := time.Now()
		if err := c.stop(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s: the stop took %v", name, took)
		}
	}
}

// isRestored reports whether a container has its quota and is thawed.
func (c *container) isRestored(quota time.Duration) bool {
	has, err := c.has()
	if err != nil {
		c.Fatal(err)
	}
	state, err := os.ReadFile(filepath.Join("/sys/fs/cgroup/freezer", c.parent, c.pod.name, c.prefix+c.id, "candor-freezer/freezer.state"))
	return has.Quota == quota && (err != nil || strings.TrimSpace(string(state)) == "THAWED")
}

// TestChargeAgentKilled: if the agent is killed while a container has a lower quota or is frozen, the container is restored within a
// second. The next agent charges it again.
func TestChargeAgentKilled(t *testing.T) {
	l := newLab(t)
	for name, script := range map[string]string{"echo": echoLoop, "yes": yesLoop} {
		agent := l.startCharging("19471")
		c := l.charged(name, script, "none")
		for range 3 {
			l.wait("the charge of "+name, agent, func() bool { return !c.isRestored(50 * time.Millisecond) })
			killed := time.Now()
			if err := agent.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			l.wait("the restored container", agent, func() bool { return c.isRestored(50 * time.Millisecond) })
			t.Logf("%s: restored after %v", name, time.Since(killed))
			if took := time.Since(killed); took > time.Second {
				t.Errorf("%s: restored after %v, want at most a second", name, took)
			}
			agent.kill()
			agent = l.startCharging("19471")
		}
		agent.kill()
		if err := c.stop(); err != nil {
			t.Error(err)
		}
	}
}

// TestChargeRestarts: a container stays charged after a restart of the runtime and of the plugin. A frozen container whose
// processes are killed ends, and is charged again after its restart. Under CRI-O, the test has a low quota in place of the freeze,
// because conmon copies the output of yes with less CPU time.
func TestChargeRestarts(t *testing.T) {
	l := newLab(t)
	agent := l.startCharging("19473")
	c := l.charged("yes", yesLoop, "none")
	isLow := func() bool {
		if !underTest.copies {
			return !c.isRestored(50 * time.Millisecond)
		}
		state, _ := os.ReadFile(filepath.Join("/sys/fs/cgroup/freezer", c.parent, c.pod.name, c.prefix+c.id, "candor-freezer/freezer.state"))
		return strings.HasPrefix(string(state), "FR") // FROZEN or FREEZING
	}
	l.wait("the freeze", agent, isLow)
	l.cut(true, true)
	account := fmt.Sprintf(`candor_container_helper_account_seconds{container="yes",namespace="default",pod=%q}`, c.pod.name)
	l.wait("the end of the debt from before the restart", agent, func() bool { return metricsAt("http://127.0.0.1:19473/metrics")[account] > -0.15 })
	own, helpers := c.sumOfUse(4 * time.Second)
	t.Logf("after the restart: own %.3f, helpers %.3f, sum %.3f CPUs", own, helpers, own+helpers)
	if sum := own + helpers; sum < 0.38 || sum > 0.6 {
		t.Errorf("after the restart: own %.3f, helpers %.3f CPUs: want the sum 0.5\n%s", own, helpers, agent.output())
	}
	l.wait("the next freeze", agent, isLow)
	pids, err := c.group().Processes()
	if err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	l.wait("the end of the killed container", agent, func() bool {
		left, _ := c.group().Processes()
		return len(left) == 0
	})
	t.Logf("the killed container ended after %v", time.Since(killed))
	if took := time.Since(killed); took > 2*time.Second {
		t.Errorf("the killed container ended after %v", took)
	}
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	again := must[*container](t)(c.run(c.name, c.limit, c.request, false, "sh", "-c", echoLoop))
	again.reachesLimit(agent)
	if strings.Contains(agent.output(), "level=WARN") {
		t.Errorf("the agent warns:\n%s", agent.output())
	}
}

// reachesLimit measures until a container and its helpers together use the limit of 0.5 CPUs: the agent finds new helpers after a
// second, and charges only their later work.
func (c *container) reachesLimit(agent *daemon) {
	c.Helper()
	for range 5 {
		own, helpers := c.sumOfUse(4 * time.Second)
		c.Logf("%s: own %.3f, helpers %.3f, sum %.3f CPUs", c.name, own, helpers, own+helpers)
		if sum := own + helpers; sum > 0.38 && sum < 0.6 {
			return
		}
	}
	c.Errorf("%s and its helpers do not use 0.5 CPUs\n%s", c.name, agent.output())
}

// TestChargeLosesNoLine: the log of a charged container has each line.
func TestChargeLosesNoLine(t *testing.T) {
	l := newLab(t)
	agent := l.startCharging("19472")
	const lines = 600000
	c := l.charged("count", fmt.Sprintf(`i=0; while [ $i -lt %d ]; do i=$((i+1)); echo $i; done; exec sleep 100000`, lines), "none")
	for end := time.Now().Add(5 * time.Minute); !c.endsWith(strconv.Itoa(lines)); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the log does not end: %s", agent.output())
		}
	}
	text, err := os.ReadFile(c.logFile())
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseLog(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range got {
		if line != strconv.Itoa(i+1) {
			t.Fatalf("line %d: %q", i+1, line)
		}
	}
	if len(got) != lines {
		t.Errorf("%d lines, want %d", len(got), lines)
	}
	if !strings.Contains(agent.output(), "charged: helpers") {
		t.Errorf("the container was not charged:\n%s", agent.output())
	}
}

// TestChargeInPod: the agent charges containers from the pod of the chart. If its pod is killed, the guard restores them.
func TestChargeInPod(t *testing.T) {
	l := newLab(t)
	agent := l.startLedgerPod("charge", "19469")
	c := l.charged("echo", echoLoop, "none")
	for end := time.Now().Add(time.Minute); c.isRestored(50 * time.Millisecond); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the container is not charged: %s", agent.log())
		}
	}
	if err := agent.stop(); err != nil {
		t.Error(err)
	}
	l.wait("the restored container", l.engine, func() bool { return c.isRestored(50 * time.Millisecond) })
}
