package containerd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// log returns the output of a container.
func (c *container) log() string {
	text, err := os.ReadFile(filepath.Join(c.path("logs"), c.name+".log"))
	if err != nil && !os.IsNotExist(err) {
		c.Fatal(err)
	}
	return string(text)
}

// waitLog waits for a line of a container.
func (c *container) waitLog(want string) {
	c.Helper()
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(c.log(), want); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.Fatalf("%s does not write %q: %s", c.name, want, c.log())
		}
	}
}

// TestHostileLease: root in a pod requests leases on its view. candor nri keeps the files open, so the kernel
// grants no lease. While the plugin is stopped, the kernel grants the leases. After its restart, the plugin
// starts other pods without delay, and ends the leases after the kernel's break time.
func TestHostileLease(t *testing.T) {
	const breakTime = "/proc/sys/fs/lease-break-time"
	before, err := os.ReadFile(breakTime)
	if err == nil {
		err = os.WriteFile(breakTime, []byte("1"), 0)
	}
	if err != nil {
		t.Skip(err)
	}
	defer os.WriteFile(breakTime, before, 0)
	for _, kind := range []string{"read", "write"} {
		t.Run(kind, func(t *testing.T) { testHostileLease(t, kind) })
	}
}

func testHostileLease(t *testing.T, kind string) {
	l := newLab(t)
	l.addAttack()
	evil := l.mustRun("evil", 500, "/bin/attack", "lease", kind)
	evil.waitLog("leases 0")
	l.startsOthers()
	if strings.Contains(evil.log(), "leases 1") || strings.Contains(evil.log(), "leases 2") {
		t.Errorf("a lease was granted while the plugin runs: %s", evil.log())
	}
	l.plugin.kill()
	evil.waitLog("leases 2")
	l.startPlugin()
	l.startsOthers()
	for deadline := time.Now().Add(time.Minute); !strings.HasSuffix(strings.TrimSpace(evil.log()), "leases 0"); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the plugin does not end the leases: %s", evil.log())
		}
		l.startsOthers() // each operation tries to open the files
	}
}

// mustRun starts a sensitive container in a pod of its own.
func (l *lab) mustRun(name string, limit hybrid.Milli, command ...string) *container {
	l.Helper()
	p, err := l.newPod(limit, limit, map[string]string{"candor.dev/class": "sensitive"})
	if err != nil {
		l.Fatal(err)
	}
	c, err := p.run(name, limit, limit, true, command...)
	if err != nil {
		l.Fatal(err)
	}
	return c
}

// startsOthers starts and ends a container, which must not take as long as a broken lease.
func (l *lab) startsOthers() {
	l.Helper()
	start := time.Now()
	c := l.mustRun("other", 300)
	if err := c.stop(); err != nil {
		l.Fatal(err)
	}
	if took := time.Since(start); took > 20*time.Second {
		l.Errorf("took %v", took)
	}
}
