package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// TestReservationLifetime: a reservation takes its CPUs at once. It ends when a report contains the pod, when
// the pod is deleted, or when the reservation expires.
func TestReservationLifetime(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	c.Report("n", 1, reportOf(t, agent), start)
	web, big := pod(t, "web", sensitive("app", 2500)), pod(t, "big", sensitive("app", 2000))
	if g := reserve(t, c, "n", web); len(g) != 1 || g[0].CPUs.Count() != 3 {
		t.Errorf("granted %+v, want 3 CPUs", g)
	}
	const refused = "no capacity (500m missing)"
	wantRefusal(t, c, "n", big, refused)
	c.Report("n", 2, reportOf(t, agent), start) // still without web
	wantRefusal(t, c, "n", big, refused)
	create(t, agent, web)
	c.Report("n", 3, reportOf(t, agent), start)
	wantRefusal(t, c, "n", big, refused)
	if got := c.Totals(); got != (Totals{Reporting: 1}) {
		t.Errorf("got %+v, want no reservation for a reported pod", got)
	}
	c.Forget("web") // the node still runs its containers
	wantRefusal(t, c, "n", big, refused)
	end(t, agent, web)
	c.Report("n", 4, reportOf(t, agent), start)
	wantRefusal(t, c, "n", big, "")

	reserve(t, c, "n", web)
	wantRefusal(t, c, "n", big, refused)
	c.Forget("web") // deleted before its binding
	wantRefusal(t, c, "n", big, "")

	reserve(t, c, "n", web)
	if gone := c.Expire(start.Add(patience)); gone != nil {
		t.Errorf("expired before the timeout: %+v", gone)
	}
	if gone := c.Expire(start.Add(patience + time.Second)); len(gone) != 1 || gone[0].Pod != web || !gone[0].Ours {
		t.Errorf("expired: got %+v, want web", gone)
	}
	wantRefusal(t, c, "n", big, "")
	c.Bound("n", web, start.Add(patience)) // a repeated event changes nothing
	wantRefusal(t, c, "n", big, "")
}

// TestBoundPodsCount: bound pods count like reserved pods, also pods from before a restart or from other
// schedulers.
func TestBoundPodsCount(t *testing.T) {
	c := New(patience)
	web, big := pod(t, "web", sensitive("app", 3000)), pod(t, "big", sensitive("app", 2000))
	c.Bound("n", web, start) // pods can arrive before the node's first report
	if gone := c.Expire(start.Add(time.Hour)); gone != nil {
		t.Errorf("expired without a report of the node: %+v", gone)
	}
	c.Report("n", 1, newNode(t, "core:4", hybrid.Options{}), start.Add(time.Hour))
	wantRefusal(t, c, "n", big, "no capacity (1 CPU missing)")
	if gone := c.Expire(start.Add(time.Hour + patience/2)); gone != nil {
		t.Errorf("expired: %+v; the timeout starts with the node's first report", gone)
	}
	c.Bound("n", pod(t, "web", sensitive("app", 2000)), start) // resized before its creation on the node
	wantRefusal(t, c, "n", big, "")
	c.Forget("web")
	wantRefusal(t, c, "n", pod(t, "all", sensitive("app", 4000)), "")
}

