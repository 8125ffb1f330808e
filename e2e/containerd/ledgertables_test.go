package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/e2e/ledgertables"
)

// The experiments of "cgroup extension for CPU resource accounting" (IPSJ SIG Technical Report, 2022). Containers, their helpers and the
// engine run on the same CPU. The containers' parent group and the engine's group are siblings of equal shares. The programs of this test run
// on another CPU.

// ledgerImage is the image of the containers: busybox and the program stamp.
const ledgerImage = "lab.local/ledger:1"

// A ledgerEngine starts containers of an engine.
type ledgerEngine interface {
	// source starts a container with a quota that runs a script. The engine accounts for its helper with the method.
	source(method ledgertables.Method, quota time.Duration, script string) *ledgerSource
	// engineGroup is the cgroup of the engine, and of helpers without a limit.
	engineGroup() string
}

// A ledgerSource is a container whose helper works.
type ledgerSource struct {
	parent string // cgroup of all containers; sysbench gets its group there
	group  string // cgroup of the container, in parent
	helper int    // process ID of the helper; 0: threads of the engine
	payer  string // cgroup of the helper
	log    string
	end    func() // stops the container, and removes it with its log
}

// isIncluded reports whether the CPU time of the container's group includes the helper's.
func (s *ledgerSource) isIncluded() bool {
	return s.helper != 0 && strings.HasPrefix(s.payer+"/", s.group+"/")
}

// ledgerBench measures cells with an engine.
type ledgerBench struct {
	*testing.T
	ledgerEngine
	ctx     context.Context // canceled by a signal
	cpu     int             // CPU of the containers and the engine
	isGuest bool            // this machine is a guest, so the speed and the delay of a log have no meaning
}

// A ledgerMeter measures cells.
type ledgerMeter interface {
	measure(ledgertables.Cell) ledgertables.Result
}

