package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const echoLoop = `while :; do echo 0123456789; done`

// A chargeAgent is candor ledger agent --charge in a lab.
type chargeAgent struct {
	*exec.Cmd
	port   string // of the metrics
	mutex  sync.Mutex
	output bytes.Buffer
}

func (a *chargeAgent) Write(text []byte) (int, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.output.Write(text)
}

func (a *chargeAgent) log() string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.output.String()
}

// startCharging starts an agent that charges containers. The cleanup of the test ends it.
func (l *lab) startCharging(port string) *chargeAgent {
	l.Helper()
	a := &chargeAgent{Cmd: l.candor("ledger", "agent", "--charge", "--metrics", port), port: port}
	a.Stderr = a
	if err := a.Start(); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		a.stop()
		if l.Failed() {
			l.Logf("log of the agent:\n%s", a.log())
		}
	})
	l.waitFor("the agent", func() bool { return strings.Contains(a.log(), "msg=metrics") })
	return a
}

func (a *chargeAgent) stop() {
	_ = a.Process.Signal(syscall.SIGTERM) // it has been killed
	_ = a.Wait()
}

// waitFor waits for a condition, for at most a minute.
func (l *lab) waitFor(what string, is func() bool) {
	l.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			l.Fatalf("waited a minute for %s", what)
		}
	}
}

// processTime returns the CPU time of a process, with its ended threads.
func processTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|2, &at); err != nil { // CPUCLOCK_SCHED
		t.Fatalf("CPU time of process %d: %v", pid, err)
	}
	return time.Duration(at.Nano())
}

// parentOf returns the parent of a process.
func parentOf(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	parent, err := strconv.Atoi(strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))[1])
	if err != nil {
		t.Fatal(err)
	}
	return parent
}

// sumOfUse returns the CPU use of a container and of its helpers.
func (l *lab) sumOfUse(name string, helpers ...int) (own, helped float64) {
	l.Helper()
	read := func() (own, helped time.Duration) {
		u, err := l.tree.ReadUsage(name)
		if err != nil {
			l.Fatal(err)
		}
		for _, pid := range helpers {
			helped += processTime(l.T, pid)
		}
		return u.CPU, helped
	}
	ownBefore, helpedBefore := read()
	start := time.Now()
	time.Sleep(5 * time.Second)
	ownAfter, helpedAfter := read()
	took := float64(time.Since(start))
	return float64(ownAfter-ownBefore) / took, float64(helpedAfter-helpedBefore) / took
}

// settled waits until the agent charges a container and the debt from before is paid.
func (l *lab) settled(a *chargeAgent, name string) {
	l.Helper()
	l.waitFor("the charge", func() bool { return strings.Contains(a.log(), `use a part of its limit" container=`+name) })
	l.waitFor("the end of the debt", func() bool { saved, err := a.saved(name); return err == nil && saved > -0.05 })
}

// saved returns the account of a container, in seconds of CPU time.
func (a *chargeAgent) saved(name string) (seconds float64, err error) {
	return a.metric(fmt.Sprintf("candor_container_helper_account_seconds{container=%q,", name))
}

// metric returns the value of the first metric whose line starts with a text.
func (a *chargeAgent) metric(start string) (value float64, err error) {
	r, err := http.Get("http://127.0.0.1:" + a.port + "/metrics")
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if _, number, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && strings.HasPrefix(line, start) {
			return strconv.ParseFloat(number, 64)
		}
	}
	return 0, fmt.Errorf("no metric starts with %s", start)
}

