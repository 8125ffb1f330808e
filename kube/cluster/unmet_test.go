package cluster

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/hybrid"
)

// stuck returns a cluster with a node of 64 CPUs on which a pod of 16 CPUs was placed before a foreign container took all but 14 CPUs and
// the CPU time of a fraction. The pod is bound, and its node has not accepted it yet.
func stuck(t testing.TB, o hybrid.Options) (c *Cluster, agent *hybrid.Node, big *Pod) {
	t.Helper()
	c, agent = New(patience), newNode(t, "pack:2 numa:1 core:32", o)
	c.Report("n", 10, reportOf(t, agent), start)
	big = pod(t, "big", sensitive("app", 16000))
	reserve(t, c, "n", big)
	bound := pod(t, "big", sensitive("app", 16000))
	c.Bound("n", bound, start)
	create(t, agent, pod(t, "foreign", sensitive("app", 49200)))
	c.Report("n", 20, reportOf(t, agent), start)
	if got := c.Totals(); got != (Totals{Reporting: 1, Reserved: 1, Blocked: 1}) {
		t.Fatalf("%+v: want a pod without room", got)
	}
	return c, agent, big
}

// accepted returns a pod as it is after its kubelet has accepted it.
func accepted(t testing.TB, p *Pod, version uint64, failed bool) *Pod {
	t.Helper()
	q := pod(t, p.UID, p.containers...)
	q.Accepted, q.Failed = version, failed
	return q
}

// TestOnlyClaimedCPUsWait: beside a pod that does not fit, other pods are placed on CPUs that the pod does not wait
// for.
func TestOnlyClaimedCPUsWait(t *testing.T) {
	c, agent, _ := stuck(t, hybrid.Options{})
	best := sensitive("app", 700)
	best.Request.Policy = hybrid.BestEffort
	none := Container{Name: "app", Request: hybrid.Request{Class: hybrid.Flexible, Guarantee: hybrid.NoGuarantee}}
	for _, test := range []struct {
		pod    *Pod
		reason string
	}{
		{pod(t, "none", none), ""},
		{pod(t, "flexible", flexible("app", 500)), ""},
		{pod(t, "flexibles", flexible("app", 300), flexible("log", 400)), ""},
		{pod(t, "best", best), ""},
		{pod(t, "fraction", sensitive("app", 700)), ""},
		{pod(t, "whole", sensitive("app", 1000)), "CPUs are reserved for pods that cannot start yet"},
		{pod(t, "mixed", flexible("log", 100), sensitive("app", 2000)), "CPUs are reserved for pods that cannot start yet"},
		{pod(t, "time", flexible("app", 1500)), "CPUs are reserved for pods that cannot start yet"},
		{pod(t, "more", sensitive("app", 15000)), "no capacity (14200m missing)"},
		{pod(t, "never", sensitive("app", 65000)), "no capacity (64200m missing)"},
	} {
		wants(t, c, "n", test.pod, test.reason)
		if rank := c.Rank("n", test.pod, Amounts{Memory: 1 << 30, FreeMemory: 1 << 30}); (rank == WorstRank) != (test.reason != "") {
			t.Errorf("%s: rank %d", test.pod.UID, rank)
		}
		if r := c.Trial("n").Fits(test.pod, map[string]bool{"big": true}); (r == nil) != (test.reason == "") {
			t.Errorf("%s in a trial: %v, want %q", test.pod.UID, r, test.reason)
		}
	}
	reserve(t, c, "n", pod(t, "flexible", flexible("app", 500)))
	wants(t, c, "n", pod(t, "second", flexible("app", 400)), "CPUs are reserved for pods that cannot start yet")
	end(t, agent, pod(t, "foreign", sensitive("app", 49200)))
	c.Report("n", 21, reportOf(t, agent), start)
	if got := c.Totals(); got.Reserved != 2 || got.Blocked != 0 {
		t.Errorf("%+v: there is room for all", got)
	}
	wants(t, c, "n", pod(t, "whole", sensitive("app", 1000)), "")
}

