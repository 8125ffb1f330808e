package containerd

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/candor-project/candor/hybrid"
)

// The experiments of "cgroup extension for CPU resource accounting" (IPSJ SIG Technical Report, 2022) on containerd. Containers and
// containerd run on the same CPU, in sibling groups of equal shares. The programs of this test run on another CPU.

// ledgerPrograms are the programs of the paper. Each of them makes its helper work.
var ledgerPrograms = []struct{ name, script string }{
	{"yes", "yes"},
	{"lsmod", "while :; do cat /proc/self/maps; done"}, // as much output as the paper's lsmod; this kernel has no modules
	{"echo", "while :; do echo 1; done"},
}

// A ledgerCell is a measurement of one run. The key is everything but the results.
type ledgerCell struct {
	Experiment string
	Containers int           // E2: number of containers, with sysbench
	Quota      time.Duration // per 100 ms
	Program    string
	Column     string // none or charge
	Run        int

	Own, Helpers float64 // E1: CPUs
	LogRate      float64 // bytes per second of the log
	Events       float64 // E2: events per second of sysbench
}

func (c ledgerCell) key() ledgerCell {
	c.Own, c.Helpers, c.LogRate, c.Events = 0, 0, 0, 0
	return c
}

// ledgerTables measures cells and stores them in a file, so that a second run continues.
type ledgerTables struct {
	*lab
	file  string
	cells map[ledgerCell]ledgerCell
	group string // cgroup of containerd and its shims
	cpu   int    // CPU of containers and containerd
	time  time.Duration
}

// TestLedgerTables measures the tables of docs/benchmarks/ledger.md:
//
//	make ledger
func TestLedgerTables(t *testing.T) {
	file := os.Getenv("CANDOR_LEDGER_TABLES")
	if file == "" {
		t.Skip("CANDOR_LEDGER_TABLES=FILE measures for half an hour and more; the file keeps the measured cells")
	}
	if _, err := exec.LookPath("sysbench"); err != nil {
		t.Fatal(err)
	}
	runs := 3
	if n, err := strconv.Atoi(os.Getenv("CANDOR_LEDGER_RUNS")); err == nil {
		runs = n
	}
	b := newLedgerTables(t, file)
	for run := range runs {
		for _, quota := range []time.Duration{50, 33, 25, 20} {
			for _, p := range ledgerPrograms {
				for _, column := range []string{"none", "charge"} {
					b.cell(ledgerCell{Experiment: "E1", Quota: quota * time.Millisecond, Program: p.name, Column: column, Run: run}, p.script)
				}
			}
		}
		for _, n := range []int{2, 3, 4, 5} {
			quota := 100 * time.Millisecond / time.Duration(n)
			b.cell(ledgerCell{Experiment: "E2", Containers: n, Quota: quota, Program: "dd", Column: "none", Run: run}, "")
			for _, p := range ledgerPrograms {
				for _, column := range []string{"none", "charge"} {
					b.cell(ledgerCell{Experiment: "E2", Containers: n, Quota: quota, Program: p.name, Column: column, Run: run}, p.script)
				}
			}
		}
	}
	t.Logf("\n%s\n%s", b.tableE1(), b.tableE2())
}

func newLedgerTables(t *testing.T, file string) *ledgerTables {
	b := &ledgerTables{lab: newEngine(t), file: file, cells: map[ledgerCell]ledgerCell{}, cpu: 1, time: 10 * time.Second}
	if in, err := os.Open(file); err == nil {
		defer in.Close()
		for s := bufio.NewScanner(in); s.Scan(); {
			var c ledgerCell
			if err := json.Unmarshal(s.Bytes(), &c); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			b.cells[c.key()] = c
		}
	}
	b.write("nri.yaml", "version: 1\nrepairEvery: 10s\nnode: {reserved: \"0\", minShared: 10m}\n")
	b.startPlugin()
	b.group = fmt.Sprintf("/candor-ledger-engine-%d", os.Getpid())
	for _, controller := range []string{"cpu", "cpuacct"} {
		dir := filepath.Join("/sys/fs/cgroup", controller, b.group)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(dir) }) // after the end of containerd
		b.writeFile(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(b.engine.Process.Pid))
	}
	b.pin(b.engine.Process.Pid, b.cpu)
	b.pin(b.plugin.Process.Pid, 0)
	b.pin(os.Getpid(), 0)
	agent := b.startCharging("19475")
	b.pin(agent.Process.Pid, 0)
	return b
}