// TestChargeDocker: a container of Docker, its shim and dockerd's work for its log use the limit of the container.
func TestChargeDocker(t *testing.T) {
	d := newDocker(t)
	agent := d.startCharging("19481")
	d.does("run", "-d", "--name", "writer", "--network", "none", "--runtime", "candor", "--cpus", "0.5", "-e", "CANDOR_HELPERS=charge", "box", "sh", "-c", echoLoop)
	id := d.does("inspect", "-f", "{{.Id}}", "writer")
	// holds measures repeatedly: the agent finds new helpers after a second, and does not charge their work before.
	holds := func(when string) {
		t.Helper()
		pid, err := strconv.Atoi(d.does("inspect", "-f", "{{.State.Pid}}", "writer"))
		if err != nil {
			t.Fatal(err)
		}
		d.settled(agent, "writer")
		d.waitFor("a sum of 0.5 CPUs "+when, func() bool {
			own, helpers := d.sumOfUse(id[:12], d.daemon.Process.Pid, parentOf(t, pid))
			t.Logf("%s: own %.3f, helpers %.3f, sum %.3f CPUs", when, own, helpers, own+helpers)
			return own+helpers > 0.38 && own+helpers < 0.6
		})
	}
	holds("at the start")
	if text := d.ok("inspect", id[:12], "--during", "0s"); !strings.Contains(text, "charged: helpers use") {
		t.Errorf("inspect does not say that the container is charged:\n%s", text)
	}
	if got := d.does("exec", "writer", "busybox", "echo", "there"); got != "there" {
		t.Errorf("exec printed %q", got)
	}
	d.does("restart", "-t", "0", "writer")
	holds("after a restart")
	d.does("rm", "-f", "writer")
}

// TestChargeDockerLosesNoLine: the rotated log of a charged container of Docker has each line.
func TestChargeDockerLosesNoLine(t *testing.T) {
	d := newDocker(t)
	agent := d.startCharging("19485")
	const lines = 400000
	d.does("run", "-d", "--name", "count", "--network", "none", "--runtime", "candor", "--cpus", "0.5", "-e", "CANDOR_HELPERS=charge",
		"--log-opt", "max-size=1m", "--log-opt", "max-file=100", "box", "sh", "-c", fmt.Sprintf(`i=0; while [ $i -lt %d ]; do i=$((i+1)); echo $i; done`, lines))
	if code := d.does("wait", "count"); code != "0" {
		t.Fatalf("the container ended with code %s", code)
	}
	i := 0
	for line := range strings.Lines(d.does("logs", "count")) {
		if i++; strings.TrimSpace(line) != strconv.Itoa(i) {
			t.Fatalf("line %d: %q", i, line)
		}
	}
	if i != lines {
		t.Errorf("%d lines, want %d", i, lines)
	}
	if !strings.Contains(agent.log(), `use a part of its limit" container=count`) {
		t.Error("the container was not charged")
	}
	d.does("rm", "-f", "count")
}

// TestChargePodman: conmon serves a single container, so its exact CPU time is charged. yes needs the freezer. In a cgroup of the
// engine, Candor does not place conmon.
func TestChargePodman(t *testing.T) {
	p := newPodman(t)
	agent := p.startCharging("19482")
	id := p.does(boxOf("-d", "--cgroup-parent", p.parent+"-engine", "--cpus", "0.5", "--annotation", "candor.dev/helpers=charge", "box", "busybox", "yes")...)
	defer func() {
		p.podman("rm", "-f", "-t=0", id)
		p.waitFor("the removal of the groups that Podman leaves", func() bool {
			groups, _ := filepath.Glob("/sys/fs/cgroup/*" + p.parent + "-engine")
			for _, group := range groups {
				_ = os.Remove(group + "/conmon") // conmon can still be in it
				_ = os.Remove(group)
			}
			return len(groups) == 0
		})
	}()
	pid, err := strconv.Atoi(p.does("inspect", "-f", "{{.State.Pid}}", id))
	if err != nil {
		t.Fatal(err)
	}
	p.settled(agent, p.does("inspect", "-f", "{{.Name}}", id))
	own, helpers := p.sumOfUse(p.payer(pid), parentOf(t, pid))
	t.Logf("own %.3f, conmon %.3f, sum %.3f CPUs", own, helpers, own+helpers)
	if sum := own + helpers; sum < 0.38 || sum > 0.6 {
		t.Errorf("own %.3f, conmon %.3f CPUs: want the sum 0.5\n%s", own, helpers, agent.log())
	}
}