// TestLedgerTables measures the tables of docs/benchmarks/ledger.md into a directory. Cells that are in the directory are not measured again:
//
//	make ledger
func TestLedgerTables(t *testing.T) {
	dir := os.Getenv("CANDOR_LEDGER_DIR")
	if dir == "" {
		t.Skip("CANDOR_LEDGER_DIR=DIRECTORY measures for hours; the directory keeps the measured cells")
	}
	settings, err := ledgertables.ParseSettings(os.Getenv("CANDOR_LEDGER_COLUMNS"), os.Getenv("CANDOR_LEDGER_RUNS"), os.Getenv("CANDOR_LEDGER_WORK"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := ledgertables.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	defer func() { // also after a cell that failed
		if file, err := store.WriteTables(settings); err != nil {
			t.Error(err)
		} else {
			t.Logf("tables: %s", file)
		}
	}()
	if os.Getenv("CANDOR_LEDGER_SUMMARY") == "" {
		measureLedger(t, store, settings)
	}
}

// measureLedger measures the cells that the store lacks. It starts the engine of each part for this part only.
func measureLedger(t *testing.T, store *ledgertables.Store, settings ledgertables.Settings) {
	t.Helper()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	settings.Columns = installedColumns(t, settings.Columns)
	progress := ledgertables.NewProgress(settings.Plan(), store.Has)
	for i, part := range progress.Parts() {
		if i == 0 {
			t.Logf("%s left", progress.Remaining())
			refuseLeftovers(t)
			pinProcess(t, os.Getpid(), 0)
		}
		t.Run(fmt.Sprintf("%s/run %d", part.Engine, part.Run+1), func(t *testing.T) {
			m := newLedgerMeter(ctx, t, part)
			for _, c := range part.Cells {
				start := time.Now()
				if err := store.Add(c, m.measure(c)); err != nil {
					t.Fatal(err)
				}
				t.Log(progress.Finish(c, time.Since(start)))
			}
		})
		if ctx.Err() != nil {
			t.Fatal("interrupted; the next call continues with this cell")
		}
	}
}

// installedColumns returns the columns whose engine is installed. It prints a line for each other engine.
func installedColumns(t *testing.T, columns []ledgertables.Column) []ledgertables.Column {
	t.Helper()
	if _, err := exec.LookPath("sysbench"); err != nil {
		t.Fatalf("%v: make test-deps installs it", err)
	}
	missing := map[ledgertables.Engine]error{
		ledgertables.Containerd: nil, ledgertables.Podman: missingPodman(), ledgertables.Nerdctl: missingNerdctl(), ledgertables.Guest: missingGuest(),
	}
	for engine, err := range missing {
		if err != nil && slices.ContainsFunc(columns, func(c ledgertables.Column) bool { return c.Engine == engine }) {
			t.Logf("the columns of %s are skipped: %v", engine, err)
		}
	}
	return slices.DeleteFunc(slices.Clone(columns), func(c ledgertables.Column) bool { return missing[c.Engine] != nil })
}

// refuseLeftovers fails the test if containers of a killed measurement run: they would use the CPU of the next measurement.
func refuseLeftovers(t *testing.T) {
	t.Helper()
	var pids []string
	tops, err := filepath.Glob("/sys/fs/cgroup/cpu/candor-ledger-*")
	if err != nil {
		t.Fatal(err)
	}
	for _, top := range tops {
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Name() != "cgroup.procs" {
				return err
			}
			text, err := os.ReadFile(path)
			pids = append(pids, strings.Fields(string(text))...)
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if len(pids) > 0 {
		t.Fatalf("processes of an earlier measurement run; kill them: %s", strings.Join(pids, " "))
	}
}

// newLedgerMeter starts the engine of a part.
func newLedgerMeter(ctx context.Context, t *testing.T, part ledgertables.Part) ledgerMeter {
	t.Helper()
	b := &ledgerBench{T: t, ctx: ctx, cpu: 1}
	switch part.Engine {
	case ledgertables.Guest:
		return newGuestMeter(ctx, t, part.Cells)
	case ledgertables.Podman:
		b.ledgerEngine = newPodmanEngine(t)
	case ledgertables.Nerdctl:
		b.ledgerEngine = newNerdctlEngine(t, b.cpu)
	default:
		b.ledgerEngine = newCRIEngine(t, b.cpu)
	}
	return b
}

// ledgerFiles returns the files of the image besides busybox.
func ledgerFiles(t *testing.T) map[string]string {
	t.Helper()
	program := filepath.Join(builtDir(t), "stamp")
	if _, err := os.Stat(program); err != nil {
		if out, err := exec.Command("gcc", "-O2", "-static", "-o", program, "../ledgertables/testdata/stamp.c").CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v; make test-deps installs it\n%s", err, out)
		}
	}
	return map[string]string{"/bin/stamp": program}
}

// measure measures a cell.
func (b *ledgerBench) measure(c ledgertables.Cell) ledgertables.Result {
	b.Helper()
	column, err := ledgertables.ColumnOf(c.Column)
	if err != nil {
		b.Fatal(err)
	}
	script := ""
	if !b.isGuest {
		script = fmt.Sprintf("stamp %d & ", ledgertables.StampMilliseconds)
	}
	if c.Experiment == ledgertables.E2 {
		script += "dd if=/dev/zero of=/dev/null & "
	}
	for _, p := range ledgertables.Programs() {
		if p.Name == c.Program {
			script += p.Script
		}
	}
	if c.Program == ledgertables.DD {
		script += "wait"
	}
	if c.Experiment == ledgertables.E1 {
		return b.measureE1(c, column.Method, script)
	}
	return b.measureE2(c, column.Method, script)
}

// start starts a container and pins its processes and its helper.
func (b *ledgerBench) start(method ledgertables.Method, quota time.Duration, script string) *ledgerSource {
	b.Helper()
	s := b.source(method, quota, script)
	for range 2 { // a process can have started another process meanwhile
		text := b.readFile("/sys/fs/cgroup/cpu" + s.group + "/cgroup.procs")
		for pid := range strings.FieldsSeq(text) {
			n, err := strconv.Atoi(pid)
			if err != nil {
				b.Fatal(err)
			}
			pinProcess(b.T, n, b.cpu)
		}
	}
	if s.helper != 0 {
		pinProcess(b.T, s.helper, b.cpu)
	}
	return s
}

// sleep waits. A signal ends the test.
func (b *ledgerBench) sleep(d time.Duration) {
	b.Helper()
	select {
	case <-b.ctx.Done():
		b.Fatal("interrupted")
	case <-time.After(d):
	}
}

// measureE1 measures a container alone: its CPU use and that of its helpers.
func (b *ledgerBench) measureE1(c ledgertables.Cell, method ledgertables.Method, script string) (r ledgertables.Result) {
	b.Helper()
	s := b.start(method, c.Quota, script)
	b.sleep(ledgertables.SettleTime)
	delays := b.follow(s)
	own, helpers, bytes, start := b.ownTime(s), b.helperTime(s), b.logSize(s), time.Now()
	b.sleep(c.Work)
	took := time.Since(start)
	r.Own = float64(b.ownTime(s)-own) / float64(took)
	r.Helpers = float64(b.helperTime(s)-helpers) / float64(took)
	if !b.isGuest {
		r.LogRate = float64(b.logSize(s)-bytes) / took.Seconds()
	}
	r.Delay = ledgertables.Summarize(delays())
	s.end()
	return r
}

var eventsPerSecond = regexp.MustCompile(`events per second:\s*([0-9.]+)`)

// measureE2 measures sysbench beside other containers.
func (b *ledgerBench) measureE2(c ledgertables.Cell, method ledgertables.Method, script string) (r ledgertables.Result) {
	b.Helper()
	var neighbors []*ledgerSource
	for range c.Containers - 1 {
		neighbors = append(neighbors, b.start(method, c.Quota, script))
	}
	b.sleep(ledgertables.SettleTime)
	dirs := b.sysbenchGroup(c.Quota, neighbors[0])
	delays := b.follow(neighbors[0])
	cmd := exec.CommandContext(b.ctx, "sh", "-c", fmt.Sprintf("for d in %s; do echo $$ > $d/cgroup.procs; done; exec taskset -c %d sysbench cpu --threads=1 --time=%d run",
		strings.Join(dirs, " "), b.cpu, int(c.Work.Seconds())))
	output, err := cmd.CombinedOutput()
	r.Delay = ledgertables.Summarize(delays())
	// The group is not there while containers end, because Candor could take it for a container.
	for _, dir := range dirs {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // cpu and cpuacct can be one hierarchy
			b.Fatal(err)
		}
	}
	match := eventsPerSecond.FindSubmatch(output)
	if err != nil || match == nil {
		b.Fatalf("sysbench: %v\n%s", err, output)
	}
	if r.Events, err = strconv.ParseFloat(string(match[1]), 64); err != nil {
		b.Fatal(err)
	}
	for _, s := range neighbors {
		s.end()
	}
	return r
}

// sysbenchGroup creates a group beside the containers, with the shares of a container.
func (b *ledgerBench) sysbenchGroup(quota time.Duration, neighbor *ledgerSource) (dirs []string) {
	b.Helper()
	name, _, _ := strings.Cut(strings.TrimPrefix(neighbor.group, neighbor.parent+"/"), "/")
	shares := b.readFile(filepath.Join("/sys/fs/cgroup/cpu", neighbor.parent, name, "cpu.shares"))
	path := neighbor.parent + "/sysbench"
	dirs = makeGroup(b.T, path)
	writeKernelFile(b.T, dirs[0]+"/cpu.shares", shares)
	writeKernelFile(b.T, dirs[0]+"/cpu.cfs_quota_us", strconv.FormatInt(quota.Microseconds(), 10))
	return dirs
}

// follow starts to read the delays of a log. The returned function ends the reading and returns the delays.
func (b *ledgerBench) follow(s *ledgerSource) func() []time.Duration {
	b.Helper()
	if b.isGuest {
		return func() []time.Duration { return nil }
	}
	tail, err := ledgertables.Follow(s.log)
	if err != nil {
		b.Fatal(err)
	}
	return tail.Stop
}

func (b *ledgerBench) logSize(s *ledgerSource) int64 {
	b.Helper()
	info, err := os.Stat(s.log)
	if err != nil {
		b.Fatal(err)
	}
	return info.Size()
}

// groupTime returns the CPU time of a group and its children.
func (b *ledgerBench) groupTime(group string) time.Duration {
	b.Helper()
	n, err := strconv.ParseInt(strings.TrimSpace(b.readFile("/sys/fs/cgroup/cpuacct"+group+"/cpuacct.usage")), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return time.Duration(n)
}

// ownTime returns the CPU time of the container's processes.
func (b *ledgerBench) ownTime(s *ledgerSource) time.Duration {
	b.Helper()
	own := b.groupTime(s.group)
	if s.isIncluded() {
		own -= threadTime(b.T, s.helper)
	}
	return own
}

// helperTime returns the CPU time of the engine and of the container's helper.
func (b *ledgerBench) helperTime(s *ledgerSource) time.Duration {
	b.Helper()
	helpers := b.groupTime(b.engineGroup())
	if s.helper != 0 && s.payer != b.engineGroup() {
		helpers += threadTime(b.T, s.helper)
	}
	return helpers
}

func (b *ledgerBench) readFile(file string) string {
	b.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}

// pinProcess moves all threads of a process to a CPU. The process can have ended.
func pinProcess(t *testing.T, pid, cpu int) {
	t.Helper()
	var set unix.CPUSet
	set.Set(cpu)
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
		t.Fatal(err)
	}
	for _, thread := range threads {
		if tid, err := strconv.Atoi(thread.Name()); err == nil {
			if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
				t.Fatalf("pin thread %d of process %d to CPU %d: %v", tid, pid, cpu, err)
			}
		}
	}
}