// writeFile writes a kernel file.
func (b *ledgerTables) writeFile(file, value string) {
	b.Helper()
	if err := os.WriteFile(file, []byte(value), 0o644); err != nil {
		b.Fatal(err)
	}
}

// pin moves all threads of a process to a CPU.
func (b *ledgerTables) pin(pid, cpu int) {
	b.Helper()
	var set unix.CPUSet
	set.Set(cpu)
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		b.Fatal(err)
	}
	for _, thread := range threads {
		if tid, err := strconv.Atoi(thread.Name()); err == nil {
			_ = unix.SchedSetaffinity(tid, &set) // it has ended
		}
	}
}

// cell measures a cell and stores it, unless the file has it.
func (b *ledgerTables) cell(c ledgerCell, script string) {
	b.Helper()
	if _, isMeasured := b.cells[c]; isMeasured {
		return
	}
	key := c
	if c.Experiment == "E1" {
		b.measureE1(&c, script)
	} else {
		b.measureE2(&c, script)
	}
	b.cells[key] = c
	line, err := json.Marshal(c)
	if err != nil {
		b.Fatal(err)
	}
	out, err := os.OpenFile(b.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = out.Write(append(line, '\n'))
		out.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%+v", c)
}

// source starts a container with a quota.
func (b *ledgerTables) source(c *ledgerCell, script string) *container {
	b.Helper()
	annotations := map[string]string{}
	if c.Column == "charge" {
		annotations["candor.dev/helpers"] = "charge"
	}
	p := must[*pod](b.T)(b.newPod(0, 0, annotations))
	b.writeFile(filepath.Join("/sys/fs/cgroup/cpu", b.parent, "cpu.shares"), "1024") // as the engine's group
	name := fmt.Sprintf("c%d", podNumber.Load())
	p.config.LogDirectory = filepath.Join(b.path("logs"), fmt.Sprintf("default_%s_%s", p.name, p.config.Metadata.Uid), name)
	if err := os.MkdirAll(p.config.LogDirectory, 0o755); err != nil {
		b.Fatal(err)
	}
	limit := hybrid.Milli(1000 * c.Quota / (100 * time.Millisecond))
	return must[*container](b.T)(p.run(name, limit, 100, false, "sh", "-c", script))
}

// end stops a container and removes its pod and log.
func (b *ledgerTables) end(c *container) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := c.stop()
	if err == nil {
		_, err = b.cri.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: c.pod.id})
	}
	if err == nil {
		_, err = b.cri.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: c.pod.id})
	}
	if err != nil {
		b.Fatal(err)
	}
	_ = os.RemoveAll(c.config.LogDirectory) // the next cell needs the space
}