// jumpClock moves the machine's clock forward, in guests only: other programs of this machine use its clock.
func jumpClock(t *testing.T, d time.Duration) {
	t.Helper()
	if os.Getenv("CANDOR_IN_GUEST") == "" {
		return
	}
	now := unix.NsecToTimespec(time.Now().Add(d).UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &now); err != nil {
		t.Fatal(err)
	}
}

// TestReportedCharge: a charge of another program counts against the limit. A killed agent leaves no trace, and the next agent
// continues.
func TestReportedCharge(t *testing.T) {
	l := newLab(t)
	const limit = 50 * time.Millisecond
	// isReduced reports whether web has less CPU time than its limit: a lower quota, or frozen processes on cgroup v1.
	isReduced := func() bool {
		has, err := l.tree.Group("web").CPULimits()
		if err != nil {
			t.Fatal(err)
		}
		state, err := os.ReadFile(filepath.Join("/sys/fs/cgroup/freezer", l.parent, "web/candor-freezer/freezer.state"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return has.Quota < limit || len(state) > 0 && strings.TrimSpace(string(state)) != "THAWED"
	}
	agent := l.startCharging("19483")
	l.start([]string{"--class", "flexible", "--cpu", "0.5", "--helpers", "charge", "--name", "web"}, "sleep")
	if isReduced() {
		t.Fatal("reduced at the start")
	}
	l.waitFor("less CPU time", func() bool {
		l.ok("ledger", "charge", "--to", "web", "--us", "2000000", "--source", "test")
		return isReduced()
	})
	var before float64
	l.waitFor("an account", func() (has bool) {
		var err error
		before, err = agent.saved("web")
		return err == nil
	})
	jumpClock(t, time.Hour)
	l.waitFor("a reading after the jump of the clock", func() bool { now, err := agent.saved("web"); return err == nil && now != before })
	l.waitFor("less CPU time after the jump", isReduced) // the debt of two seconds remains
	killed := time.Now()
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	l.waitFor("the limit", func() bool { return !isReduced() })
	if took := time.Since(killed); took > time.Second {
		t.Errorf("restored after %v, want at most a second", took)
	}
	_ = agent.Wait() // it was killed
	l.startCharging("19483")
	l.waitFor("less CPU time under the next agent", func() bool {
		l.ok("ledger", "charge", "--to", "web", "--us", "2000000")
		return isReduced()
	})
	for want, args := range map[string][]string{
		"--us 0: must be 1 to":       {"--to", "web"},
		"--us -5: must be 1 to":      {"--to", "web", "--us", "-5"},
		"missing --to; must be":      {"--us", "5"},
		"no container has that name": {"--to", "other", "--us", "5"},
		"must have at most 100 byte": {"--to", "web", "--us", "5", "--source", strings.Repeat("x", 101)},
	} {
		got := do(t, l.candor(append([]string{"ledger", "charge"}, args...)...))
		if got.code != 2 || !strings.Contains(got.err, want) || strings.Count(got.err, "\n") != 1 || got.out != "" {
			t.Errorf("%q: got %+v, want %q", args, got, want)
		}
	}
	second := do(t, l.candor("ledger", "agent", "--charge", "--metrics", "19484"))
	if second.code != 2 || !strings.Contains(second.err, "another candor ledger agent") {
		t.Errorf("a second agent: %+v", second)
	}
}

// TestChargeMetricsTaken: an agent that cannot listen for scrapes ends.
func TestChargeMetricsTaken(t *testing.T) {
	l := newLab(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	agent := l.candor("ledger", "agent", "--charge", "--metrics", taken.Addr().String())
	defer time.AfterFunc(time.Minute, func() { _ = agent.Process.Kill() }).Stop()
	got := do(t, agent)
	if got.code != 2 || got.out != "" || !strings.Contains(got.err, "address already in use") {
		t.Errorf("got %+v", got)
	}
}
