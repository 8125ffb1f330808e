package sample

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/ledger"
)

// givenExits is an exitRecorder with given records.
type givenExits struct {
	records   map[int]exitRecord
	forgotten []int
}

func (*givenExits) watch(int) error { return nil }
func (*givenExits) Close() error    { return nil }
func (e *givenExits) forget(pid int) {
	delete(e.records, pid)
	e.forgotten = append(e.forgotten, pid)
}

func (e *givenExits) read(pid int) (exitRecord, bool) {
	r, exists := e.records[pid]
	return r, exists
}

// endingHelper returns an ended helper whose CPU time is booked up to 30 ms.
func endingHelper(h Helper) *account {
	return &account{process: &process{Helper: h, isEnded: true}, time: 30 * time.Millisecond, isRead: true, isWatched: true, start: 5}
}

// TestSettle: the record of an ended helper is booked once, and only the part after the last reading.
func TestSettle(t *testing.T) {
	conmon, dockerd := Helper{PID: 7, Name: "conmon", Kind: ledger.Log, Container: id}, Helper{PID: 7, Name: "dockerd", Kind: ledger.Log}
	shim := Helper{PID: 7, Name: "containerd-shim-runc-v2", Kind: ledger.Shim}
	record := exitRecord{100 * time.Millisecond, 5}
	for name, test := range map[string]struct {
		helper                Helper
		change                func(*account)
		record                exitRecord
		charged, unattributed time.Duration // in milliseconds
	}{
		"conmon":                 {helper: conmon, record: record, charged: 70},
		"conmon, never read":     {helper: conmon, change: func(a *account) { a.time, a.isRead = 0, false }, record: record, charged: 100},
		"not more than booked":   {helper: conmon, record: exitRecord{30 * time.Millisecond, 5}},
		"less than booked":       {helper: conmon, record: exitRecord{20 * time.Millisecond, 5}},
		"another process":        {helper: conmon, record: exitRecord{100 * time.Millisecond, 6}},
		"not watched":            {helper: conmon, change: func(a *account) { a.isWatched = false }, record: record},
		"executes a new program": {helper: conmon, change: func(a *account) { a.isEnded = false }, record: record},
		"dockerd":                {helper: dockerd, change: func(a *account) { a.served = []string{id} }, record: record, unattributed: 70},
		"dockerd, never read":    {helper: dockerd, change: func(a *account) { a.time, a.isRead = 0, false }, record: record},
		"shim of a container":    {helper: shim, change: func(a *account) { a.served = []string{id} }, record: record, charged: 70},
		"shim of a pod":          {helper: shim, change: func(a *account) { a.served = []string{id, "other"} }, record: record, unattributed: 70},
	} {
		a := endingHelper(test.helper)
		if test.change != nil {
			test.change(a)
		}
		s := &Source{exits: &givenExits{records: map[int]exitRecord{7: test.record}}, helpers: map[int]*account{7: a}}
		var book ledger.Book
		s.end(a.process, time.Now())
		for range 3 {
			if err := s.settle(&book, &cycle{now: time.Now(), serves: map[string]bool{}}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			charged, unattributed := book.Charged(id), book.Unattributed()[test.helper.Name]
			if charged != test.charged*time.Millisecond || unattributed != test.unattributed*time.Millisecond || s.Booked() != charged+unattributed {
				t.Errorf("%s: charged %v, unattributed %v, booked %v; want %d and %d ms", name, charged, unattributed, s.Booked(), test.charged, test.unattributed)
			}
		}
	}
}

// TestSettleLate: a helper without a record waits, and its container stays in the book. At last, the helper is given up.
func TestSettleLate(t *testing.T) {
	start := time.Now()
	for _, late := range []bool{false, true} {
		a, exits := endingHelper(Helper{PID: 7, Kind: ledger.Log, Container: id}), &givenExits{records: map[int]exitRecord{}}
		s := &Source{exits: exits, helpers: map[int]*account{7: a}}
		var book ledger.Book
		settle := func(at time.Duration) (charged time.Duration, isServed bool) {
			t.Helper()
			c := &cycle{now: start.Add(at), serves: map[string]bool{}}
			if err := s.settle(&book, c); err != nil {
				t.Fatal(err)
			}
			return book.Charged(id), c.serves[id]
		}
		s.end(a.process, start)
		if charged, isServed := settle(0); charged != 0 || !isServed || len(exits.forgotten) > 0 {
			t.Errorf("without a record: charged %v, served %v", charged, isServed)
		}
		if _, hasEnded := s.Used(); !hasEnded {
			t.Error("a Read has more to book, but Used does not report it")
		}
		want := 70 * time.Millisecond
		if late {
			settle(maxEnding)
			want = 0
		}
		exits.records[7] = exitRecord{100 * time.Millisecond, 5}
		if charged, isServed := settle(maxEnding); charged != want || isServed == late {
			t.Errorf("late %v: charged %v, served %v; want %v", late, charged, isServed, want)
		}
		if charged, isServed := settle(maxEnding); charged != want || isServed || !slices.Equal(exits.forgotten, []int{7}) {
			t.Errorf("late %v: charged %v, served %v, forgotten %v at the end", late, charged, isServed, exits.forgotten)
		}
		if _, hasEnded := s.Used(); hasEnded {
			t.Error("Used reports an end that is settled")
		}
	}
}

// TestEndingReusedID: a new helper can have the process ID of an ended helper.
func TestEndingReusedID(t *testing.T) {
	exits := &givenExits{records: map[int]exitRecord{}}
	pid := os.Getpid()
	old := endingHelper(Helper{PID: pid, Kind: ledger.Log, Container: id})
	s := &Source{exits: exits, helpers: map[int]*account{pid: old}}
	s.end(old.process, time.Now())
	s.add(&process{Helper: Helper{PID: pid}}, time.Now())
	if len(s.ending) != 0 || s.helpers[pid] == nil || s.helpers[pid] == old {
		t.Errorf("ending %v, helpers %v", s.ending, s.helpers)
	}
}

// newTestRecorder returns the recorder of this machine.
func newTestRecorder(t *testing.T) exitRecorder {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loads a BPF program: needs root")
	}
	e, err := newExitRecorder()
	if errors.Is(err, unix.EPERM) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, errOtherPIDs) || errors.Is(err, btf.ErrNotFound) {
		t.Skipf("this kernel refuses it: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// waitForRecord waits for the record of an ended process.
func waitForRecord(t *testing.T, e exitRecorder, pid int) (r exitRecord) {
	t.Helper()
	for end := time.Now().Add(maxEnding); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if r, exists := e.read(pid); exists {
			return r
		}
	}
	t.Fatalf("process %d has no record", pid)
	return r
}

// recordError is the maximum difference between a record and the CPU time that wait4(2) returns.
const recordError = 5 * time.Millisecond

// TestExitRecorder: the record of an ended process is the CPU time of all of its threads.
func TestExitRecorder(t *testing.T) {
	e := newTestRecorder(t)
	file, err := os.Create(t.TempDir() + "/hole")
	if err == nil {
		err = file.Truncate(1 << 40) // reads of the hole take time, and do not end
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader, in := startReader(t, 1, 1, file, file)
	pid := reader.Process.Pid
	if err := e.watch(pid); err != nil {
		t.Fatal(err)
	}
	stat, err := procfs.ReadStat(pid)
	if err != nil {
		t.Fatal(err)
	}
	for used := time.Duration(0); used < 100*time.Millisecond; time.Sleep(time.Millisecond) {
		if used, err = cpuTime(pid); err != nil {
			t.Fatal(err)
		}
	}
	if r, exists := e.read(pid); exists {
		t.Errorf("a running process has the record %+v", r)
	}
	in.Close()
	if err := reader.Wait(); err != nil {
		t.Fatal(err)
	}
	r, want := waitForRecord(t, e, pid), reader.ProcessState.UserTime()+reader.ProcessState.SystemTime()
	if r.start != stat.Start || (r.time-want).Abs() > recordError {
		t.Errorf("got %+v, want the start %d and %v of CPU time", r, stat.Start, want)
	}
	unwatched := exec.Command("true")
	if err := unwatched.Run(); err != nil {
		t.Fatal(err)
	}
	e.forget(pid)
	for _, pid := range []int{pid, unwatched.Process.Pid} {
		if r, exists := e.read(pid); exists {
			t.Errorf("process %d is not watched, and has the record %+v", pid, r)
		}
	}
}

// TestLastTime: a helper that ends between two readings is booked completely. Then its container leaves the book.
func TestLastTime(t *testing.T) {
	newTestRecorder(t)
	s := Open()
	defer s.Close()
	id := strings.Repeat("fedcba9876543210", 4)
	conmon, commands := startShell(t, "conmon", "-c", id)
	var book ledger.Book
	read := func() []ledger.Total {
		t.Helper()
		if err := s.Read(&book); err != nil {
			t.Log(err) // of another helper of this machine
		}
		return book.Totals(id)
	}
	waitFor := func(what string, is func([]ledger.Total) bool) (totals []ledger.Total) {
		t.Helper()
		for end := time.Now().Add(maxEnding); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if totals = read(); is(totals) {
				return totals
			}
		}
		t.Fatalf("no %s: %v", what, totals)
		return nil
	}
	before := waitFor("helper", func(totals []ledger.Total) bool { return len(totals) == 1 })
	fmt.Fprintln(commands, "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit")
	if err := conmon.Wait(); err != nil {
		t.Fatal(err)
	}
	want := conmon.ProcessState.UserTime() + conmon.ProcessState.SystemTime()
	if want-before[0].Time < 50*time.Millisecond {
		t.Fatalf("the helper has used %v, %v before its last reading", want, before[0].Time)
	}
	after := waitFor("last time", func(totals []ledger.Total) bool { return len(totals) == 1 && totals[0].Time > before[0].Time })
	if (after[0].Time - want).Abs() > recordError {
		t.Errorf("booked %v, the helper has used %v", after[0].Time, want)
	}
	waitFor("end of the container", func(totals []ledger.Total) bool { return totals == nil })
}
