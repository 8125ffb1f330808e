package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestResizeNotifies: a resize changes the CPUs and the view of a running program, then notifies it.
func TestResizeNotifies(t *testing.T) {
	l := newLab(t)
	l.need(2)
	n := l.start([]string{"--cpu", "0.5", "--name", "web", "--on-resize", "signal:HUP"}, "signals")
	out := l.ok("resize", "web", "--cpu", "1500m")
	if !strings.Contains(out, "web: limit 500m, CPU ") || !strings.Contains(out, "-> limit 1500m, CPUs ") || !strings.Contains(out, "notified by signal") {
		t.Errorf("got %q", out)
	}
	if got := n.line(t); got != "hangup 2 2 2" {
		t.Errorf("the program prints %q, want hangup, and 2 CPUs by affinity, sysfs and procfs", got)
	}
	r := l.inspect("web", "--during", "0")
	if r.CPUs.Count() != 2 || r.Exclusive.Count() != 1 || r.Group.QuotaSeconds != 0.15 || r.Shown != r.CPUs {
		t.Errorf("%+v", r)
	}
	l.ok("resize", "web", "--cpu", "1")
	if got := n.line(t); got != "hangup 1 1 1" {
		t.Errorf("the program prints %q", got)
	}
	if r := l.inspect("web", "--during", "0"); r.Group.QuotaSeconds != 0 || r.Exclusive.Count() != 1 {
		t.Errorf("a whole CPU of its own needs no quota: %+v", r)
	}
	n.cmd.Process.Signal(unix.SIGTERM)
	n.end()
	l.empty()
}

// TestResizeExecutes: the command of --on-resize gets the new size in its environment.
func TestResizeExecutes(t *testing.T) {
	l := newLab(t)
	l.need(2)
	command := `exec:echo "$CANDOR_NAME has $CANDOR_LIMIT: $CANDOR_CPU_COUNT, $CANDOR_PID"`
	l.start([]string{"--cpu", "0.5", "--name", "web", "--on-resize", command}, "sleep")
	pid := l.ps()["web"].PID
	out := l.ok("resize", "web", "--cpu", "1500m")
	if want := fmt.Sprintf("web has 1500m: 2, %d\n", pid); !strings.HasPrefix(out, want) {
		t.Errorf("got %q, want %q first", out, want)
	}
	l.start([]string{"--cpu", "0.2", "--name", "bad", "--on-resize", "exec:exit 3"}, "sleep")
	got := do(t, l.candor("resize", "bad", "--cpu", "0.3"))
	if got.code != 1 || !strings.Contains(got.err, "has its new size") || strings.Count(got.err, "\n") != 1 {
		t.Errorf("a command that fails: %+v", got)
	}
	if r := l.ps()["bad"]; r.Limit != 300 {
		t.Errorf("%+v", r)
	}
}

// TestInspectStrangers: candor inspect shows foreign processes on exclusive CPUs; this test uses the time of
// such a CPU.
func TestInspectStrangers(t *testing.T) {
	l := newLab(t)
	l.start([]string{"--cpu", "1", "--name", "web"}, "sleep")
	own := l.ps()["web"].Exclusive
	cpu := own.First()
	var mask unix.CPUSet
	mask.Set(cpu)
	stop := make(chan struct{})
	defer close(stop)
	go withAffinity(t, &mask, func() {
		for {
			select {
			case <-stop:
				return
			default: //nolint:staticcheck // it uses the CPU on purpose
			}
		}
	})
	// On a busy machine the burner gets a part of the CPU only, as its other strangers do.
	deadline := time.Now().Add(time.Minute)
	for {
		strangers := l.inspect("web", "--during", "300ms").Strangers
		if len(strangers) == 1 && strangers[0].CPUs == own && strangers[0].Milli > 300 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("strangers on CPU %d: %v", cpu, strangers)
		}
	}
}

// TestTables: ps and inspect print tables with the settings of the containers.
func TestTables(t *testing.T) {
	l := newLab(t)
	l.need(2)
	l.start([]string{"--cpu", "1500m", "--name", "web"}, "sleep")
	l.start([]string{"--class", "flexible", "--name", "log"}, "sleep")
	for _, want := range []string{"NAME ", "web ", "sensitive", "1500m", "(500m of ", "running", "log ", "flexible"} {
		if out := l.ok("ps"); !strings.Contains(out, want) {
			t.Errorf("ps lacks %q:\n%s", want, out)
		}
	}
	for _, want := range []string{" 1500m\n", " prefer\n", "1 process\n", "exclusive: ", "quota 150ms per 100ms", "throttled", "cpu (the program sees: cpu)\n"} {
		if out := l.ok("inspect", "web"); !strings.Contains(out, want) {
			t.Errorf("inspect lacks %q:\n%s", want, out)
		}
	}
}
