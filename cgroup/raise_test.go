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
		must(t, g.SetQuota(quota))
		if n, same := len(r.written(t)), i == 1; (n == 0) != same {
			t.Errorf("%v: %d writes", quota, n)
		}
		s, err := g.Settings()
		must(t, err)
		if s.Quota != quota || s.Burst != 50*ms || s.CPUs != a {
			t.Errorf("%v: %+v", quota, s)
		}
	}
	if err := g.SetQuota(40 * ms); !errors.Is(err, unix.EINVAL) {
		t.Errorf("below the burst: %v", err)
	}
	above := tr.EngineGroup("above", tr.parent)
	must(t, above.SetQuota(80*ms))
	defer above.SetCPULimits(CPULimits{Weight: 1024})
	err := g.SetQuota(100 * ms)
	if v1 := !tr.cpu.v2; v1 != errors.Is(err, unix.EINVAL) || !v1 && err != nil {
		t.Errorf("more than above: %v", err)
	}
}
