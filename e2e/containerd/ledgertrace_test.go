package containerd

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/e2e/daemontrace"
)

// A comparison has the CPU use of containerd for the logs of containers, in CPUs, by sampling and by an exact trace of its system
// calls. The container "" has the unattributed use.
type comparison struct {
	all            map[string]*container
	report         ledgerReport
	sampled, exact map[string]float64
	total          float64 // of containerd
}

// compareWithTrace compares candor ledger show with an exact trace, for three containers with different patterns of writes. If
// program is not empty, it executes candor.
func compareWithTrace(t *testing.T, program ...string) *comparison {
	t.Helper()
	l := newEngine(t)
	all := l.loggers(map[string]string{"many": manyWrites, "few": fewWrites, "long": longLines})
	files := map[string][]string{}
	for name, c := range all {
		for end := time.Now().Add(time.Minute); len(files[name]) < 2; files[name] = c.openFiles() {
			if time.Now().After(end) {
				t.Fatalf("containerd has %q of %s open, want FIFOs and a log", files[name], name)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	pid := l.engine.Process.Pid
	trace, err := daemontrace.Start(pid, files)
	if err != nil {
		t.Skipf("this kernel refuses the exact trace: %v", err)
	}
	defer trace.Close()
	before, err := trace.Read()
	if err != nil {
		t.Fatal(err)
	}
	start, used, written := time.Now(), threadTime(t, pid), logSizes(t, all)
	r := l.ledgerBy(program, 8*time.Second)
	after, err := trace.Read()
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(start).Seconds()
	c := &comparison{
		all: all, report: r, total: (threadTime(t, pid) - used).Seconds() / took,
		sampled: map[string]float64{"": r.UnattributedCPUs["containerd"]}, exact: map[string]float64{},
	}
	for name := range after {
		c.exact[name] = (after[name] - before[name]).Seconds() / took
	}
	sizes, bytes := logSizes(t, all), 0.0
	for name := range all {
		c.sampled[name], _ = r.use(all[name], "log")
		bytes += sizes[name] - written[name]
	}
	for name := range c.sampled {
		t.Logf("%-5s sampled %.2f %%, exact %.2f %% of a CPU; by bytes %.2f %%", cmp.Or(name, "none"), 100*c.sampled[name], 100*c.exact[name], 100*c.total*(sizes[name]-written[name])/bytes)
	}
	return c
}

// check fails the test unless all charges have the method, and charges and unattributed time add up to containerd's CPU time.
func (c *comparison) check(t *testing.T, method string) {
	t.Helper()
	if c.report.Method != method {
		t.Fatalf("method %s: %s; want %s", c.report.Method, c.report.Refusal, method)
	}
	sum := 0.0
	for name, use := range c.sampled {
		sum += use
		if name == "" {
			continue
		}
		if _, methods := c.report.use(c.all[name], "log"); len(methods) != 1 || methods[0] != method {
			t.Errorf("%s: methods %q, want %s", name, methods, method)
		}
	}
	if sum < 0.8*c.total || sum > 1.2*c.total {
		t.Errorf("charges and unattributed time add up to %.4f CPUs, containerd used %.4f", sum, c.total)
	}
}

// TestLedger: the samples divide the CPU time of containerd among its containers as an exact trace of its
// system calls does, and the sum is the CPU time of containerd.
func TestLedger(t *testing.T) {
	c := compareWithTrace(t)
	c.check(t, "bpf")
	c.checkShares(t)
}

// exactShares returns the share of each container in the exact CPU time for logs.
func (c *comparison) exactShares(t *testing.T) map[string]float64 {
	t.Helper()
	sum, shares := 0.0, map[string]float64{}
	for name := range c.all {
		sum += c.exact[name]
	}
	if sum == 0 {
		t.Fatal("the exact trace has no CPU time for logs")
	}
	for name := range c.all {
		shares[name] = c.exact[name] / sum
	}
	return shares
}

// checkShares compares the shares of the containers in the CPU time for logs. It returns the sampled CPU time for logs.
func (c *comparison) checkShares(t *testing.T) (sampledLogs float64) {
	t.Helper()
	for name := range c.all {
		sampledLogs += c.sampled[name]
	}
	if sampledLogs == 0 {
		t.Fatal("no CPU time was sampled for logs")
	}
	for name, share := range c.exactShares(t) {
		if math.Abs(c.sampled[name]/sampledLogs-share) > 0.2 {
			t.Errorf("%s: sampled %.4f of %.4f CPUs, exact %.1f %%", name, c.sampled[name], sampledLogs, 100*share)
		}
	}
	return sampledLogs
}

// TestLedgerRegisters: without CAP_BPF, candor samples registers. They divide the CPU time for logs among the containers as the exact
// trace does, within 5 points of a CPU. The trace books no time in which containerd waits for work, so its sum is smaller.
func TestLedgerRegisters(t *testing.T) {
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip(err)
	}
	c := compareWithTrace(t, "setpriv", "--bounding-set=-bpf,-sys_admin")
	c.check(t, "registers")
	sampledLogs := c.checkShares(t)
	for name, share := range c.exactShares(t) {
		if math.Abs(c.sampled[name]-share*sampledLogs) > 0.05 {
			t.Errorf("%s: sampled %.4f of %.4f CPUs, exact %.1f %%", name, c.sampled[name], sampledLogs, 100*share)
		}
	}
}

// logSizes returns the sizes of the logs of containers.
func logSizes(t *testing.T, all map[string]*container) map[string]float64 {
	t.Helper()
	sizes := map[string]float64{}
	for name, c := range all {
		info, err := os.Stat(filepath.Join(c.config.LogDirectory, name+".log"))
		if err != nil {
			t.Fatal(err)
		}
		sizes[name] = float64(info.Size())
	}
	return sizes
}

// threadTime returns the CPU time of all threads of a process (schedstat).
func threadTime(t *testing.T, pid int) (sum time.Duration) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}
