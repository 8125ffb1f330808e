package interference

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/procfs"
)

const ms = time.Millisecond

// TestRanked: a process counts with the CPU time since the first reading. A later process with the same PID counts in full.
func TestRanked(t *testing.T) {
	before := map[int]procfs.ProcessTime{
		1: {Comm: "init", Start: 1, Time: 900 * ms}, 2: {Comm: "idle", Start: 2, Time: 500 * ms},
		3: {Comm: "gone", Start: 3, Time: 100 * ms}, 4: {Comm: "old", Start: 4, Time: 800 * ms},
	}
	after := map[int]procfs.ProcessTime{
		1: {Comm: "init", Start: 1, Time: 910 * ms}, 2: {Comm: "idle", Start: 2, Time: 500 * ms},
		4: {Comm: "new", Start: 40, Time: 300 * ms}, 5: {Comm: "make", Start: 50, Time: 400 * ms}, 6: {Comm: "twin", Start: 50, Time: 300 * ms},
	}
	got := ranked(before, after)
	want := []user{{after[5], 5, 400 * ms}, {after[4], 4, 300 * ms}, {after[6], 6, 300 * ms}, {after[1], 1, 10 * ms}}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: %+v, want %+v", i, got[i], want[i])
		}
	}
}

// TestGrowth: a CPU that comes online or goes offline between the readings does not count, nor does a counter that is reset.
func TestGrowth(t *testing.T) {
	before := map[int]time.Duration{0: 100 * ms, 1: 900 * ms, 2: 500 * ms}
	after := map[int]time.Duration{0: 130 * ms, 1: 10 * ms, 3: time.Hour}
	if got := growth(before, after); got != 30*ms {
		t.Errorf("%v, want 30ms", got)
	}
}

// TestWatch: a busy process is found, and named unless it belongs to the measurement.
func TestWatch(t *testing.T) {
	cpus, err := procfs.Affinity(0)
	if err != nil {
		t.Fatal(err)
	}
	one := cpuset.Of(cpus.First())
	w := Start(one)
	if w == nil {
		t.Fatal("no watch")
	}
	busy := exec.Command("sh", "-c", "while :; do :; done")
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	defer busy.Wait()
	defer busy.Process.Kill()
	used := func() time.Duration {
		s, err := procfs.ReadStat(busy.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		return s.Time
	}
	for end := time.Now().Add(30 * time.Second); used() < 200*ms && time.Now().Before(end); {
		time.Sleep(10 * ms)
	}
	isNamed := func(isMeasured func(int) bool) (r *Report, named bool) {
		r = w.Report(time.Second, time.Second, isMeasured)
		if r == nil || r.CPUs != 1 || r.UseMilli != 1000 {
			t.Fatalf("%+v", r)
		}
		return r, r.Largest != nil && r.Largest.PID == busy.Process.Pid
	}
	others := func(pid int) bool { return pid != busy.Process.Pid } // other processes of this machine can use more
	if r, named := isNamed(others); !named || r.Largest.Name != "sh" || r.Largest.UseMilli < 1 {
		t.Errorf("%+v", r.Largest)
	}
	if r, named := isNamed(func(int) bool { return true }); named || r.Largest != nil {
		t.Errorf("a measured process: %+v", r.Largest)
	}
	if r := w.Report(100*ms, time.Second, others); r != nil {
		t.Errorf("at the threshold: %+v", r)
	}
	if r := w.ReportOn(cpus, "quota", time.Second, time.Second, others); cpus.Count() > 1 && (r == nil || r.CPUs != cpus.Count() || r.Setup != "quota") {
		t.Errorf("all CPUs: %+v", r)
	}
	if r := w.Report(999*ms, 999*ms, others); r != nil {
		t.Errorf("a short measurement: %+v", r)
	}
	if got, span, err := w.Others(0); err != nil || got < 0 || span < 200*ms {
		t.Errorf("others %v in %v, %v", got, span, err)
	}
	if got, _, err := w.Others(1000 * time.Hour); err != nil || got != 0 {
		t.Errorf("others %v, %v", got, err)
	}
}

// TestUnreadableProcesses: without the list of processes, there is no new watch, and the report of a watch in progress has no names.
func TestUnreadableProcesses(t *testing.T) {
	w := Start(cpuset.Of(0))
	if w == nil {
		t.Fatal("no watch")
	}
	defer func() { readProcessTimes = procfs.ReadProcessTimes }()
	readProcessTimes = func() (map[int]procfs.ProcessTime, error) { return nil, os.ErrPermission }
	if r := w.Report(time.Second, time.Second, func(int) bool { return false }); r == nil || r.UseMilli != 1000 || r.Largest != nil {
		t.Errorf("%+v", r)
	}
	if w := Start(cpuset.Of(0)); w != nil {
		t.Errorf("%+v", w)
	}
}

func TestReportText(t *testing.T) {
	r := &Report{CPUs: 2, UseMilli: 460, Largest: &Process{4711, "make", 400}}
	if got, want := r.Warning(), "Warning: other processes used 23 % of the CPUs of this measurement; the largest that still runs is make (pid 4711) with 20 %"; got != want {
		t.Errorf("%q", got)
	}
	r.Largest = nil
	if got, want := r.String(), "other processes used 23 % of the CPUs of this measurement"; got != want {
		t.Errorf("%q", got)
	}
	for cpus, want := range map[int]string{
		1: "Warning: xz: other processes used 46 % of the CPU of the program under cpuset; the largest that still runs is make (pid 4711) with 0.40 CPUs on the whole machine",
		4: "Warning: xz: other processes used 12 % of the 4 CPUs of the program under cpuset; the largest that still runs is make (pid 4711) with 0.40 CPUs on the whole machine",
	} {
		r := &Report{CPUs: cpus, UseMilli: 460, Largest: &Process{4711, "make", 400}, Setup: "cpuset"}
		if got := r.WarningFor("xz"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := (*Report)(nil).WarningFor("xz"); got != "" {
		t.Errorf("no interference: %q", got)
	}
	if got := (*Report)(nil).Warning(); got != "" {
		t.Errorf("no interference: %q", got)
	}
}

// TestParse: a report from a file is checked, because its texts are printed.
func TestParse(t *testing.T) {
	good := &Report{CPUs: 2, UseMilli: 460, Largest: &Process{os.Getpid(), procfs.Printable("a\x1b[2J"), 400}}
	text, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := Parse(text); err != nil || *r.Largest != *good.Largest || r.UseMilli != 460 {
		t.Errorf("%s: %+v, %v", text, r, err)
	}
	for _, bad := range []string{
		"", "[]", `{}`, `{"cpus":-1,"useMilli":1}`, `{"cpus":1,"useMilli":-1}`, `{"cpus":1,"useMilli":1,"largest":{}}`,
		`{"cpus":1,"useMilli":1,"largest":{"pid":1,"name":"\u001b[2J","useMilli":1}}`, `{"cpus":1,"useMilli":1,"largest":{"pid":1,"name":"a","useMilli":-1}}`,
		`{"cpus":1,"useMilli":1,"setup":"\u001b[2J"}`,
	} {
		if r, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, r)
		}
	}
}
