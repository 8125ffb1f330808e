package cgroup

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
)

// TestWrites applies a series of settings and checks which files each change writes, and in which order.
func TestWrites(t *testing.T) {
	tr := tree(t)
	a, b := two(t, tr)
	ms := time.Millisecond
	g, _ := group(t, tr, "web", Settings{CPUs: a, Quota: 50 * ms, Burst: 20 * ms}, "sleep")
	r := record(t, g.dirs()...)
	v1 := !tr.cpu.v2
	either := func(onV1, onV2 string) string {
		if v1 {
			return onV1
		}
		return onV2
	}
	var (
		cpus   = "cpuset.cpus"
		weight = either("cpu.shares", "cpu.weight")
		quota  = either("cpu.cfs_quota_us", "cpu.max")
		burst  = either("cpu.cfs_burst_us", "cpu.max.burst")
		period = either("cpu.cfs_period_us", "cpu.max")
	)
	for _, step := range []struct {
		name string
		s    Settings
		want []string
	}{
		{"equal", Settings{CPUs: a, Quota: 50 * ms, Burst: 20 * ms}, nil},
		{"CPUs alone", Settings{CPUs: b, Quota: 50 * ms, Burst: 20 * ms}, []string{cpus}},
		{"weight alone", Settings{CPUs: b, Quota: 50 * ms, Burst: 20 * ms, Weight: 1500}, []string{weight}},
		{"quota below the burst", Settings{CPUs: b, Quota: 10 * ms, Burst: 5 * ms, Weight: 1500}, []string{burst, quota}},
		{"burst above the old quota", Settings{CPUs: b, Quota: 90 * ms, Burst: 80 * ms, Weight: 1500}, []string{quota, burst}},
		{"no quota", Settings{CPUs: b, Weight: 1500}, []string{burst, quota}},
		{"equal without quota", Settings{CPUs: b, Weight: 1500}, nil},
		{"period without quota", Settings{CPUs: b, Period: 40 * ms, Weight: 1500}, []string{period}},
		{"quota and period up", Settings{CPUs: b, Quota: 30 * ms, Period: 60 * ms, Weight: 1500}, []string{period, quota}},
		{"both down", Settings{CPUs: b, Quota: 10 * ms, Period: 20 * ms, Weight: 1500}, []string{quota, period}},
	} {
		must(t, g.Apply(step.s))
		same(t, g, step.s)
		want := slices.Compact(step.want) // v2 has quota and period in one file
		got := r.written(t)
		for i := range got {
			_, got[i], _ = strings.Cut(got[i], "/")
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: wrote %v, want %v", step.name, got, want)
		}
	}
	must(t, g.SetCPUs(b, cpuset.Set{}))
	if got := r.written(t); len(got) != 0 {
		t.Errorf("SetCPUs to the same: wrote %v", got)
	}
}

// TestBandwidthHistories applies random settings in sequence and checks that the kernel has them.
func TestBandwidthHistories(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	g, _ := group(t, tr, "web", Settings{CPUs: a}, "")
	rapid.Check(t, func(rt *rapid.T) {
		s := Settings{CPUs: a, Weight: 10 * rapid.IntRange(1, 5000).Draw(rt, "weight")}
		us := func(name string, low, high int) time.Duration {
			return time.Duration(rapid.IntRange(low, high).Draw(rt, name)) * time.Microsecond
		}
		s.Period = us("period", 1000, 1000000)
		if rapid.Bool().Draw(rt, "limited") {
			s.Quota = us("quota", 1000, 4000000)
			s.Burst = us("burst", 0, int(s.Quota/time.Microsecond))
		}
		if err := g.Apply(s); err != nil {
			rt.Fatal(err)
		}
		got, err := g.Settings()
		if got.Mems = s.Mems; err != nil || got.Quota != s.Quota || got.Period != s.Period || got.Burst != s.Burst || abs(got.Weight-s.Weight) > 5 {
			rt.Fatalf("the kernel has %+v, %v; want %+v", got, err, s)
		}
	})
}

func abs(n int) int { return max(n, -n) }

// nestLimit makes a group with the limit b below g in the cpu hierarchy and returns its directory.
func nestLimit(t testing.TB, g *Group, name string, b cfsBandwidth) string {
	t.Helper()
	h := g.tree.cpu
	if h.v2 {
		enable(t, g.dir(h), []string{"cpu"})
	}
	dir := g.dir(h) + "/" + name
	must(t, os.Mkdir(dir, 0o755))
	now, err := h.readCPU(dir)
	must(t, err)
	must(t, h.setCPU(dir, cpuState{b, now.weight}))
	return dir
}

