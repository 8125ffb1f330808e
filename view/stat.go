package view

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/candor-project/candor/cpuset"
)

// A StatSample is a measurement of the CPU time of a container.
type StatSample struct {
	Time time.Duration // since the start of the machine, such as CLOCK_BOOTTIME
	CPUs cpuset.Set    // CPUs of the container, never empty
	// User and System are the CPU time of the container's cgroup since its creation. If their sum is lower than in the sample before, the
	// cgroup was recreated.
	User, System time.Duration
	PerCPU       []time.Duration // CPU time by CPU ID; nil if the kernel does not report it (v2)
}

// A StatCounter holds the counters of a CPU, or of all CPUs.
type StatCounter struct {
	User   time.Duration `json:"user"`
	System time.Duration `json:"system"`
	Idle   time.Duration `json:"idle"`
}

// StatCounters are the counters of a container's /proc/stat. They never decrease, even if CPUs leave and come back, the cgroup is
// recreated, or another process continues with the stored JSON. The zero value is ready for the first sample.
//
// Between two samples, the counters of each CPU of the container grow by the elapsed time. The elapsed time is split into the CPU
// time that the container used on this CPU, and idle time. So the share of busy time that programs compute from the lines is the
// container's own use. If the kernel does not report CPU time by CPU, all CPUs get an equal part of the container's CPU time. A
// CPU that leaves the container keeps its counters until it comes back.
type StatCounters struct {
	Time   time.Duration       `json:"time"` // of the last sample, like User, System and PerCPU
	User   time.Duration       `json:"user"`
	System time.Duration       `json:"system"`
	PerCPU []time.Duration     `json:"perCPU,omitempty"`
	CPUs   map[int]StatCounter `json:"cpus"` // by CPU ID
	All    StatCounter         `json:"all"`  // sum of all increments of the CPUs' counters

	// PendingUser and PendingSystem are the CPU time that exceeds the elapsed time of the container's CPUs, because the kernel updates some
	// counters late. Update counts this time with the next samples.
	PendingUser   time.Duration `json:"pendingUser"`
	PendingSystem time.Duration `json:"pendingSystem"`

	isResumed bool // the next sample only sets the time and the use
}

const (
	// statTick is the unit of /proc/stat: USER_HZ is 100 on all architectures. It is also the first idle time of a CPU, because some
	// programs divide by the sum of the first counters that they read.
	statTick    = 10 * time.Millisecond
	statPending = 10 * time.Second // bound of the pending CPU time
	statLate    = time.Minute      // bound of the lateness of a sample; an even older time is of another boot of the machine
)

// Update adds a sample. The first sample only sets the time and the use from which the next sample counts. Update ignores a
// sample without CPUs, and a sample that is up to a minute older than the last one. A sample with an even older time is of
// another boot of the machine, and counts as the first one.
func (c *StatCounters) Update(s StatSample) {
	if s.CPUs.IsEmpty() {
		return
	}
	if late := c.Time - s.Time; late > 0 && !c.isResumed {
		if late <= statLate {
			return
		}
		c.isResumed = true
	}
	if c.CPUs == nil {
		c.CPUs = map[int]StatCounter{}
		c.All.Idle = statTick
		c.isResumed = true
	}
	if c.isResumed {
		c.Time, c.User, c.System, c.PerCPU, c.isResumed = s.Time, s.User, s.System, slices.Clone(s.PerCPU), false
	}
	elapsed := s.Time - c.Time
	user, system := c.used(s)
	busy := c.distribute(s, elapsed, user+system)
	var given time.Duration
	for _, part := range busy {
		given += part
	}
	userShare := 0.0
	if user+system > 0 {
		userShare = float64(user) / float64(user+system)
	}
	var givenUser time.Duration
	for cpu, part := range busy {
		partUser := min(time.Duration(float64(part)*userShare), part)
		givenUser += partUser
		c.add(cpu, StatCounter{User: partUser, System: part - partUser, Idle: elapsed - part})
	}
	c.PendingUser = min(max(user-givenUser, 0), statPending)
	c.PendingSystem = min(max(system-(given-givenUser), 0), statPending)
	c.Time, c.User, c.System, c.PerCPU = s.Time, s.User, s.System, slices.Clone(s.PerCPU)
}

// Resume continues with the counters in a text of AppendStat that are higher: a process can have been killed after it showed them
// and before it stored them. The next sample then only sets the time and the use from which the following samples count. Lines
// that are no counters of CPUs do not count.
func (c *StatCounters) Resume(text []byte) {
	for line := range bytes.Lines(text) {
		name, shown, ok := parseStatLine(string(line))
		if !ok {
			continue
		}
		if c.CPUs == nil {
			c.CPUs = map[int]StatCounter{}
		}
		if name == "" {
			c.All = c.All.atLeast(shown)
		} else if cpu, err := strconv.Atoi(name); err == nil && cpu >= 0 && cpu < cpuset.Max {
			c.CPUs[cpu] = c.CPUs[cpu].atLeast(shown)
		}
	}
	c.isResumed = c.CPUs != nil
}

