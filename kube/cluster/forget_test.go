package cluster

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// TestSweep: Sweep removes exactly the nodes that do not exist and have no report, pod or reservation.
func TestSweep(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	low, high := pod(t, "low", sensitive("app", 3000)), pod(t, "high", sensitive("app", 2000))
	create(t, agent, low)
	exists := map[string]bool{"queried": true}
	sweep := func() { c.Sweep(func(name string) bool { return exists[name] }) }
	wantNodes := func(step string, want ...string) {
		t.Helper()
		if got := strings.Join(keys(c.nodes), " "); got != strings.Join(want, " ") {
			t.Errorf("%s: got nodes %q, want %q", step, got, want)
		}
	}
	c.NodeRef("queried", Amounts{})
	c.NodeRef("gone", Amounts{})
	c.Report("reports", 7, reportOf(t, agent), start)
	c.NoReport("unusable", 7, Unusable)
	c.NoReport("new", 7, NotYet)
	c.Bound("bound", pod(t, "web", sensitive("app", 1000)), start)
	c.Report("held", 7, reportOf(t, agent), start)
	c.Bound("held", low, start)
	if r := c.HoldFor("held", high, nil, start); r != errAwaitingReport {
		t.Fatal(r)
	}
	sweep()
	wantNodes("all but one in use", "bound", "held", "new", "queried", "reports", "unusable")
	for _, name := range []string{"held", "new", "reports", "unusable"} {
		c.NoReport(name, 6, Gone) // a late event with an older version
	}
	c.Forget("low")
	sweep()
	wantNodes("after late events", "bound", "held", "new", "queried", "reports", "unusable")
	for _, name := range []string{"held", "new", "reports", "unusable"} {
		c.NoReport(name, 8, Gone)
	}
	sweep()
	wantNodes("reports deleted", "bound", "queried")
	if c.HeldOn("high") != "" {
		t.Error("CPUs are held on a removed node")
	}
	c.Forget("web")
	exists["queried"] = false
	sweep()
	wantNodes("all deleted")
	if len(c.pods) != 0 {
		t.Errorf("%d pods remain, want none", len(c.pods))
	}
	c.Report("reports", 3, newNode(t, "core:4", hybrid.Options{}), start) // another machine with the same name
	wantRefusal(t, c, "reports", high, "")
}

// TestRefOfRemovedNode: the NodeRef of a removed node refers to the next node of the same name.
func TestRefOfRemovedNode(t *testing.T) {
	c := New(patience)
	web := pod(t, "web", sensitive("app", 2000))
	ref := c.NodeRef("n", Amounts{CPU: 4000, FreeCPU: 4000})
	var caches ResultCaches
	rank := func() bool {
		_, isKnown := caches.For(web, 1).bound(0, &ref, web)
		return isKnown && caches.For(web, 1).ranks[0].rank != WorstRank
	}
	for i := range 3 {
		if rank() {
			t.Errorf("round %d: the pod fits on a node without a report", i)
		}
		c.Report("n", uint64(10*i+1), newNode(t, "core:4", hybrid.Options{}), start)
		if !rank() {
			t.Errorf("round %d: the pod does not fit on a node with a report", i)
		}
		c.NoReport("n", uint64(10*i+2), Gone)
		c.Sweep(func(string) bool { return false })
	}
}

// TestRewind: objects have lower versions after a restore of etcd. After AcceptAnyVersion, the cluster
// accepts a report with a lower version.
func TestRewind(t *testing.T) {
	c := New(patience)
	full, free := newNode(t, "core:4", hybrid.Options{}), newNode(t, "core:4", hybrid.Options{})
	create(t, full, pod(t, "web", sensitive("app", 4000)))
	p := pod(t, "p", sensitive("app", 1000))
	c.Report("n", 900, full, start)
	c.Report("n", 500, free, start)
	wantRefusal(t, c, "n", p, "no capacity (1 CPU missing)")
	if got := c.Versions(); len(got) != 1 || got["n"] != 900 {
		t.Errorf("got versions %v, want 900", got)
	}
	c.AcceptAnyVersion("n")
	c.AcceptAnyVersion("nowhere")
	c.Report("n", 500, free, start)
	wantRefusal(t, c, "n", p, "")
	if !c.FitsAfterReport("n", 0, p) {
		t.Error("the report wakes no waiting pod")
	}
	c.Report("n", 501, reportOf(t, full), start)
	wantRefusal(t, c, "n", p, "no capacity (1 CPU missing)")
	c.NoReport("n", 502, Former)
	wantRefusal(t, c, "n", p, "report is of a former node")
	c.NoReport("n", 503, Gone)
	if got := c.Versions(); len(got) != 0 {
		t.Errorf("got versions %v, want none", got)
	}
}

// TestHeldWithoutReport: CPUs that are held for a pod are released after the timeout, even if the report of
// the node is deleted.
func TestHeldWithoutReport(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	low, high := pod(t, "low", sensitive("app", 3000)), pod(t, "high", sensitive("app", 2000))
	c.Bound("n", low, start)
	create(t, agent, low)
	c.Report("n", 1, reportOf(t, agent), start)
	if r := c.HoldFor("n", high, nil, start); r != errAwaitingReport {
		t.Fatal(r)
	}
	c.NoReport("n", 2, Gone)
	if gone := c.Expire(start.Add(patience + time.Second)); len(gone) != 1 || !gone[0].Held || len(c.pods) != 1 {
		t.Errorf("expired: got %+v, %d pods; want the held CPUs of high", gone, len(c.pods))
	}
}

// TestHeapAfterManyNodes adds and removes 100,000 nodes with reports and pods, as an autoscaler does. The
// heap must not grow.
func TestHeapAfterManyNodes(t *testing.T) {
	c, agent := New(patience), newNode(t, "core:4", hybrid.Options{})
	web := pod(t, "web", sensitive("app", 1500))
	create(t, agent, web)
	rng := rand.New(rand.NewPCG(1, 2))
	version := uint64(0)
	wave := func(count int) {
		names := make([]string, count)
		for i := range names {
			names[i] = fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal-%08x", rng.IntN(256), rng.IntN(256), rng.Uint32())
			version++
			c.NodeRef(names[i], Amounts{CPU: 4000, FreeCPU: 4000})
			c.Report(names[i], version, copyOf(agent, nil), start)
			p := pod(t, fmt.Sprint("web-", version), sensitive("app", 1500))
			reserve(t, c, names[i], p)
			c.Bound(names[i], p, start)
		}
		c.Expire(start)
		for i, name := range names {
			c.Forget(fmt.Sprint("web-", version-uint64(count-1-i)))
			c.NoReport(name, version, Gone)
		}
		c.Sweep(func(string) bool { return false })
	}
	wave(1000)
	before := inUse()
	for range 100 {
		wave(1000)
	}
	if got := len(c.nodes) + len(c.pods) + len(c.Versions()); got != 0 {
		t.Errorf("%d nodes and pods remain, want none", got)
	}
	if after := inUse(); after > before+64<<10 {
		t.Errorf("heap of %.0f bytes, %.0f before: want no growth", after, before)
	} else {
		t.Logf("heap of %.0f bytes, %.0f before", after, before)
	}
	runtime.KeepAlive(c)
}