// TestNestedLimits lowers and raises the limit of a group that contains limited groups. cgroup v1 refuses a
// quota below a nested quota, so the nested quotas change too; cgroup v2 accepts it.
func TestNestedLimits(t *testing.T) {
	tr := tree(t)
	a, b := two(t, tr)
	both := a.Union(b)
	ms := time.Millisecond
	g, _ := group(t, tr, "web", Settings{CPUs: both, Quota: 100 * ms}, "")
	whole := nestLimit(t, g, "whole", cfsBandwidth{50000, 50000, 7000}) // as much as the group, by another period
	half := nestLimit(t, g, "half", cfsBandwidth{50000, 100000, 0})
	tiny := nestLimit(t, g, "tiny", cfsBandwidth{1000, 2000, 0})
	open := nestLimit(t, g, "open", cfsBandwidth{noQuota, 100000, 0})
	if !tr.cpu.v2 {
		err := writeInt(g.dir(tr.cpu), quotaV1, 10000)
		if !errors.Is(err, unix.EINVAL) {
			t.Errorf("the parent first: %v, want EINVAL", err)
		}
	}
	has := func(dir string) cfsBandwidth {
		s, err := tr.cpu.readCPU(dir)
		must(t, err)
		return s.cfsBandwidth
	}
	check := func(step string, v1, v2 map[string]cfsBandwidth) {
		t.Helper()
		want := v1
		if tr.cpu.v2 {
			want = v2
		}
		for dir, b := range want {
			if got := has(dir); got != b {
				t.Errorf("%s: %s has %+v, want %+v", step, dir, got, b)
			}
		}
	}
	asBefore := map[string]cfsBandwidth{whole: {50000, 50000, 7000}, half: {50000, 100000, 0}, tiny: {1000, 2000, 0}, open: {noQuota, 100000, 0}}

	must(t, g.Apply(Settings{CPUs: both, Quota: 10 * ms}))
	check("10 %", map[string]cfsBandwidth{whole: {5000, 50000, 5000}, half: {10000, 100000, 0}, tiny: {1000, 10000, 0}, open: {noQuota, 100000, 0}}, asBefore)
	must(t, g.Apply(Settings{CPUs: both, Quota: 80 * ms}))
	check("80 %", map[string]cfsBandwidth{whole: {40000, 50000, 5000}, half: {80000, 100000, 0}, open: {noQuota, 100000, 0}}, asBefore)
	// Quota and period change, but their ratio does not: no intermediate step may raise or lower the ratio.
	must(t, g.Apply(Settings{CPUs: both, Quota: 160 * ms, Period: 200 * ms}))
	check("longer period", map[string]cfsBandwidth{whole: {40000, 50000, 5000}}, asBefore)
	must(t, g.Apply(Settings{CPUs: both, Quota: 16 * ms, Period: 20 * ms}))
	check("shorter period", map[string]cfsBandwidth{whole: {40000, 50000, 5000}}, asBefore)
	must(t, g.Apply(Settings{CPUs: both}))
	if got := has(open); got.quota != noQuota {
		t.Errorf("no limit: %+v", got)
	}
}

// TestLimitedParent limits Candor's parent group. cgroup v1 refuses a higher limit below the parent, and the
// earlier settings of the group stay in force.
func TestLimitedParent(t *testing.T) {
	tr := tree(t)
	a, b := two(t, tr)
	ms := time.Millisecond
	old := Settings{CPUs: a, Quota: 50 * ms, Burst: 10 * ms}
	g, _ := group(t, tr, "web", old, "")
	now, err := tr.cpu.readCPU(tr.cpu.parent)
	must(t, err)
	must(t, tr.cpu.setCPU(tr.cpu.parent, cpuState{cfsBandwidth{50000, 100000, 0}, now.weight}))
	must(t, g.Apply(Settings{CPUs: a, Quota: 100 * ms, Period: 200 * ms, Burst: 10 * ms})) // the same ratio
	must(t, g.Apply(old))
	more := Settings{CPUs: b, Quota: 60 * ms, Burst: 60 * ms}
	err = g.Apply(more)
	if tr.cpu.v2 {
		must(t, err)
		same(t, g, more)
		return
	}
	var refused *WriteError
	if !errors.As(err, &refused) || refused.Err != unix.EINVAL || refused.Value != "60000" || !strings.HasSuffix(refused.File, "/web/cpu.cfs_quota_us") {
		t.Errorf("%v; want a WriteError for the quota", err)
	}
	same(t, g, old)
}
