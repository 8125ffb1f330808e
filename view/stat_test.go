package view

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
)

// A statLine holds the numbers of a line of /proc/stat.
type statLine struct {
	name    string
	numbers []int64
}

// parseStatLines returns the lines of a /proc/stat.
func parseStatLines(text []byte) (lines []statLine, err error) {
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			return nil, fmt.Errorf("line %q", line)
		}
		l := statLine{name: fields[0]}
		for _, field := range fields[1:] {
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil || n < 0 {
				return nil, fmt.Errorf("line %q: %v", line, err)
			}
			l.numbers = append(l.numbers, n)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// TestStatMonotonic: no counter of a line decreases, for any samples and also with a restart between them.
func TestStatMonotonic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c StatCounters
		durations := rapid.OneOf(rapid.Int64Range(0, int64(5*time.Second)), rapid.Int64Range(0, int64(time.Hour)))
		duration := func(name string) time.Duration { return time.Duration(durations.Draw(t, name)) }
		cpus := rapid.Custom(func(t *rapid.T) cpuset.Set {
			return cpuset.Of(rapid.SliceOfN(rapid.IntRange(0, 5), 1, 4).Draw(t, "CPUs")...)
		})
		last := map[string][]int64{}
		s := StatSample{Time: duration("start"), PerCPU: make([]time.Duration, 6)}
		for range rapid.IntRange(1, 30).Draw(t, "samples") {
			s.Time += duration("elapsed")
			switch rapid.IntRange(0, 6).Draw(t, "event") {
			case 0: // the cgroup was recreated
				s.User, s.System, s.PerCPU = 0, 0, make([]time.Duration, 6)
			case 1: // any numbers
				s.User, s.System, s.PerCPU = duration("user"), duration("system"), nil
			case 2: // another process goes on
				text, err := json.Marshal(c)
				var restored StatCounters
				if err == nil {
					err = json.Unmarshal(text, &restored)
				}
				if err != nil || len(c.CPUs) > 0 && !reflect.DeepEqual(c, restored) {
					t.Fatalf("%+v becomes %+v: %v", c, restored, err)
				}
				c = restored
			}
			s.CPUs = cpus.Draw(t, "CPUs")
			s.PerCPU = slices.Clone(s.PerCPU)
			for i := range s.PerCPU {
				used := duration("CPU time")
				s.PerCPU[i] += used
				s.User += used / 3
				s.System += used - used/3
			}
			before := c
			before.CPUs = maps.Clone(c.CPUs)
			c.Update(s)
			checkChange(t, before, c, s)
			lines, err := parseStatLines(c.AppendStat(nil, s.CPUs, 1))
			if err != nil || len(lines) != 1+s.CPUs.Count()+7 {
				t.Fatalf("%d lines, %v", len(lines), err)
			}
			for _, line := range lines {
				for i, n := range last[line.name] {
					if line.numbers[i] < n {
						t.Fatalf("%s: number %d decreases from %d to %d", line.name, i, n, line.numbers[i])
					}
				}
				last[line.name] = line.numbers
			}
		}
	})
}

// checkChange checks the change by a sample: each CPU of the container has the elapsed time, and the sum is in the first line.
func checkChange(t *rapid.T, before, after StatCounters, s StatSample) {
	if len(before.CPUs) == 0 {
		return
	}
	elapsed := s.Time - before.Time
	var sum StatCounter
	for cpu, now := range after.CPUs {
		was, isKnown := before.CPUs[cpu]
		if !isKnown {
			was.Idle = statTick
		}
		change := StatCounter{now.User - was.User, now.System - was.System, now.Idle - was.Idle}
		sum = sum.plus(change)
		want := elapsed
		if !s.CPUs.Contains(cpu) {
			want = 0
		}
		if got := change.User + change.System + change.Idle; got != want || change.User < 0 || change.System < 0 || change.Idle < 0 {
			t.Fatalf("CPU %d changes by %+v in %v", cpu, change, elapsed)
		}
	}
	if got := (StatCounter{after.All.User - before.All.User, after.All.System - before.All.System, after.All.Idle - before.All.Idle}); got != sum {
		t.Fatalf("all CPUs change by %+v, the CPUs by %+v", got, sum)
	}
}