// makeGroup creates a group in the hierarchies of cpu and cpuacct, and returns its directories.
func makeGroup(t *testing.T, path string) (dirs []string) {
	t.Helper()
	for _, controller := range []string{"cpu", "cpuacct"} {
		dir := filepath.Join("/sys/fs/cgroup", controller, path)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

// moveProcess moves a process to a group in the hierarchies of cpu and cpuacct.
func moveProcess(t *testing.T, pid int, path string) {
	t.Helper()
	for _, dir := range makeGroup(t, path) {
		writeKernelFile(t, dir+"/cgroup.procs", strconv.Itoa(pid))
	}
}

func writeKernelFile(t *testing.T, file, value string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(value), 0o644); err != nil {
		t.Fatal(err)
	}
}

// newEngineGroup creates the group of an engine before the engine starts, so that the end of the test removes the group after the engine.
func newEngineGroup(t *testing.T) string {
	t.Helper()
	path := fmt.Sprintf("/candor-ledger-engine-%d", os.Getpid())
	makeGroup(t, path)
	t.Cleanup(func() { removeLedgerGroups(t, path) })
	return path
}

// removeLedgerGroups removes a group and the groups below it, as soon as their processes have ended.
func removeLedgerGroups(t *testing.T, path string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := removeGroups(path)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Error(err)
			return
		}
	}
}