func (b *ledgerTables) engineTime() time.Duration {
	b.Helper()
	text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup/cpuacct", b.group, "cpuacct.usage"))
	if err != nil {
		b.Fatal(err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return time.Duration(n)
}

const settleTime = 3 * time.Second // the debt from before the first charge is paid

// measureE1 measures a container alone: its CPU use and that of its helpers.
func (b *ledgerTables) measureE1(cell *ledgerCell, script string) {
	b.Helper()
	c := b.source(cell, script)
	time.Sleep(settleTime)
	log := filepath.Join(c.config.LogDirectory, c.name+".log")
	size := func() float64 {
		info, err := os.Stat(log)
		if err != nil {
			b.Fatal(err)
		}
		return float64(info.Size())
	}
	own, helpers, bytes, start := c.ownTime(), b.engineTime(), size(), time.Now()
	time.Sleep(b.time)
	took := time.Since(start)
	cell.Own = float64(c.ownTime()-own) / float64(took)
	cell.Helpers = float64(b.engineTime()-helpers) / float64(took)
	cell.LogRate = (size() - bytes) / took.Seconds()
	b.end(c)
}

var eventsPerSecond = regexp.MustCompile(`events per second:\s*([0-9.]+)`)

// measureE2 measures sysbench beside containers that run dd, and a program unless script is empty.
func (b *ledgerTables) measureE2(cell *ledgerCell, script string) {
	b.Helper()
	program := "dd if=/dev/zero of=/dev/null"
	if script != "" {
		program += " & " + script
	}
	var neighbors []*container
	for range cell.Containers - 1 {
		neighbors = append(neighbors, b.source(cell, program))
	}
	time.Sleep(settleTime)
	dirs := b.sysbenchGroup(cell.Quota, neighbors[0])
	cmd := exec.Command("sh", "-c", fmt.Sprintf("for d in %s; do echo $$ > $d/cgroup.procs; done; exec taskset -c %d sysbench cpu --threads=1 --time=%d run",
		strings.Join(dirs, " "), b.cpu, int(b.time.Seconds())))
	output, err := cmd.CombinedOutput()
	match := eventsPerSecond.FindSubmatch(output)
	if err != nil || match == nil {
		b.Fatalf("sysbench: %v\n%s", err, output)
	}
	if cell.Events, err = strconv.ParseFloat(string(match[1]), 64); err != nil {
		b.Fatal(err)
	}
	for _, c := range neighbors {
		b.end(c)
	}
	for _, dir := range dirs {
		if err := os.Remove(dir); err != nil {
			b.Fatal(err)
		}
	}
}

// sysbenchGroup creates a group beside the pods, with the shares of a pod.
func (b *ledgerTables) sysbenchGroup(quota time.Duration, neighbor *container) (dirs []string) {
	b.Helper()
	for _, controller := range []string{"cpu", "cpuacct"} {
		dir := filepath.Join("/sys/fs/cgroup", controller, neighbor.parent, "sysbench")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	shares, err := os.ReadFile(filepath.Join("/sys/fs/cgroup/cpu", neighbor.parent, neighbor.pod.name, "cpu.shares"))
	if err != nil {
		b.Fatal(err)
	}
	b.writeFile(dirs[0]+"/cpu.shares", string(shares))
	b.writeFile(dirs[0]+"/cpu.cfs_quota_us", strconv.FormatInt(quota.Microseconds(), 10))
	return dirs
}

// spread returns the median, lowest and highest value of a figure over the runs of a cell.
func (b *ledgerTables) spread(c ledgerCell, figure func(ledgerCell) float64) (median, low, high float64) {
	var values []float64
	for key, cell := range b.cells {
		if key.Run = c.Run; key == c {
			values = append(values, figure(cell))
		}
	}
	if len(values) == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	slices.Sort(values)
	return values[len(values)/2], values[0], values[len(values)-1]
}

// tableE1 returns the tables of the container alone, in percent of a CPU.
func (b *ledgerTables) tableE1() string {
	var out strings.Builder
	out.WriteString("| quota | program | column | own | helpers | sum | lowest, highest sum | log, kB/s |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, quota := range []time.Duration{50, 33, 25, 20} {
		for _, p := range ledgerPrograms {
			for _, column := range []string{"none", "charge"} {
				c := ledgerCell{Experiment: "E1", Quota: quota * time.Millisecond, Program: p.name, Column: column}
				own, _, _ := b.spread(c, func(c ledgerCell) float64 { return 100 * c.Own })
				helpers, _, _ := b.spread(c, func(c ledgerCell) float64 { return 100 * c.Helpers })
				sum, low, high := b.spread(c, func(c ledgerCell) float64 { return 100 * (c.Own + c.Helpers) })
				rate, _, _ := b.spread(c, func(c ledgerCell) float64 { return c.LogRate / 1000 })
				fmt.Fprintf(&out, "| %d ms | `%s` | %s | %.1f | %.1f | %.1f | %.1f, %.1f | %.0f |\n", quota, p.name, column, own, helpers, sum, low, high, rate)
			}
		}
	}
	return out.String()
}

// tableE2 returns the table of sysbench beside other containers: the ratio of its events to those beside dd alone.
func (b *ledgerTables) tableE2() string {
	var out strings.Builder
	out.WriteString("| N | program | none | charge |\n| --- | --- | --- | --- |\n")
	events := func(c ledgerCell) float64 { return c.Events }
	for _, n := range []int{2, 3, 4, 5} {
		quota := 100 * time.Millisecond / time.Duration(n)
		alone, _, _ := b.spread(ledgerCell{Experiment: "E2", Containers: n, Quota: quota, Program: "dd", Column: "none"}, events)
		for _, p := range ledgerPrograms {
			fmt.Fprintf(&out, "| %d | `%s` |", n, p.name)
			for _, column := range []string{"none", "charge"} {
				median, low, high := b.spread(ledgerCell{Experiment: "E2", Containers: n, Quota: quota, Program: p.name, Column: column}, events)
				fmt.Fprintf(&out, " %.2f (%.2f to %.2f) |", median/alone, low/alone, high/alone)
			}
			out.WriteString("\n")
		}
	}
	return out.String()
}