// TestUnmet: a reservation ends as soon as its node knows the pod and a later report has no room for it, and not
// before.
func TestUnmet(t *testing.T) {
	whole := pod(t, "whole", sensitive("app", 2000))
	for name, test := range map[string]struct {
		then  func(c *Cluster, agent *hybrid.Node, big *Pod)
		unmet bool
	}{
		"the node has not accepted the pod": {func(c *Cluster, agent *hybrid.Node, _ *Pod) {
			c.Report("n", 30, reportOf(t, agent), start)
		}, false},
		"the report is older than the acceptance": {func(c *Cluster, _ *hybrid.Node, big *Pod) {
			c.Bound("n", accepted(t, big, 25, false), start)
		}, false},
		"the report is newer than the acceptance": {func(c *Cluster, agent *hybrid.Node, big *Pod) {
			c.Bound("n", accepted(t, big, 25, false), start)
			c.Report("n", 30, reportOf(t, agent), start)
			c.Bound("n", accepted(t, big, 35, false), start) // each later version of the pod is accepted too
		}, true},
		"the report came first": {func(c *Cluster, _ *hybrid.Node, big *Pod) {
			c.Bound("n", accepted(t, big, 15, false), start)
		}, true},
		"the node failed to create the container": {func(c *Cluster, _ *hybrid.Node, big *Pod) {
			c.Bound("n", accepted(t, big, 25, true), start)
		}, true},
		"the next attempt was made": {func(c *Cluster, _ *hybrid.Node, big *Pod) {
			c.Bound("n", accepted(t, big, 25, true), start)
			c.Bound("n", accepted(t, big, 26, false), start)
		}, false},
		"there is room": {func(c *Cluster, agent *hybrid.Node, big *Pod) {
			end(t, agent, pod(t, "foreign", sensitive("app", 49200)))
			c.Bound("n", accepted(t, big, 25, true), start)
			c.Report("n", 30, reportOf(t, agent), start)
		}, false},
		"the pod is gone": {func(c *Cluster, agent *hybrid.Node, big *Pod) {
			c.Bound("n", accepted(t, big, 25, true), start)
			c.Forget("big")
			c.Report("n", 30, reportOf(t, agent), start)
		}, false},
		"the node's report is gone": {func(c *Cluster, _ *hybrid.Node, big *Pod) {
			c.Bound("n", accepted(t, big, 25, true), start)
			c.NoReport("n", 30, Gone)
		}, false},
		"the pod that took the CPUs is gone, and its containers are not": {func(c *Cluster, agent *hybrid.Node, big *Pod) {
			c.Bound("n", pod(t, "foreign", sensitive("app", 49200)), start)
			c.Forget("foreign")
			c.Bound("n", accepted(t, big, 25, true), start)
			c.Report("n", 30, reportOf(t, agent), start)
		}, false},
		"an init container has the CPUs": {func(c *Cluster, agent *hybrid.Node, big *Pod) {
			c.Bound("n", pod(t, "foreign", passing(sensitive("app", 49200)), flexible("log", 100)), start)
			c.Bound("n", accepted(t, big, 25, true), start)
			c.Report("n", 30, reportOf(t, agent), start)
		}, false},
	} {
		c, agent, big := stuck(t, hybrid.Options{MinShared: 500})
		test.then(c, agent, big)
		gone := c.Expire(start)
		if !test.unmet {
			if gone != nil {
				t.Errorf("%s: %+v", name, gone)
			}
			continue
		}
		if len(gone) != 1 || gone[0].Pod.UID != "big" || gone[0].Node != "n" || !gone[0].Ours || gone[0].Unmet == nil || gone[0].Unmet.Reason != "no capacity (1700m missing)" {
			t.Errorf("%s: %+v: want that of big", name, gone)
			continue
		}
		wants(t, c, "n", whole, "")
		if again := c.Expire(start); again != nil || c.Totals() != (Totals{Reporting: 1}) {
			t.Errorf("%s: again: %+v, %+v", name, again, c.Totals())
		}
		c.Bound("n", accepted(t, big, 40, true), start) // its kubelet goes on trying
		wants(t, c, "n", whole, "")
		end(t, agent, pod(t, "foreign", sensitive("app", 49200)))
		create(t, agent, big) // and succeeds
		c.Report("n", 50, reportOf(t, agent), start)
		wants(t, c, "n", pod(t, "rest", sensitive("app", 47500)), "")
		wants(t, c, "n", pod(t, "much", sensitive("app", 48000)), "no capacity (500m missing)")
		c.Report("n", 51, newNode(t, "pack:2 numa:1 core:32", hybrid.Options{MinShared: 500}), start) // the node has been started again
		wants(t, c, "n", pod(t, "much", sensitive("app", 48000)), "no capacity (500m missing)")
	}
}

