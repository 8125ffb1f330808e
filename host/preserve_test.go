package host

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
)

// usable returns the CPUs that containers can have now.
func (l *lab) usable() cpuset.Set {
	l.Helper()
	s, err := l.Snapshot()
	if err != nil {
		l.Fatal(err)
	}
	return s.Node.Usable()
}

// No other container gets preserved CPUs while their process lives.
func TestPreserve(t *testing.T) {
	l := newLab(t)
	cpus := l.needCPUs(2)
	log := l.must(flexible("log", "0"), "wait")
	own := l.must(flexible("own", "0"), "wait")
	first := cpuset.Of(cpus[0])
	if err := l.Preserve(ctx, "kept", first, own.Main.PID); err != nil {
		t.Fatal(err)
	}
	l.check("log", "own")
	if has, _ := l.tree.Group("log").Settings(); has.CPUs.Overlaps(&first) || log.CPUs.Count() != len(cpus) {
		t.Errorf("log has %v beside the preserved %v; had %v", has.CPUs, first, log.CPUs)
	}
	own.stop()
	l.nudge()
	if got := l.usable(); got.Count() != len(cpus) {
		t.Errorf("after its end %v are usable", got)
	}
	if err := l.EndPreserve(ctx, "kept"); err != nil {
		t.Fatal(err)
	}
}

// Preserving exclusive CPUs, or all CPUs, is refused.
func TestPreserveRefused(t *testing.T) {
	l := newLab(t)
	cpus := l.needCPUs(2)
	web := l.must(ask("web", "1"), "wait")
	if err := l.Preserve(ctx, "own", web.CPUs, os.Getpid()); !errors.Is(err, ErrBadSpec) {
		t.Errorf("web's own CPU: %v", err)
	}
	if err := l.Preserve(ctx, "own", cpuset.Of(cpus...), os.Getpid()); !errors.Is(err, ErrBadSpec) {
		t.Errorf("all CPUs: %v", err)
	}
	err := l.Preserve(ctx, "own", cpuset.Range(cpuset.Max-2, cpuset.Max-1), os.Getpid())
	if !errors.Is(err, ErrBadSpec) || !strings.Contains(err.Error(), "bad request: the machine does not have CPUs 1022-1023; use CPUs of ") {
		t.Errorf("CPUs that the machine does not have: %v", err)
	}
	web.stop()
	if err := l.Release(ctx, "web", false); err != nil {
		t.Fatal(err)
	}
	err = l.Preserve(ctx, "own", cpuset.Range(0, cpuset.Max-1), os.Getpid())
	if want := fmt.Sprintf("bad request: CPUs %v of %v would count as reserved, and no CPU would remain", cpuset.Of(cpus...), cpuset.Of(cpus...)); !errors.Is(err, ErrBadSpec) || !strings.Contains(err.Error(), want) {
		t.Errorf("all CPUs: %v, want %s", err, want)
	}
	if got := l.usable(); got.Count() != len(cpus) {
		t.Errorf("refused, and %v are usable", got)
	}
	l.check()
}

// The event of an attempt's end arrives after the start of the next attempt.
func TestEndPreserveOfPredecessor(t *testing.T) {
	l := newLab(t)
	cpus := l.needCPUs(2)
	own := l.must(flexible("own", "0"), "wait")
	if err := l.Preserve(ctx, "kept", cpuset.Of(cpus[0]), own.Main.PID); err != nil {
		t.Fatal(err)
	}
	if err := l.EndPreserve(ctx, "kept"); err != nil {
		t.Fatal(err)
	}
	if got := l.usable(); got.Contains(cpus[0]) {
		t.Errorf("its process lives, and %v are usable", got)
	}
	own.stop()
	if err := l.EndPreserve(ctx, "kept"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(l.store.PreservedFile("kept")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after its end its file: %v", err)
	}
}

// A sensitive container keeps the CPU of its fraction too.
func TestPreserveLeavesFractions(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	web := l.must(ask("web", "0.5"), "wait")
	if err := l.Preserve(ctx, "kept", web.CPUs, os.Getpid()); !errors.Is(err, ErrBadSpec) {
		t.Errorf("the CPU of web's fraction: %v", err)
	}
	l.check("web")
}

// CPUs that conflict with the options are refused and not stored: they would stop every operation.
func TestPreserveAgainstOptions(t *testing.T) {
	l := newLab(t)
	cpus := l.needCPUs(2)
	if err := SaveOptions(l.config, NodeOptions{MinShared: Amount(1000 * len(cpus))}); err != nil {
		t.Fatal(err)
	}
	if err := l.Preserve(ctx, "kept", cpuset.Of(cpus[0]), os.Getpid()); !errors.Is(err, ErrBadSpec) {
		t.Errorf("no room for minShared: %v", err)
	}
	l.nudge()
}
