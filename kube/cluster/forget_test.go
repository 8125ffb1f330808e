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

// TestSweep: the sweep removes exactly the nodes without report, pods and reservations.
func TestSweep(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	low, high := pod(t, "low", sensitive("app", 3000)), pod(t, "high", sensitive("app", 2000))
	create(t, agent, low)
	exists := map[string]bool{"asked": true}
	sweep := func() { c.Sweep(func(name string) bool { return exists[name] }) }
	left := func(step string, want ...string) {
		t.Helper()
		if got := strings.Join(keys(c.nodes), " "); got != strings.Join(want, " ") {
			t.Errorf("%s: left %q, want %q", step, got, want)
		}
	}
	c.NodeRef("asked", Amounts{})
	c.NodeRef("gone", Amounts{})
	c.Report("reports", 7, reportOf(t, agent), start)
	c.NoReport("spoilt", 7, Unusable)
	c.NoReport("new", 7, NotYet)
	c.Bound("bound", pod(t, "web", sensitive("app", 1000)), start)
	c.Report("held", 7, reportOf(t, agent), start)
	c.Bound("held", low, start)
	if r := c.HoldFor("held", high, nil, start); r != errAwaitingReport {
		t.Fatal(r)
	}
	sweep()
	left("all exist but one", "asked", "bound", "held", "new", "reports", "spoilt")
	for _, name := range []string{"held", "new", "reports", "spoilt"} {
		c.NoReport(name, 6, Gone) // late: an older one
	}
	c.Forget("low")
	sweep()
	left("late", "asked", "bound", "held", "new", "reports", "spoilt")
	for _, name := range []string{"held", "new", "reports", "spoilt"} {
		c.NoReport(name, 8, Gone)
	}
	sweep()
	left("gone", "asked", "bound")
	if c.HeldOn("high") != "" {
		t.Error("room is held on a node that is gone")
	}
	c.Forget("web")
	exists["asked"] = false
	sweep()
	left("last")
	if len(c.pods) != 0 {
		t.Errorf("%d pods left", len(c.pods))
	}
	c.Report("reports", 3, newNode(t, "core:4", hybrid.Options{}), start) // another machine of that name
	wants(t, c, "reports", high, "")
}

// TestSeatOfForgottenNode: the seat of a removed node follows the next node of the same name.
func TestSeatOfForgottenNode(t *testing.T) {
	c := New(patience)
	web := pod(t, "web", sensitive("app", 2000))
	seat := c.NodeRef("n", Amounts{CPU: 4000, FreeCPU: 4000})
	var crowds ResultCaches
	rank := func() bool {
		_, isKnown := crowds.For(web, 1).bound(0, &seat, web)
		return isKnown && crowds.For(web, 1).ranks[0].rank != WorstRank
	}
	for i := range 3 {
		if rank() {
			t.Errorf("%d: fits on a node without a report", i)
		}
		c.Report("n", uint64(10*i+1), newNode(t, "core:4", hybrid.Options{}), start)
		if !rank() {
			t.Errorf("%d: does not fit on a node that has reported", i)
		}
		c.NoReport("n", uint64(10*i+2), Gone)
		c.Sweep(func(string) bool { return false })
	}
}

// TestRewind: versions are lower after a restore of the cluster. The cluster accepts the report of the current object.
func TestRewind(t *testing.T) {
	c := New(patience)
	full, free := newNode(t, "core:4", hybrid.Options{}), newNode(t, "core:4", hybrid.Options{})
	create(t, full, pod(t, "web", sensitive("app", 4000)))
	p := pod(t, "p", sensitive("app", 1000))
	c.Report("n", 900, full, start)
	c.Report("n", 500, free, start)
	wants(t, c, "n", p, "no capacity (1 CPU missing)")
	if got := c.Versions(); len(got) != 1 || got["n"] != 900 {
		t.Errorf("%v", got)
	}
	c.AcceptAnyVersion("n")
	c.AcceptAnyVersion("nowhere")
	c.Report("n", 500, free, start)
	wants(t, c, "n", p, "")
	if !c.FitsAfterReport("n", 0, p) {
		t.Error("no waiting pod is woken by the report")
	}
	c.Report("n", 501, reportOf(t, full), start)
	wants(t, c, "n", p, "no capacity (1 CPU missing)")
	c.NoReport("n", 502, Former)
	wants(t, c, "n", p, "report is of a former node")
	c.NoReport("n", 503, Gone)
	if got := c.Versions(); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// TestHeldWithoutReport: CPUs that are held for a pod that never returns are released, also without a report of the
// node.
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
		t.Errorf("%+v, %d pods", gone, len(c.pods))
	}
}

// TestHeapAfterManyNodes: 100,000 nodes with reports and pods come and go, as with an autoscaler, and the heap is as
// large as before.
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
		t.Errorf("%d nodes and pods left", got)
	}
	if after := inUse(); after > before+64<<10 {
		t.Errorf("heap of %.0f bytes, %.0f before: want no growth", after, before)
	} else {
		t.Logf("heap of %.0f bytes, %.0f before", after, before)
	}
	runtime.KeepAlive(c)
}
