package cluster

import (
	"testing"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// TestResized: a pod in a resize counts with the larger of its request and the amount in the node's report.
func TestResized(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	of := func(limit hybrid.Milli) *Pod { return pod(t, "web", sensitive("app", limit), flexible("log", 500)) }
	web := of(1000)
	create(t, agent, web)
	c.Report("n", 1, reportOf(t, agent), start)
	c.Bound("n", web, start)
	half, two := pod(t, "half", sensitive("app", 2500)), pod(t, "two", sensitive("app", 2000))
	wants(t, c, "n", half, "")

	c.Bound("n", of(1500), start) // the node does not know yet
	wants(t, c, "n", half, "no capacity (500m missing)")
	wants(t, c, "n", two, "")
	c.Report("n", 2, reportOf(t, agent), start)
	wants(t, c, "n", half, "no capacity (500m missing)")
	resize(t, agent, "web/app", 1500)
	c.Report("n", 3, reportOf(t, agent), start)
	wants(t, c, "n", half, "no capacity (500m missing)")
	if got := c.Totals(); got != (Totals{Reporting: 1}) {
		t.Errorf("%+v: what the report shows is still reserved", got)
	}
	c.Bound("n", of(1000), start)
	wants(t, c, "n", half, "no capacity (500m missing)")
	resize(t, agent, "web/app", 1000)
	c.Report("n", 4, reportOf(t, agent), start)
	wants(t, c, "n", half, "")
}

// TestResizeRefused: a resize that does not fit blocks no other pod, and a resize that its node refuses is dropped.
func TestResizeRefused(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	web := pod(t, "web", sensitive("app", 1000))
	create(t, agent, web)
	c.Report("n", 1, reportOf(t, agent), start)
	c.Bound("n", web, start)
	three := pod(t, "three", sensitive("app", 3000))
	c.Bound("n", pod(t, "web", sensitive("app", 8000)), start.Add(time.Minute))
	wants(t, c, "n", three, "")
	c.Bound("n", pod(t, "web", sensitive("app", 2000)), start.Add(2*time.Minute))
	wants(t, c, "n", three, "no capacity (1 CPU missing)")
	if gone := c.Expire(start.Add(patience + time.Minute)); gone != nil {
		t.Errorf("%+v: too early, and nobody is to be told", gone)
	}
	wants(t, c, "n", three, "no capacity (1 CPU missing)")
	if gone := c.Expire(start.Add(patience + 2*time.Minute + time.Second)); gone != nil {
		t.Errorf("%+v: its node shows it", gone)
	}
	wants(t, c, "n", three, "")
}

func resize(t *testing.T, n *hybrid.Node, id string, limit hybrid.Milli) {
	t.Helper()
	plan, err := n.PlanResize(id, limit, 0)
	if err == nil {
		err = n.Commit(plan)
	}
	if err != nil {
		t.Fatal(err)
	}
}
