package cgroup

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSetQuota: a temporary quota takes one write, up and down. Only cgroup v1 refuses a quota that exceeds the
// parent's.
func TestSetQuota(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	ms := time.Millisecond
	g, _ := group(t, tr, "web", Settings{CPUs: a, Quota: 50 * ms, Burst: 50 * ms}, "sleep")
	r := record(t, g.dirs()...)
	for i, quota := range []time.Duration{150 * ms, 150 * ms, 60 * ms, 50 * ms} {
		must(t, g.SetQuota(quota, 50*ms))
		if n, same := len(r.written(t)), i == 1; (n == 0) != same {
			t.Errorf("%v: %d writes", quota, n)
		}
		s, err := g.Settings()
		must(t, err)
		if s.Quota != quota || s.Burst != 50*ms || s.CPUs != a {
			t.Errorf("%v: %+v", quota, s)
		}
	}
	for _, c := range []struct{ quota, burst time.Duration }{{40 * ms, 40 * ms}, {ms, ms}, {50 * ms, 50 * ms}, {0, 0}, {50 * ms, 50 * ms}} {
		want := c.burst
		if c.quota == 0 {
			want = 50 * ms // without a quota, the kernel stores the burst and does not use it
		}
		must(t, g.SetQuota(c.quota, 50*ms))
		if s, err := g.Settings(); err != nil || s.Quota != c.quota || s.Burst != want {
			t.Errorf("quota %v: got %+v, %v, want the burst %v", c.quota, s, err, want)
		}
	}
	above := tr.EngineGroup("above", tr.parent)
	must(t, above.SetQuota(80*ms, 0))
	defer above.SetCPULimits(CPULimits{Weight: 1024})
	err := g.SetQuota(100*ms, 50*ms)
	if v1 := !tr.cpu.v2; v1 != errors.Is(err, unix.EINVAL) || !v1 && err != nil {
		t.Errorf("more than above: %v", err)
	}
}
