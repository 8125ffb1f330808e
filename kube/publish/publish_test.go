package publish

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/metrics"
)

// TestWritesAtMostOnceASecond: the publisher writes at most once a second, and always writes the last change.
// Without a change, it calls no API.
func TestWritesAtMostOnceASecond(t *testing.T) {
	inLab(t, func(l *lab) {
		for i := range 100 {
			l.change(i)
			l.after(50 * time.Millisecond)
		}
		l.after(interval)
		if l.grants() != 100 {
			t.Errorf("got %d grants, want 100", l.grants())
		}
		for i := 1; i < len(l.cluster.writes); i++ {
			if d := l.cluster.writes[i].Sub(l.cluster.writes[i-1]); d < interval {
				t.Errorf("write %d is %v after the write before, want at least %v", i, d, interval)
			}
		}
		writes, calls := len(l.cluster.writes), l.cluster.calls
		if writes < 5 || writes > 7 || int(l.cluster.object.Status.Counter) != writes || l.published != writes {
			t.Errorf("%d writes, counter %d, %d reported; want 5 to 7 of each", writes, l.cluster.object.Status.Counter, l.published)
		}
		for range 20 {
			l.Changed()
			l.after(interval)
		}
		if l.cluster.calls != calls || l.upToDate < writes+20 {
			t.Errorf("%d calls without a change, up to date %d times; want no call", l.cluster.calls-calls, l.upToDate)
		}
	})
}

// TestPollsForChanges: the publisher finds the changes of other candor processes by polling.
func TestPollsForChanges(t *testing.T) {
	inLab(t, func(l *lab) {
		l.change(1)
		<-l.changed // drop the notification
		l.after(checkInterval + interval)
		if l.grants() != 1 {
			t.Error("the publisher did not find the change")
		}
	})
}

// TestServerUnreachable: while the API server is unreachable, the publisher retries less often and logs a
// single line. When the server returns, the publisher writes the newest report.
func TestServerUnreachable(t *testing.T) {
	inLab(t, func(l *lab) {
		l.cluster.fault = errors.New("dial tcp: connection refused")
		l.change(1)
		l.after(10 * time.Minute)
		if calls := l.cluster.calls; calls < 10 || calls > 20 {
			t.Errorf("%d calls in 10 minutes, want 10 to 20", calls)
		}
		l.change(2)
		l.cluster.fault = nil
		l.after(maxWait + interval)
		if l.grants() != 2 || l.lines("not published") != 1 || l.lines("msg=published") != 2 || l.failed[metrics.Unreachable] < 9 {
			t.Errorf("%d grants, %v\n%s", l.grants(), l.failed, &l.log)
		}
		l.change(3)
		l.after(checkInterval)
		if l.grants() != 3 {
			t.Error("the next change is not published")
		}
	})
}

// TestReasons: the publisher logs each reason of a failure once, at the first failure.
func TestReasons(t *testing.T) {
	inLab(t, func(l *lab) {
		for reason, fault := range map[metrics.Reason]error{
			metrics.Forbidden: apierrors.NewForbidden(nodeCPUs, "node", errors.New("another node's")),
			metrics.Invalid:   apierrors.NewNotFound(nodeCPUs, "node"),
			metrics.Conflict:  apierrors.NewConflict(nodeCPUs, "node", errors.New("changed")),
		} {
			l.cluster.fault = fault
			l.change(100 + len(l.failed))
			l.after(5 * time.Minute)
			if l.failed[reason] < 3 {
				t.Errorf("%v: got failures %v, want at least 3 of %v", fault, l.failed, reason)
			}
		}
		l.unread = fmt.Errorf("%w: broken", errState)
		l.after(5 * time.Minute)
		if l.failed[metrics.BadState] < 3 || l.lines("not published") != 4 {
			t.Errorf("got failures %v, want a log line for each reason\n%s", l.failed, &l.log)
		}
	})
}

// TestForeignWriter: the publisher overwrites the change of a foreign writer, and continues the counter from
// the foreign value.
func TestForeignWriter(t *testing.T) {
	inLab(t, func(l *lab) {
		l.change(1)
		l.after(2 * interval)
		l.cluster.object.ResourceVersion, l.cluster.object.Status.Counter, l.cluster.object.Status.Grants = "77", 50, nil
		l.change(2)
		l.after(5 * interval)
		if l.grants() != 2 || l.cluster.object.Status.Counter != 51 || l.failed[metrics.Conflict] != 1 {
			t.Errorf("%d grants, counter %d, %v", l.grants(), l.cluster.object.Status.Counter, l.failed)
		}
	})
}

// TestRemoved: the publisher recreates a deleted object, even if the node has not changed.
func TestRemoved(t *testing.T) {
	inLab(t, func(l *lab) {
		l.change(1)
		l.after(2 * interval)
		l.cluster.object = nil
		l.after(readInterval + checkInterval + interval)
		if l.cluster.object == nil || l.grants() != 1 {
			t.Errorf("got %+v, want the object with a grant", l.cluster.object)
		}
	})
}

// TestResponseLost: the publisher does not repeat a write whose response was lost.
func TestResponseLost(t *testing.T) {
	inLab(t, func(l *lab) {
		l.after(2 * interval)
		l.cluster.lost = true
		l.change(1)
		l.after(interval)
		l.cluster.lost = false
		writes := len(l.cluster.writes)
		l.after(time.Minute)
		if got := len(l.cluster.writes); got != writes || l.grants() != 1 {
			t.Errorf("%d writes, want %d", got, writes)
		}
	})
}

// TestOlderCluster: if the cluster drops unknown fields, the publisher does not write the same report again.
func TestOlderCluster(t *testing.T) {
	inLab(t, func(l *lab) {
		l.cluster.older = true
		l.change(1)
		l.after(time.Minute)
		if got := len(l.cluster.writes); got != 2 || l.grants() != 1 {
			t.Errorf("got %d writes, want 2", got)
		}
	})
}

// TestAllocatable: if the Node's allocatable CPU differs from Candor's capacity, the publisher logs it once,
// and again after each change. It records an Event then, and every 30 minutes.
func TestAllocatable(t *testing.T) {
	inLab(t, func(l *lab) {
		for _, step := range []struct {
			cpu   hybrid.Milli
			lines int
		}{{0, 0}, {4000, 0}, {3500, 1}, {3500, 1}, {3000, 2}, {4000, 2}, {3000, 3}} {
			l.cluster.cpu = step.cpu
			l.after(readInterval + checkInterval)
			if got := l.lines("allocatable CPU differs"); got != step.lines {
				t.Errorf("allocatable %v: got %d lines, want %d\n%s", step.cpu, got, step.lines, &l.log)
			}
			if len(l.noted) != step.lines {
				t.Errorf("allocatable %v: got Events %v, want %d", step.cpu, l.noted, step.lines)
			}
		}
		l.after(70 * time.Minute)
		if n := len(l.noted); n != 5 || l.noted[n-1] != "CPUAllocatableDiffers" {
			t.Errorf("got Events %v, want 2 in the next 70 minutes", l.noted)
		}
	})
}