// TestStatUse: the lines show the CPU time that the container used, by CPU if the kernel reports that.
func TestStatUse(t *testing.T) {
	ms := time.Millisecond
	perCPU := func(parts ...time.Duration) []time.Duration { return parts }
	for name, test := range map[string]struct {
		samples []StatSample
		cpus    cpuset.Set
		want    map[string][3]int64 // user, system, idle in ticks
	}{
		"by CPU": {[]StatSample{
			{Time: 0, CPUs: cpuset.Of(1, 3), User: 500 * ms, PerCPU: perCPU(0, 300*ms, 0, 200*ms)},
			{Time: 1000 * ms, CPUs: cpuset.Of(1, 3), User: 1100 * ms, System: 600 * ms, PerCPU: perCPU(0, 1200*ms, 0, 500*ms)},
		}, cpuset.Of(1, 3), map[string][3]int64{"cpu": {60, 60, 81}, "cpu1": {45, 45, 11}, "cpu3": {15, 15, 71}}},
		"without numbers by CPU": {[]StatSample{
			{Time: 0, CPUs: cpuset.Of(1, 3)}, {Time: 1000 * ms, CPUs: cpuset.Of(1, 3), User: 900 * ms, System: 100 * ms},
		}, cpuset.Of(1, 3), map[string][3]int64{"cpu": {90, 10, 101}, "cpu1": {45, 5, 51}, "cpu3": {45, 5, 51}}},
		"another CPU": {[]StatSample{
			{Time: 0, CPUs: cpuset.Of(0), PerCPU: perCPU(0, 0)},
			{Time: 1000 * ms, CPUs: cpuset.Of(1), User: 800 * ms, PerCPU: perCPU(600*ms, 200*ms)},
		}, cpuset.Of(1), map[string][3]int64{"cpu": {80, 0, 21}, "cpu1": {80, 0, 21}}},
		"a CPU that comes back": {[]StatSample{
			{Time: 0, CPUs: cpuset.Of(0, 1)}, {Time: 1000 * ms, CPUs: cpuset.Of(0, 1), User: 2000 * ms}, {Time: 3000 * ms, CPUs: cpuset.Of(0), User: 2500 * ms},
			{Time: 4000 * ms, CPUs: cpuset.Of(0, 1), User: 2500 * ms},
		}, cpuset.Of(0, 1), map[string][3]int64{"cpu": {250, 0, 351}, "cpu0": {150, 0, 251}, "cpu1": {100, 0, 101}}},
		"more than the elapsed time": {[]StatSample{
			{Time: 0, CPUs: cpuset.Of(0)}, {Time: 1000 * ms, CPUs: cpuset.Of(0), User: 1030 * ms}, {Time: 2000 * ms, CPUs: cpuset.Of(0), User: 1130 * ms},
		}, cpuset.Of(0), map[string][3]int64{"cpu": {113, 0, 88}, "cpu0": {113, 0, 88}}},
		"another cgroup": {[]StatSample{
			{Time: 0, CPUs: cpuset.Of(0), User: time.Hour, PerCPU: perCPU(time.Hour)}, {Time: 1000 * ms, CPUs: cpuset.Of(0), User: 300 * ms, PerCPU: perCPU(300 * ms)},
		}, cpuset.Of(0), map[string][3]int64{"cpu": {30, 0, 71}, "cpu0": {30, 0, 71}}},
		"the clock stands still": {[]StatSample{
			{Time: 5000 * ms, CPUs: cpuset.Of(0)}, {Time: 4000 * ms, CPUs: cpuset.Of(0), User: 100 * ms}, {Time: 6000 * ms, CPUs: cpuset.Of(0), User: 100 * ms},
		}, cpuset.Of(0), map[string][3]int64{"cpu": {10, 0, 91}, "cpu0": {10, 0, 91}}},
		"no CPUs": {[]StatSample{{Time: 0, CPUs: cpuset.Of(0)}, {Time: 1000 * ms, User: time.Second}}, cpuset.Of(0), map[string][3]int64{"cpu": {0, 0, 1}, "cpu0": {0, 0, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			var c StatCounters
			for _, s := range test.samples {
				c.Update(s)
			}
			text := c.AppendStat(nil, test.cpus, 1764269400)
			lines, err := parseStatLines(text)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string][3]int64{}
			for _, line := range lines {
				if strings.HasPrefix(line.name, "cpu") {
					if len(line.numbers) != 10 {
						t.Errorf("%+v", line)
					}
					got[line.name] = [3]int64{line.numbers[0], line.numbers[2], line.numbers[3]}
				}
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %v, want %v:\n%s", got, test.want, text)
			}
		})
	}
}