func TestRefusals(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:8", hybrid.Options{MinShared: 500})
	for _, uid := range []string{"a", "b", "c", "d", "e", "f"} {
		create(t, agent, pod(t, uid, sensitive("app", 600)))
	}
	c.Report("n", 1, agent, start)
	c.Report("two", 1, newNode(t, "numa:2 core:4", hybrid.Options{}), start)
	c.NoReport("bad", 1, Unusable)
	strict := func(limit hybrid.Milli) *Pod { return pod(t, "p", sensitive("app", limit)) }
	numa := sensitive("app", 5000)
	numa.Request.Topology = hybrid.SingleNUMA
	flexibleNUMA := flexible("app", 100)
	flexibleNUMA.Request.Topology = hybrid.SingleNUMA
	best := sensitive("app", 2000)
	best.Request.Policy = hybrid.BestEffort
	for _, test := range []struct {
		node, want string
		pod        *Pod
		final      bool
	}{
		{"n", "no capacity (1100m missing)", strict(5000), false},
		{"n", "no capacity (4100m missing)", strict(8000), true},
		{"n", "view impossible (1 whole CPU missing)", strict(3000), false},
		{"n", "fraction does not fit (500m)", strict(2500), false},
		{"n", "container app: view impossible (1 whole CPU missing)", pod(t, "p", sensitive("one", 1000), sensitive("app", 2000)), false},
		{"two", "view impossible (topology policy single-numa)", pod(t, "p", numa), true},
		{"n", "", strict(1000), false},
		{"other", "no Candor on node", strict(100), true},
		{"other", "no Candor on node", pod(t, "p", flexibleNUMA), true},
		{"other", "", pod(t, "p", best), false},
		{"other", "", pod(t, "p", flexible("app", 100)), false},
		{"bad", "report of node cannot be used", strict(100), true},
		{"bad", "", pod(t, "p", flexible("app", 100)), false},
	} {
		wantRefusal(t, c, test.node, test.pod, test.want)
		if r := c.Fits(test.node, test.pod); r != nil && r.Final != test.final {
			t.Errorf("%s: got final %v, want %v", r.Reason, r.Final, test.final)
		}
	}
}

// TestBlocked: a static pod takes the reserved CPUs of another pod. The blocked pod then claims the remaining
// CPUs, and other pods do not get them.
func TestBlocked(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	c.Report("n", 1, reportOf(t, agent), start)
	web, small := pod(t, "web", sensitive("app", 3000)), pod(t, "small", sensitive("app", 1000))
	reserve(t, c, "n", web)
	wantRefusal(t, c, "n", small, "")
	create(t, agent, pod(t, "static", sensitive("app", 2000))) // placed by the node, not the scheduler
	c.Report("n", 2, reportOf(t, agent), start)
	wantRefusal(t, c, "n", small, "CPUs are reserved for pods that cannot start yet")
	if got := c.Totals(); got != (Totals{Reporting: 1, Reserved: 1, Blocked: 1}) {
		t.Errorf("%+v", got)
	}
	c.Forget("web")
	wantRefusal(t, c, "n", small, "")
}

// TestInitContainers: an init container runs beside earlier sidecars, and releases its CPUs to later
// containers, as on the node.
func TestInitContainers(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	c.Report("n", 1, reportOf(t, agent), start)
	wantRefusal(t, c, "n", pod(t, "p", initContainer(sensitive("init", 4000)), sensitive("app", 4000)), "")
	wantRefusal(t, c, "n", pod(t, "p", sensitive("sidecar", 1000), initContainer(sensitive("init", 4000)), sensitive("app", 1000)),
		"container init: no capacity (1 CPU missing)")
	p := pod(t, "p", initContainer(sensitive("init", 4000)), sensitive("app", 3000))
	reserve(t, c, "n", p)
	wantRefusal(t, c, "n", pod(t, "q", sensitive("app", 1000)), "")
	if _, _, err := agent.Place(&p.containers[0].Request); err != nil {
		t.Fatal(err)
	}
	c.Report("n", 2, reportOf(t, agent), start) // the init container runs
	wantRefusal(t, c, "n", pod(t, "q", sensitive("app", 1000)), "")
	wantRefusal(t, c, "n", pod(t, "r", sensitive("app", 1500)), "no capacity (500m missing)")
}

// TestReportsInOrder: late and repeated reports change nothing. A node whose report is deleted takes no pods
// until a newer report.
func TestReportsInOrder(t *testing.T) {
	c := New(patience)
	full := newNode(t, "core:4", hybrid.Options{})
	create(t, full, pod(t, "web", sensitive("app", 4000)))
	p := pod(t, "p", sensitive("app", 1000))
	c.Report("n", 7, full, start)
	c.Report("n", 6, newNode(t, "core:4", hybrid.Options{}), start)
	c.Report("n", 7, newNode(t, "core:4", hybrid.Options{}), start)
	wantRefusal(t, c, "n", p, "no capacity (1 CPU missing)")
	c.NoReport("n", 8, Gone)
	c.Report("n", 8, newNode(t, "core:4", hybrid.Options{}), start)
	wantRefusal(t, c, "n", p, "no Candor on node")
	c.Report("n", 9, newNode(t, "numa:2 core:4", hybrid.Options{}), start) // another machine under the same name
	wantRefusal(t, c, "n", pod(t, "p", sensitive("app", 8000)), "")
	if v := c.Version("n"); v != 9 {
		t.Errorf("version %d, want 9", v)
	}
}