// TestUnmetOfOthers: reservations of other schedulers, and of pods that are not bound, last until they expire.
func TestUnmetOfOthers(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	c.Report("n", 1, reportOf(t, agent), start)
	low, high := pod(t, "low", sensitive("app", 3000)), pod(t, "high", sensitive("app", 2000))
	c.Bound("n", low, start)
	create(t, agent, low)
	c.Report("n", 2, reportOf(t, agent), start)
	c.HoldFor("n", high, nil, start)
	other := pod(t, "other", sensitive("app", 4000))
	other.Accepted, other.Failed = 1, true
	c.Bound("n", other, start)
	c.Report("n", 3, reportOf(t, agent), start)
	if gone := c.Expire(start.Add(time.Minute)); gone != nil || c.HeldOn("high") != "n" {
		t.Errorf("%+v", gone)
	}
}

// TestMissedIsNotUnmet: a container that a report lacks after a reboot of its node has time until the next report.
func TestMissedIsNotUnmet(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	c.Report("n", 1, reportOf(t, agent), start)
	web := pod(t, "web", sensitive("app", 3000))
	reserve(t, c, "n", web)
	create(t, agent, web)
	c.Bound("n", accepted(t, web, 2, false), start)
	c.Report("n", 3, reportOf(t, agent), start)
	end(t, agent, web)
	create(t, agent, pod(t, "foreign", sensitive("app", 2000))) // it was faster
	c.Report("n", 4, reportOf(t, agent), start)
	if gone := c.Expire(start); gone != nil {
		t.Errorf("%+v: too early", gone)
	}
	c.AcceptAnyVersion("n") // the cluster was restored from a backup
	c.Report("n", 3, reportOf(t, agent), start)
	if gone := c.Expire(start); len(gone) != 1 || gone[0].Unmet == nil {
		t.Errorf("%+v: want web", gone)
	}
}

// TestHeldIsNotUnmet: CPUs held for a pod that is not bound do not count against a bound pod.
func TestHeldIsNotUnmet(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	low, high := pod(t, "low", sensitive("app", 2000)), pod(t, "high", sensitive("app", 3000))
	c.Bound("n", low, start)
	create(t, agent, low)
	c.Report("n", 1, reportOf(t, agent), start)
	c.Forget("low")
	if r := c.HoldFor("n", high, nil, start); r != errAwaitingReport {
		t.Fatal(r)
	}
	web := pod(t, "web", sensitive("app", 3000)) // placed before this scheduler was started
	web.Planned, web.Accepted, web.Failed = true, 1, true
	c.Bound("n", web, start)
	if got := c.Totals(); got.Blocked != 1 {
		t.Fatalf("%+v", got)
	}
	if gone := c.Expire(start); gone != nil {
		t.Errorf("%+v: there is room when low has left", gone)
	}
}

// TestClaimStays: a pod placed beside a blocked pod does not reduce the CPUs that the blocked pod could have at once.
func TestClaimStays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		options := hybrid.Options{MinShared: hybrid.Milli(rapid.SampledFrom([]int{0, 300}).Draw(rt, "minShared"))}
		c, agent := New(patience), newNode(t, "numa:2 core:4 pu:2", options)
		c.Report("n", 1, reportOf(t, agent), start)
		w := &world{t: t, rt: rt}
		var big *Pod
		for big == nil {
			if p := w.draw(rt); c.Fits("n", p) == nil {
				big = p
			}
		}
		reserve(t, c, "n", big)
		c.Bound("n", big, start)
		for range 20 {
			r := w.draw(rt).containers[0].Request
			_, _, _ = agent.Place(&r)
		}
		c.Report("n", 2, reportOf(t, agent), start)
		n := c.lookup("n")
		if !n.isBlocked() {
			rt.Skip("there is room")
		}
		before := claimed(n, big)
		for range 6 {
			p := w.draw(rt)
			fits := c.Fits("n", p)
			if fits == errWaiting && mustFit(n, p) != nil {
				rt.Fatalf("%v waits, and has no room without the claims either", p.Lasting())
			}
			if _, refusal := c.Reserve("n", p, start); (refusal == nil) != (fits == nil) {
				rt.Fatalf("Fits returns %v, Reserve %v", fits, refusal)
			}
			n.rebuild()
			if now := claimed(n, big); now < before {
				rt.Fatalf("%v left, %v before", now, before)
			}
		}
	})
}

// claimed returns the CPU time on a node that is claimed for a blocked pod.
func claimed(n *node, p *Pod) (sum hybrid.Milli) {
	for _, r := range p.Lasting() {
		if g, ok := n.current.Grant(r.ID); ok {
			sum += g.Guaranteed()
		}
	}
	return sum
}

func mustFit(n *node, p *Pod) *Refusal {
	_, refusal := quoteAll(n.unclaimed, p)
	return refusal
}
