package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestParseUsage(t *testing.T) {
	us := time.Microsecond
	for text, want := range map[string]Usage{
		"": {},
		"nr_periods 7\nnr_throttled 3\nthrottled_time 5000\nnr_bursts 2\nburst_time 9\n":                                                                                        {Periods: 7, Throttled: 3, ThrottledTime: 5 * us, Bursts: 2, BurstTime: 9},
		"usage_usec 123\nuser_usec 100\nsystem_usec 23\nnice_usec 0\ncore_sched.force_idle_usec 0\nnr_periods 1\nnr_throttled 1\nthrottled_usec 4\nnr_bursts 0\nburst_usec 6\n": {CPU: 123 * us, Periods: 1, Throttled: 1, ThrottledTime: 4 * us, BurstTime: 6 * us},
		"throttled_usec 18446744073709551615\n": {ThrottledTime: 1<<63 - 1},
	} {
		if got, err := parseUsage([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"nr_periods", "nr_periods x\n", "nr_periods -1\n", "\n", "nr_periods 1 2\n", "nr_periods 99999999999999999999\n"} {
		if got, err := parseUsage([]byte(text)); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

// TestUsageReader: the counters of a throttled group grow, read by name and by path, until the group is
// removed.
func TestUsageReader(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	g, _ := group(t, tr, "web", Settings{CPUs: a, Quota: 5 * time.Millisecond}, "spin")
	r, err := tr.OpenUsage("web")
	must(t, err)
	t.Cleanup(r.Close)
	first, err := r.Read()
	must(t, err)
	eventually(t, "CPU time, periods and throttled periods grow", func() bool {
		now, err := r.Read()
		must(t, err)
		return now.CPU > first.CPU && now.Periods > first.Periods+1 && now.Throttled > first.Throttled && now.ThrottledTime > first.ThrottledTime
	})
	before, err := r.Read()
	must(t, err)
	byPath, err := tr.ReadUsage(tr.parent + "/web")
	must(t, err)
	after, err := tr.ReadUsage("web")
	must(t, err)
	if byPath.CPU < before.CPU || byPath.CPU > after.CPU || byPath.Periods < before.Periods || byPath.Periods > after.Periods {
		t.Errorf("by path %+v: want between %+v and %+v", byPath, before, after)
	}
	must(t, g.Kill(syscall.SIGKILL))
	must(t, g.Remove())
	if got, err := r.Read(); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, ErrNoGroup) || got != (Usage{}) {
		t.Errorf("after the group's end: %+v, %v", got, err)
	}
}

// TestUsageMissingGroup: to read the usage of a missing group or of an invalid name is an error.
func TestUsageMissingGroup(t *testing.T) {
	tr := tree(t)
	for _, missing := range []string{"web", "/no-such-group/web"} {
		if _, err := tr.ReadUsage(missing); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, ErrNoGroup) {
			t.Errorf("%s: %v", missing, err)
		}
	}
	for _, bad := range []string{"", "a/b", "/", "/a/../b", "cpu.max"} {
		if _, err := tr.OpenUsage(bad); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestUsageFiles: OpenUsage fails for a group that is missing in a hierarchy, and leaves no file open.
func TestUsageFiles(t *testing.T) {
	tr := tree(t)
	if tr.acct == nil || tr.acct == tr.cpu {
		t.Skip("needs cpu and cpuacct mounted apart")
	}
	a, _ := two(t, tr)
	g, _ := group(t, tr, "web", Settings{CPUs: a}, "")
	must(t, os.Remove(g.dir(tr.acct)))
	before := openFileCount(t)
	if _, err := tr.OpenUsage("web"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half a group: %v", err)
	}
	if after := openFileCount(t); after != before {
		t.Errorf("%d open files, before %d", after, before)
	}
}

func openFileCount(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}

func BenchmarkUsageReader(b *testing.B) {
	tr := tree(b)
	cpus, _ := two(b, tr)
	group(b, tr, "web", Settings{CPUs: cpus}, "")
	r, err := tr.OpenUsage("web")
	must(b, err)
	defer r.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Read(); err != nil {
			b.Fatal(err)
		}
	}
}
