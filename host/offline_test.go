package host

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
)

// setOnline takes a CPU of the machine offline, or brings it back.
func setOnline(t *testing.T, cpu int, online bool) {
	t.Helper()
	value := "0"
	if online {
		value = "1"
	}
	if err := os.WriteFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", cpu), []byte(value), 0); err != nil {
		t.Fatal(err)
	}
}

// A CPU that goes offline is replaced. If no other CPU is free, the container continues on its remaining CPUs and is
// reported as degraded. It gets the CPU back when it returns.
func TestCPUOffline(t *testing.T) {
	if os.Getenv("CANDOR_IN_GUEST") == "" {
		t.Skip("takes CPUs offline: in guests only")
	}
	l := newLab(t)
	usable := l.needCPUs(8)
	l.must(flexible("log", "0.6"), "wait")
	l.must(ask("web", "2"), "wait")
	l.must(ask("db", "1.5"), "wait")
	lose := func(name string) int {
		t.Helper()
		s, err := l.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		g, _ := s.Grant(name)
		cpu := g.CPUs.Last()
		setOnline(t, cpu, false)
		t.Cleanup(func() { setOnline(t, cpu, true) })
		return cpu
	}

	first := lose("web")
	l.nudge()
	l.check("log", "web", "db")
	s, _ := l.Snapshot()
	web, _ := s.Grant("web")
	if web.CPUs.Count() != 2 || web.CPUs.Contains(first) || !web.Lost.IsEmpty() {
		t.Errorf("CPU %d went, and web has %v, lost %v", first, web.CPUs, web.Lost)
	}

	// web needs 2 CPUs, db 2 CPUs for its 1.5, and log another CPU. big gets the rest.
	rest := len(usable) - 1 - 2 - 2 - 1
	l.must(ask("big", itoa(rest)), "wait")
	second := lose("web")
	before := web.CPUs
	l.nudge()
	if !strings.Contains(l.log.String(), "degraded") {
		t.Errorf("not logged: %s", l.log)
	}
	s, _ = l.Snapshot()
	web, _ = s.Grant("web")
	if web.Lost != cpuset.Of(second) || web.CPUs.Count() != 1 {
		t.Errorf("web has %v, lost %v", web.CPUs, web.Lost)
	}
	if _, _, err := l.Resize(ctx, "db", 1200, 0); err != nil {
		t.Errorf("the others cannot go on: %v", err)
	}

	setOnline(t, second, true)
	l.nudge()
	l.check("log", "web", "db", "big")
	s, _ = l.Snapshot()
	if web, _ = s.Grant("web"); web.CPUs != before || !web.Lost.IsEmpty() {
		t.Errorf("CPU %d came back, and web has %v, lost %v", second, web.CPUs, web.Lost)
	}
}