// parseStatLine parses a line of AppendStat. name is the ID of the CPU, or "" for the sum.
func parseStatLine(line string) (name string, c StatCounter, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 5 || !strings.HasPrefix(fields[0], "cpu") {
		return "", c, false
	}
	for i, value := range map[int]*time.Duration{1: &c.User, 3: &c.System, 4: &c.Idle} {
		ticks, err := strconv.ParseUint(fields[i], 10, 64)
		if err != nil || ticks > math.MaxInt64/uint64(statTick) {
			return "", c, false
		}
		*value = time.Duration(ticks) * statTick
	}
	return fields[0][len("cpu"):], c, true
}

// used returns the CPU time since the last sample, with the pending time.
func (c *StatCounters) used(s StatSample) (user, system time.Duration) {
	user, system = max(s.User-c.User, 0), max(s.System-c.System, 0)
	if s.User+s.System < c.User+c.System { // another cgroup
		user, system = max(s.User, 0), max(s.System, 0)
		c.PerCPU = nil
	}
	return user + c.PendingUser, system + c.PendingSystem
}

// distribute divides CPU time among the CPUs of a sample, at most the elapsed time for each CPU.
func (c *StatCounters) distribute(s StatSample, elapsed, used time.Duration) map[int]time.Duration {
	busy := make(map[int]time.Duration, s.CPUs.Count())
	for cpu := range s.CPUs.All() {
		part := time.Duration(0)
		if cpu < len(s.PerCPU) {
			part = s.PerCPU[cpu]
			if cpu < len(c.PerCPU) {
				part -= c.PerCPU[cpu]
			}
		}
		part = min(max(part, 0), elapsed, used)
		busy[cpu] = part
		used -= part
	}
	// The remaining CPU time was used on CPUs that have left the container, or the kernel does not report CPU time by CPU.
	leastRoomFirst := func(a, b int) int { return cmp.Or(cmp.Compare(busy[b], busy[a]), cmp.Compare(a, b)) }
	remaining := s.CPUs.Count()
	for _, cpu := range slices.SortedFunc(maps.Keys(busy), leastRoomFirst) {
		part := min(used/time.Duration(remaining), elapsed-busy[cpu])
		busy[cpu] += part
		used -= part
		remaining--
	}
	return busy
}

func (c *StatCounters) add(cpu int, change StatCounter) {
	now, isKnown := c.CPUs[cpu]
	if !isKnown {
		now.Idle = statTick
	}
	c.CPUs[cpu] = now.plus(change)
	c.All = c.All.plus(change)
}

func (c StatCounter) plus(d StatCounter) StatCounter {
	return StatCounter{sum(c.User, d.User), sum(c.System, d.System), sum(c.Idle, d.Idle)}
}

// sum adds a time that is not negative. The sum of many CPUs can exceed the range of 292 years, where the counter then stays.
func sum(a, b time.Duration) time.Duration {
	if s := a + b; s >= a {
		return s
	}
	return math.MaxInt64
}

// isValid reports whether stored counters can be of Update.
func (c *StatCounters) isValid() bool {
	isOf := func(d StatCounter) bool { return d.User >= 0 && d.System >= 0 && d.Idle >= 0 }
	for cpu, counter := range c.CPUs {
		if cpu < 0 || cpu >= cpuset.Max || !isOf(counter) {
			return false
		}
	}
	return isOf(c.All) && c.PendingUser >= 0 && c.PendingUser <= statPending && c.PendingSystem >= 0 && c.PendingSystem <= statPending &&
		c.Time >= 0 && c.User >= 0 && c.System >= 0 && len(c.PerCPU) <= cpuset.Max
}

// atLeast returns the counters, or the others where these are higher.
func (c StatCounter) atLeast(other StatCounter) StatCounter {
	return StatCounter{max(c.User, other.User), max(c.System, other.System), max(c.Idle, other.Idle)}
}

// AppendStat appends the text of a container's /proc/stat with the lines of the given CPUs. The length of the text depends only on the
// number of CPUs, and the offsets and widths of the numbers are constant. bootTime is the machine's btime in seconds, which programs need
// to compute the start of processes. The counters of interrupts, context switches and forks are 0, because a cgroup does not count them.
func (c *StatCounters) AppendStat(out []byte, cpus cpuset.Set, bootTime int64) []byte {
	out = append(out, "cpu     "...)
	out = c.All.append(out)
	for cpu := range cpus.All() {
		out = fmt.Appendf(out, "%-7s", "cpu"+strconv.Itoa(cpu)) // with the newline before: 8 bytes
		out = c.CPUs[cpu].append(out)
	}
	return fmt.Appendf(out, "intr 0\nctxt 0\nbtime %d\nprocesses 0\nprocs_running 1\nprocs_blocked 0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n", bootTime)
}

// append appends the numbers of a line: user, nice, system, idle, and six numbers that are 0. Every number ends at a multiple of 8 bytes,
// if the line starts with a name of 8 bytes: see "Memory" in the package comment.
func (c StatCounter) append(out []byte) []byte {
	out = appendRight(out, int64(c.User/statTick), 16)
	out = append(out, "       0"...)
	out = appendRight(out, int64(c.System/statTick), 16)
	out = appendRight(out, int64(c.Idle/statTick), 16)
	return append(out, "     0 0 0 0 0 0\n"...)
}