// TestStatLayout: the text has the kernel's lines, and its numbers have constant offsets and end at multiples of 8 bytes.
func TestStatLayout(t *testing.T) {
	var c StatCounters
	cpus := cpuset.Of(0, 7, 31, 512)
	c.Update(StatSample{CPUs: cpus})
	first := c.AppendStat([]byte("x"), cpus, 1764269400)[1:]
	c.Update(StatSample{Time: 1e6 * time.Hour, CPUs: cpus, User: 1e6 * time.Hour, System: 1e6 * time.Hour})
	second := c.AppendStat(nil, cpus, 1764269400)
	if len(first) != len(second) {
		t.Errorf("%d bytes become %d", len(first), len(second))
	}
	for _, text := range [][]byte{first, second} {
		for i, line := range strings.SplitAfter(string(text), "\n")[:1+cpus.Count()] {
			start := strings.Index(string(text), line)
			for _, end := range []int{24, 32, 48, 64} {
				if i > 0 {
					end-- // the newline before the line is in the first word
				}
				if at := start + end; at%8 != 0 || line[end-1] == ' ' || line[end] != ' ' {
					t.Errorf("line %q: no number ends at byte %d of the file", line, at)
				}
			}
		}
	}
	var names []string
	lines, err := parseStatLines(second)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		names = append(names, line.name)
	}
	want := []string{"cpu", "cpu0", "cpu7", "cpu31", "cpu512", "intr", "ctxt", "btime", "processes", "procs_running", "procs_blocked", "softirq"}
	if !slices.Equal(names, want) {
		t.Errorf("lines %q, want %q", names, want)
	}
	if btime := lines[7].numbers; !slices.Equal(btime, []int64{1764269400}) {
		t.Errorf("btime %d", btime)
	}
}

// TestStatLateSample: a sample that is older than the last one changes nothing, and the counters go on after a reboot of the
// machine.
func TestStatLateSample(t *testing.T) {
	var c StatCounters
	at := func(now, used time.Duration) StatCounter {
		c.Update(StatSample{Time: now, CPUs: cpuset.Of(0), User: used})
		return c.CPUs[0]
	}
	at(time.Hour, 10*time.Second)
	want := at(time.Hour+2*time.Second, 11*time.Second)
	if got := at(time.Hour+time.Second, 10*time.Second+500*time.Millisecond); got != want {
		t.Errorf("after a late sample: %+v, want %+v", got, want)
	}
	want.User, want.Idle = want.User+time.Second, want.Idle+time.Second
	if got := at(time.Hour+4*time.Second, 12*time.Second); got != want {
		t.Errorf("after the next sample: %+v, want %+v", got, want)
	}
	if got := at(time.Minute, time.Second); got != want {
		t.Errorf("after a reboot: %+v, want %+v", got, want)
	}
	want.User, want.Idle = want.User+time.Second, want.Idle+2*time.Second
	if got := at(time.Minute+3*time.Second, 2*time.Second); got != want {
		t.Errorf("the first seconds after a reboot: %+v, want %+v", got, want)
	}
}

// FuzzResume: any stored counters and any shown text lead to counters that do not decrease and a text that parses.
func FuzzResume(f *testing.F) {
	f.Add([]byte("{}"), []byte("cpu  1 0 1 1\ncpu0 1 0 1 1\n"))
	f.Add([]byte(`{"time":5,"cpus":{"0":{"user":-1}},"all":{"idle":9223372036854775807}}`), []byte("cpu 92233720368547758 0 0 92233720368547758\n"))
	f.Add([]byte(`{"cpus":{"-1":{},"70000":{"idle":5}},"perCPU":[1,-2],"pendingUser":-1}`), []byte("cpu-1 1 1 1 1\ncpu99999999999999999999 1 1 1 1\ncpu"))
	f.Fuzz(func(t *testing.T, stored, shown []byte) {
		var c StatCounters
		if json.Unmarshal(stored, &c) != nil || !c.isValid() {
			c = StatCounters{}
		}
		c.Resume(shown)
		var last []statLine
		for i := range time.Duration(3) {
			c.Update(StatSample{Time: time.Hour + i*time.Second, CPUs: cpuset.Of(0, 1), User: i * time.Second, PerCPU: []time.Duration{i * time.Second, 0}})
			lines, err := parseStatLines(c.AppendStat(nil, cpuset.Of(0, 1), 1))
			if err != nil {
				t.Fatalf("%q, %q: %v", stored, shown, err)
			}
			for j, line := range last[:min(3, len(last))] {
				for k, n := range line.numbers {
					if lines[j].numbers[k] < n {
						t.Fatalf("%q, %q: %v after %v", stored, shown, lines[j], line)
					}
				}
			}
			last = lines
		}
	})
}
