// Package interference finds foreign processes that use the CPUs of a measurement. It reads the CPU times of all processes twice, at the
// start and at the end of the measurement, so it costs the measurement nothing in between.
package interference

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/procfs"
)

// Threshold is a share of the CPUs of a measurement. Other processes count as an interference if they use more than this share.
const Threshold = 0.1

// minSpan is the minimum length of a measurement with a report. In less time, the kernel's counters are too coarse: they grow by ticks of
// 10 ms on each CPU.
const minSpan = time.Second

// A Report describes the use of a measurement's CPUs by other processes.
type Report struct {
	CPUs     int      `json:"cpus"`              // number of CPUs of the measurement
	UseMilli int      `json:"useMilli"`          // use of these CPUs by other processes, in milli-CPU, on average
	Largest  *Process `json:"largest,omitempty"` // process with the highest use, of those that still run; nil: none
	// Setup names the setup with the highest use by other processes. CPUs and UseMilli are those of the CPUs on which the measured
	// program may run under this setup. "": the measurement has no setups.
	Setup string `json:"setup,omitempty"`
}

// A Process is a foreign process with its use.
type Process struct {
	PID      int    `json:"pid"`
	Name     string `json:"name"`     // printable; quoted if it is not plain text, because each process can choose its name
	UseMilli int    `json:"useMilli"` // in milli-CPU, on average
}

// String returns the report as a phrase for the user.
func (r *Report) String() string {
	text, largest := r.texts()
	if p := r.Largest; p != nil {
		text += fmt.Sprintf("; the largest that still runs is %s (pid %d) with %s", p.Name, p.PID, largest)
	}
	return text
}

// texts returns the use by other processes, and the use of the largest process. The largest process can also have used other CPUs than
// those of a setup, so its use is then a number of CPUs.
func (r *Report) texts() (use, largest string) {
	var largestMilli int
	if r.Largest != nil {
		largestMilli = r.Largest.UseMilli
	}
	use = fmt.Sprintf("other processes used %s of ", r.percent(r.UseMilli))
	switch {
	case r.Setup == "":
		return use + "the CPUs of this measurement", r.percent(largestMilli)
	case r.CPUs == 1:
		use += "the CPU of the program under " + r.Setup
	default:
		use += fmt.Sprintf("the %d CPUs of the program under %s", r.CPUs, r.Setup)
	}
	return use, fmt.Sprintf("%.2f CPUs on the whole machine", float64(largestMilli)/1000)
}

// percent returns a use as a share of the CPUs.
func (r *Report) percent(useMilli int) string {
	return fmt.Sprintf("%.0f %%", float64(useMilli)/10/float64(max(r.CPUs, 1)))
}

// Warning returns a line for the user, or "" for nil.
func (r *Report) Warning() string {
	if r == nil {
		return ""
	}
	return "Warning: " + r.String()
}

// WarningFor is like Warning, for one of several measurements.
func (r *Report) WarningFor(measurement string) string {
	if r == nil {
		return ""
	}
	return "Warning: " + measurement + ": " + r.String()
}

// Bounds of a decoded report.
const (
	maxMilli = 1 << 40
	maxName  = 64  // bytes; a name has 15 bytes, up to four times as many if it is quoted
	maxSetup = 200 // bytes
)

// Parse decodes the JSON of a report from an untrusted source.
func Parse(text []byte) (*Report, error) {
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	if r.CPUs < 1 || r.CPUs > cpuset.Max || r.UseMilli < 0 || r.UseMilli > maxMilli {
		return nil, fmt.Errorf("a use of %d milli-CPU by other processes on %d CPUs", r.UseMilli, r.CPUs)
	}
	if len(r.Setup) > maxSetup || !isPlain(r.Setup) {
		return nil, errors.New("an invalid setup with the largest use")
	}
	if p := r.Largest; p != nil {
		if p.PID < 1 || p.UseMilli < 0 || p.UseMilli > maxMilli || len(p.Name) > maxName || !isPlain(p.Name) {
			return nil, errors.New("an invalid process with the largest use")
		}
	}
	return &r, nil
}

func isPlain(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return !strconv.IsPrint(c) })
}

// A Watch is a measurement in progress.
type Watch struct {
	cpus     cpuset.Set
	start    time.Time
	before   map[int]procfs.ProcessTime
	programs map[int]time.Duration // CPU time of all programs at the start, by CPU
	self     time.Duration         // CPU time of this process at the start
}

// readProcessTimes is replaced in tests.
var readProcessTimes = procfs.ReadProcessTimes

