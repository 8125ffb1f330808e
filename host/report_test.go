package host

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
)

// Every operation that got the lock is reported, with the changes that it found.
func TestReport(t *testing.T) {
	l := newLab(t)
	cpus := l.needCPUs(2)
	var reports []Report
	l.listener = func(r Report) { reports = append(reports, r) }
	last := func(drift int, failed bool) {
		t.Helper()
		if len(reports) != 1 {
			t.Fatalf("%d reports of one operation", len(reports))
		}
		r := reports[0]
		if r.Drift != drift || r.Failed != failed || r.Moves != 0 || r.Wait <= 0 || r.Read <= 0 || r.Plan <= 0 || r.Apply <= 0 {
			t.Errorf("reported %+v; want drift %d, failed %v, all of its times", r, drift, failed)
		}
		reports = nil
	}
	web := l.must(ask("web", "1"), "wait")
	last(0, false)
	if _, err := l.start(ask("big", "1024"), "wait"); err == nil {
		t.Fatal("not refused")
	}
	last(0, false) // a refusal is no failure: there was nothing to apply
	if err := l.tree.Group("web").SetCPUs(cpuset.Of(cpus[0], cpus[1]), cpuset.Set{}); err != nil {
		t.Fatal(err)
	}
	l.nudge()
	if len(reports) == 1 && (len(reports[0].Repairs) != 1 || reports[0].Repairs[0].ID != "web" ||
		reports[0].Repairs[0].Change != fmt.Sprintf("had CPUs %v, and has CPUs %d again", cpuset.Of(cpus[0], cpus[1]), cpus[0])) {
		t.Errorf("repairs %+v", reports[0].Repairs)
	}
	last(1, false)
	l.nudge()
	last(0, false)
	web.stop()
}

// An operation that timed out on the lock is reported too.
func TestReportLate(t *testing.T) {
	l := newLab(t)
	l.nudge()
	held, err := takeLock(ctx, l.store.LockFile(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer held.release()
	var reports []Report
	l.listener = func(r Report) { reports = append(reports, r) }
	l.lockTimeout = 10 * time.Millisecond
	if err := l.Reconcile(ctx); err == nil {
		t.Fatal("it did not wait")
	}
	if len(reports) != 1 || !reports[0].Late || !reflect.DeepEqual(reports[0], Report{Wait: reports[0].Wait, Late: true}) || reports[0].Wait < l.lockTimeout {
		t.Errorf("reported %+v", reports)
	}
}

// ReadUsage takes no lock, and reports an ended container with a distinct error.
func TestRead(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	web := l.must(ask("web", "1"), "spin")
	r, err := l.ReadUsage(web.Grant)
	if err != nil || r.CPUs != web.CPUs || r.Observation.View != "" || r.Observation.IsHidden {
		t.Errorf("%+v, %v; want the CPUs %v, and no view: none is mounted here", r, err, web.CPUs)
	}
	web.stop()
	if _, err := l.ReadUsage(web.Grant); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without processes: %v", err)
	}
	if err := l.Release(ctx, "web", true); err != nil {
		t.Fatal(err)
	}
	if _, err := l.ReadUsage(web.Grant); !errors.Is(err, cgroup.ErrNoGroup) {
		t.Errorf("after its end: %v", err)
	}
}

// A move is a fraction of a running container on another CPU, except by the container's own resize.
func TestCountMoves(t *testing.T) {
	grant := func(state state.Phase, limit hybrid.Milli, cpu int) *Grant {
		g := Grant{State: state}
		g.ID, g.Limit, g.Class, g.Fractions = "web", limit, hybrid.Sensitive, []hybrid.Fraction{{CPU: cpu, Milli: 500}}
		return &g
	}
	for _, test := range []struct {
		name   string
		before []*Grant
		after  *Grant
		want   int
	}{
		{"moved", []*Grant{grant(Running, 1500, 1)}, grant(Running, 1500, 2), 1},
		{"stays", []*Grant{grant(Running, 1500, 1)}, grant(Running, 1500, 1), 0},
		{"resized", []*Grant{grant(Running, 1500, 1)}, grant(Running, 2500, 2), 0},
		{"starts again", []*Grant{grant(Held, 1500, 1)}, grant(Pending, 1500, 2), 0},
		{"begins", nil, grant(Pending, 1500, 2), 0},
	} {
		op := &operation{before: state.ByName(test.before)}
		if got := op.countMoves([]*Grant{test.after}); got != test.want {
			t.Errorf("%s: %d moves, want %d", test.name, got, test.want)
		}
	}
}
