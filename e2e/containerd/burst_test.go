package containerd

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// TestBurst: a burst annotation follows the quota through resizes by a runtime that does not support bursts.
// If a plugin raised a quota and was killed, the next plugin restores the quota at its start.
func TestBurst(t *testing.T) {
	l := newLab(t)
	p := must[*pod](t)(l.newPod(1000, 200, map[string]string{"candor.dev/burst": "auto", "burst.candor.dev/log": "20ms"}))
	web := must[*container](t)(p.run("web", 500, 100, false))
	log := must[*container](t)(p.run("log", 500, 100, false))
	burst := func(c *container, limit hybrid.Milli, want time.Duration) {
		t.Helper()
		quota := time.Duration(limit) * 100 * time.Microsecond
		if has, err := c.has(); err != nil || has.Quota != quota || has.Burst != want {
			t.Errorf("%s: quota %v, burst %v, %v; want %v, %v", c.name, has.Quota, has.Burst, err, quota, want)
		}
	}
	burst(web, 500, 50*time.Millisecond)
	burst(log, 500, 20*time.Millisecond)
	for _, limit := range []hybrid.Milli{300, 800, 100} {
		if err := web.resize(limit); err != nil {
			t.Fatal(err)
		}
		burst(web, limit, time.Duration(limit)*100*time.Microsecond)
	}
	l.plugin.kill()
	if err := web.group().SetQuota(30*time.Millisecond, 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	l.startPlugin()
	l.wait("its quota", l.plugin, func() bool { has, err := web.has(); return err == nil && has.Quota == 10*time.Millisecond })

	bad := must[*pod](t)(l.newPod(0, 0, map[string]string{"candor.dev/burst": "often"}))
	if _, err := bad.run("web", 500, 100, false); err == nil || !strings.Contains(err.Error(), "must be none, kernel, quota, auto") {
		t.Errorf("burst often: %v", err)
	}
	free := must[*pod](t)(l.newPod(0, 0, map[string]string{"candor.dev/burst": "auto"}))
	if _, err := free.run("web", 0, 100, false); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}

// TestBurstRaised: a container that was idle and is throttled gets a higher quota if its CPUs are idle, as in
// a guest. The plugin is killed then, and the next plugin restores the quota.
func TestBurstRaised(t *testing.T) {
	if os.Getenv("CANDOR_IN_GUEST") == "" {
		t.Skip("wants CPUs that are idle: runs in a guest of e2e/guest")
	}
	l := newLab(t)
	p := must[*pod](t)(l.newPod(500, 100, map[string]string{"candor.dev/burst": "quota"}))
	web := must[*container](t)(p.run("web", 500, 100, false, "busybox", "sh", "-c", "sleep 3; while :; do :; done"))
	const limit = 50 * time.Millisecond
	quota := func() time.Duration {
		has, err := web.has()
		if err != nil {
			t.Fatal(err)
		}
		return has.Quota
	}
	l.wait("a raised quota", l.plugin, func() bool { return quota() > limit })
	l.plugin.kill()
	l.startPlugin()
	l.wait("its own quota", l.plugin, func() bool { return quota() == limit })
}