// Start starts a Watch of the CPUs of a measurement. It reads a file per process. It returns nil if it cannot read /proc, because a
// measurement is also possible without a report.
func Start(cpus cpuset.Set) *Watch {
	w := &Watch{cpus: cpus}
	var err error
	if w.before, err = readProcessTimes(); err != nil {
		return nil
	}
	w.start, w.self = time.Now(), ownTime()
	if w.programs, err = readPrograms(&cpus); err != nil {
		return nil
	}
	return w
}

// readPrograms reads the CPU time of all programs since the boot, without interrupts, for each online CPU of a set.
func readPrograms(cpus *cpuset.Set) (map[int]time.Duration, error) {
	times, err := procfs.ReadCPUTimes()
	programs := make(map[int]time.Duration, len(times))
	for cpu, t := range times {
		if cpus.Contains(cpu) {
			programs[cpu] = t.Programs
		}
	}
	return programs, err
}

// growth returns the CPU time between two readings. It skips a CPU that was offline at the first reading: the second reading
// contains the CPU's whole time since the boot, and the part before the first reading is unknown.
func growth(before, after map[int]time.Duration) (sum time.Duration) {
	for cpu, now := range after {
		if old, isKnown := before[cpu]; isKnown {
			sum += max(now-old, 0)
		}
	}
	return sum
}

// ownTime returns the CPU time of this process.
func ownTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // cannot fail for the calling process
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Others returns the CPU time that other processes used on the CPUs since the start, and the length of this time. measured is the CPU time
// of the measured processes in this time.
func (w *Watch) Others(measured time.Duration) (others, span time.Duration, err error) {
	now, err := readPrograms(&w.cpus)
	return max(growth(w.programs, now)-measured-(ownTime()-w.self), 0), time.Since(w.start), err
}

// Report returns the report of the CPU time that other processes used (others) in a time span. others and span are results of
// Others, or sums of such results. Report returns nil if the use does not exceed Threshold, or if the span is shorter than
// minSpan. isMeasured reports whether a process belongs to the measurement. This process never counts as foreign. If the
// processes cannot be read, the report has the use without the largest process.
func (w *Watch) Report(others, span time.Duration, isMeasured func(pid int) bool) *Report {
	return w.ReportOn(w.cpus, "", others, span, isMeasured)
}

// ReportOn is like Report for some of the CPUs: the CPUs on which the measured program may run under a setup.
func (w *Watch) ReportOn(cpus cpuset.Set, setup string, others, span time.Duration, isMeasured func(pid int) bool) *Report {
	r := &Report{CPUs: cpus.Count(), UseMilli: milli(others, span), Setup: setup}
	if span < minSpan || float64(others) <= Threshold*float64(r.CPUs)*float64(span) {
		return nil
	}
	after, err := readProcessTimes()
	if err != nil {
		return r
	}
	for _, p := range ranked(w.before, after) {
		if p.PID == os.Getpid() || isMeasured(p.PID) || !runsOn(p.PID, &cpus) {
			continue
		}
		r.Largest = &Process{PID: p.PID, Name: procfs.Printable(p.Comm), UseMilli: milli(p.used, time.Since(w.start))}
		break
	}
	return r
}

// runsOn reports whether a process can run on some of the CPUs. It is false if the process has ended.
func runsOn(pid int, cpus *cpuset.Set) bool {
	affinity, err := procfs.Affinity(pid)
	return err == nil && affinity.Overlaps(cpus)
}

func milli(used, span time.Duration) int {
	return int(1000 * float64(used) / float64(max(span, time.Nanosecond)))
}

// A user is a process with the CPU time that it used between two readings.
type user struct {
	procfs.ProcessTime
	PID  int
	used time.Duration
}

// maxRanked bounds the number of processes that Report inspects.
const maxRanked = 100

// ranked returns the processes that used CPU time between two readings, the highest use first. Processes with equal use are in the order
// of their PIDs.
func ranked(before, after map[int]procfs.ProcessTime) (list []user) {
	for pid, now := range after {
		used := now.Time
		if old, isKnown := before[pid]; isKnown && old.Start == now.Start {
			used -= old.Time
		}
		if used > 0 {
			list = append(list, user{now, pid, used})
		}
	}
	slices.SortFunc(list, func(a, b user) int { return cmp.Or(cmp.Compare(b.used, a.used), cmp.Compare(a.PID, b.PID)) })
	return list[:min(len(list), maxRanked)]
}