// TestReportHelps: a report helps a refused pod if it differs from the previous report and the pod now fits.
func TestReportHelps(t *testing.T) {
	c := New(patience)
	agent, web := newNode(t, "core:4", hybrid.Options{}), pod(t, "web", sensitive("app", 3000))
	create(t, agent, web)
	big, small := pod(t, "big", sensitive("app", 2000)), pod(t, "small", sensitive("app", 500))
	step := func(version uint64, wantBig, wantSmall bool) {
		t.Helper()
		c.Report("n", version, reportOf(t, agent), start)
		if b, s := c.FitsAfterReport("n", version-1, big), c.FitsAfterReport("n", version-1, small); b != wantBig || s != wantSmall {
			t.Errorf("report %d: helps big %v, small %v; want %v, %v", version, b, s, wantBig, wantSmall)
		}
	}
	step(1, false, true)
	step(2, false, false) // no change; small has fitted before, so another plugin refused it
	end(t, agent, web)
	step(3, true, true)
	if c.FitsAfterReport("nowhere", 1, big) {
		t.Error("an unknown node helps")
	}
}

// TestTrial: a trial tells whether a pod fits on a node without some of its pods. While the report still
// contains a deleted pod, no other pod is preempted.
func TestTrial(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	low1, low2, high := pod(t, "low1", sensitive("app", 1600)), pod(t, "low2", sensitive("app", 1600)), pod(t, "high", sensitive("app", 2000))
	for _, low := range []*Pod{low1, low2} {
		c.Bound("n", low, start)
		create(t, agent, low)
	}
	c.Report("n", 1, reportOf(t, agent), start)
	both, one := map[string]bool{"low1": true, "low2": true}, map[string]bool{"low1": true}
	full := c.Trial("n")
	other := full.Clone()
	other.Remove("low1")
	if full.Fits(high, both) == nil || other.Fits(high, both) != nil {
		t.Errorf("with all: %v, without low1: %v", full.Fits(high, both), other.Fits(high, both))
	}
	if r := other.Fits(high, one); r != errAwaitingReport {
		t.Errorf("got %v, want to wait for the report: low2 is deleted, so low1 need not be preempted", r)
	}
	other.Add(high)
	if other.Fits(low1, both) == nil {
		t.Error("low1 fits beside high")
	}
	c.Forget("low2") // its deletion arrives
	wantRefusal(t, c, "n", high, "no capacity (1200m missing)")
	gone := c.Trial("n")
	gone.Remove("low1")
	if r := gone.Fits(high, one); r != errAwaitingReport || c.HoldFor("n", high, one, start) != errAwaitingReport {
		t.Errorf("got %v, want to wait for the report: low2 is deleted, so low1 need not be preempted", r)
	}
	end(t, agent, low2)
	create(t, agent, pod(t, "static", sensitive("app", 1600)))
	c.Report("n", 2, reportOf(t, agent), start)
	if r := c.Trial("n").Fits(high, one); r == nil || r == errAwaitingReport || c.HoldFor("n", high, one, start) != nil {
		t.Errorf("got %v, want a refusal: a static pod took the CPUs of low2", r)
	}
}

func TestInvalidPods(t *testing.T) {
	for want, container := range map[string]Container{
		"container app: limit 5m: must be 10m to 1024 CPUs":                                sensitive("app", 5),
		"container app: a sensitive container needs a limit: its view is as large as that": sensitive("app", 0),
		"container app: limit 2000000m: must be 10m to 1024 CPUs":                          sensitive("app", 2_000_000),
		"container app: guarantee 200m is above the limit 100m":                            {Name: "app", Request: hybrid.Request{Class: hybrid.Flexible, Limit: 100, Guarantee: 200}},
	} {
		if _, err := NewPod("u", "default", "p", 0, []Container{container}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
