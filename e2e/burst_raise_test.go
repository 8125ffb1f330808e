package e2e

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestBurstRaised: in a guest the CPUs are idle, so candor raises the quota of a container that has saved
// time. If candor is killed meanwhile, the next operation restores the quota.
func TestBurstRaised(t *testing.T) {
	if os.Getenv("CANDOR_IN_GUEST") == "" {
		t.Skip("wants CPUs that are idle: runs in the guests of e2e/guest")
	}
	l := newLab(t)
	const base = 50 * time.Millisecond
	run := l.launch(l.candor("run", "--class", "flexible", "--cpu", "0.5", "--burst", "quota", "--name", "web", "--",
		os.Getenv("CANDOR_BIN"), "load", "--work", "500ms", "--threads", "2", "--rest", "2s", "--duration", "10m"))
	quota := func() time.Duration {
		has, err := l.tree.Group("web").CPULimits()
		if err != nil {
			return base // not yet
		}
		return has.Quota
	}
	for end := time.Now().Add(time.Minute); quota() <= base; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not raised in a minute")
		}
	}
	run.cmd.Process.Kill()
	run.end()
	left := quota()
	next := do(t, l.candor(append([]string{"run", "--class", "flexible"}, play("exit", "0")...)...))
	if got := quota(); got != base || next.code != 0 || left > base && !strings.Contains(next.err, "differ from the grant") {
		t.Errorf("quota %v, left at %v by a candor that was killed; the next operation: %+v", got, left, next)
	}
	l.ok("release", "web", "--kill")
}
