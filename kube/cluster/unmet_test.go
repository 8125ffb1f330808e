package cluster

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/hybrid"
)

// stuck returns a cluster with a node of 64 CPUs. The pod big of 16 CPUs is bound to the node but not
// accepted yet. Then a foreign container of 49.2 CPUs takes a part of its CPUs.
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
		t.Fatalf("got %+v, want a blocked pod", got)
	}
	return c, agent, big
}

// accepted returns a copy of a pod that the kubelet has accepted in this version. failed means that a
// container cannot be created.
func accepted(t testing.TB, p *Pod, version uint64, failed bool) *Pod {
	t.Helper()
	q := pod(t, p.UID, p.containers...)
	q.Accepted, q.Failed = version, failed
	return q
}

// TestOnlyClaimedCPUsWait: other pods get CPU time that a blocked pod does not claim. Pods that need its
// claimed CPUs wait.
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
		wantRefusal(t, c, "n", test.pod, test.reason)
		if rank := c.Rank("n", test.pod, Amounts{Memory: 1 << 30, FreeMemory: 1 << 30}); (rank == WorstRank) != (test.reason != "") {
			t.Errorf("%s: got rank %d, want refusal %q", test.pod.UID, rank, test.reason)
		}
		if r := c.Trial("n").Fits(test.pod, map[string]bool{"big": true}); (r == nil) != (test.reason == "") {
			t.Errorf("%s in a trial: got %v, want %q", test.pod.UID, r, test.reason)
		}
	}
	reserve(t, c, "n", pod(t, "flexible", flexible("app", 500)))
	wantRefusal(t, c, "n", pod(t, "second", flexible("app", 400)), "CPUs are reserved for pods that cannot start yet")
	end(t, agent, pod(t, "foreign", sensitive("app", 49200)))
	c.Report("n", 21, reportOf(t, agent), start)
	if got := c.Totals(); got.Reserved != 2 || got.Blocked != 0 {
		t.Errorf("got %+v, want no blocked pod", got)
	}
	wantRefusal(t, c, "n", pod(t, "whole", sensitive("app", 1000)), "")
}

// TestUnmet: a reservation ends when the node has accepted the pod and a later report has too few free CPUs,
// or when the node failed to create it. It does not end before.
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
			c.Bound("n", accepted(t, big, 35, false), start) // later versions of the pod have a start time too
		}, true},
		"the report came first": {func(c *Cluster, _ *hybrid.Node, big *Pod) {
			c.Bound("n", accepted(t, big, 15, false), start)
		}, true},
		"the node failed to create the container": {func(c *Cluster, _ *hybrid.Node, big *Pod) {
			c.Bound("n", accepted(t, big, 25, true), start)
		}, true},
		"the node tries again": {func(c *Cluster, _ *hybrid.Node, big *Pod) {
			c.Bound("n", accepted(t, big, 25, true), start)
			c.Bound("n", accepted(t, big, 26, false), start)
		}, false},
		"the CPUs are free": {func(c *Cluster, agent *hybrid.Node, big *Pod) {
			end(t, agent, pod(t, "foreign", sensitive("app", 49200)))
			c.Bound("n", accepted(t, big, 25, true), start)
			c.Report("n", 30, reportOf(t, agent), start)
		}, false},
		"the pod is deleted": {func(c *Cluster, agent *hybrid.Node, big *Pod) {
			c.Bound("n", accepted(t, big, 25, true), start)
			c.Forget("big")
			c.Report("n", 30, reportOf(t, agent), start)
		}, false},
		"the node's report is deleted": {func(c *Cluster, _ *hybrid.Node, big *Pod) {
			c.Bound("n", accepted(t, big, 25, true), start)
			c.NoReport("n", 30, Gone)
		}, false},
		"the pod with the CPUs is deleted, but its containers still run": {func(c *Cluster, agent *hybrid.Node, big *Pod) {
			c.Bound("n", pod(t, "foreign", sensitive("app", 49200)), start)
			c.Forget("foreign")
			c.Bound("n", accepted(t, big, 25, true), start)
			c.Report("n", 30, reportOf(t, agent), start)
		}, false},
		"an init container has the CPUs": {func(c *Cluster, agent *hybrid.Node, big *Pod) {
			c.Bound("n", pod(t, "foreign", initContainer(sensitive("app", 49200)), flexible("log", 100)), start)
			c.Bound("n", accepted(t, big, 25, true), start)
			c.Report("n", 30, reportOf(t, agent), start)
		}, false},
	} {
		c, agent, big := stuck(t, hybrid.Options{MinShared: 500})
		test.then(c, agent, big)
		gone := c.Expire(start)
		if !test.unmet {
			if gone != nil {
				t.Errorf("%s: expired: got %+v, want none", name, gone)
			}
			continue
		}
		if len(gone) != 1 || gone[0].Pod.UID != "big" || gone[0].Node != "n" || !gone[0].Ours || gone[0].Unmet == nil || gone[0].Unmet.Reason != "no capacity (1700m missing)" {
			t.Errorf("%s: expired: got %+v, want big", name, gone)
			continue
		}
		wantRefusal(t, c, "n", whole, "")
		if again := c.Expire(start); again != nil || c.Totals() != (Totals{Reporting: 1}) {
			t.Errorf("%s: second Expire: got %+v, %+v; want only a report", name, again, c.Totals())
		}
		c.Bound("n", accepted(t, big, 40, true), start) // the kubelet tries again
		wantRefusal(t, c, "n", whole, "")
		end(t, agent, pod(t, "foreign", sensitive("app", 49200)))
		create(t, agent, big) // and succeeds
		c.Report("n", 50, reportOf(t, agent), start)
		wantRefusal(t, c, "n", pod(t, "rest", sensitive("app", 47500)), "")
		wantRefusal(t, c, "n", pod(t, "much", sensitive("app", 48000)), "no capacity (500m missing)")
		// The node has rebooted.
		c.Report("n", 51, newNode(t, "pack:2 numa:1 core:32", hybrid.Options{MinShared: 500}), start)
		wantRefusal(t, c, "n", pod(t, "much", sensitive("app", 48000)), "no capacity (500m missing)")
	}
}

// TestUnmetForeignPods: pods of other schedulers and pods that are not bound are never unmet. Their
// reservations and holds last until the timeout.
func TestUnmetForeignPods(t *testing.T) {
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
		t.Errorf("got expired %+v, held on %q; want none expired, held on n", gone, c.HeldOn("high"))
	}
}

// TestMissingIsNotUnmet: after a reboot, a foreign container takes the CPUs of a reported pod. The
// reservation of the pod ends with the second report without it, not with the first.
func TestMissingIsNotUnmet(t *testing.T) {
	c := New(patience)
	agent := newNode(t, "core:4", hybrid.Options{})
	c.Report("n", 1, reportOf(t, agent), start)
	web := pod(t, "web", sensitive("app", 3000))
	reserve(t, c, "n", web)
	create(t, agent, web)
	c.Bound("n", accepted(t, web, 2, false), start)
	c.Report("n", 3, reportOf(t, agent), start)
	end(t, agent, web)
	create(t, agent, pod(t, "foreign", sensitive("app", 2000))) // starts before web restarts
	c.Report("n", 4, reportOf(t, agent), start)
	if gone := c.Expire(start); gone != nil {
		t.Errorf("expired with the first report: %+v", gone)
	}
	c.AcceptAnyVersion("n") // the cluster was restored from a backup
	c.Report("n", 3, reportOf(t, agent), start)
	if gone := c.Expire(start); len(gone) != 1 || gone[0].Unmet == nil {
		t.Errorf("expired: got %+v, want web", gone)
	}
}

// TestHeldIsNotUnmet: a bound pod is not unmet if only CPUs that are held for a pending pod are missing.
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
	web := pod(t, "web", sensitive("app", 3000)) // bound before a restart of the scheduler
	web.Planned, web.Accepted, web.Failed = true, 1, true
	c.Bound("n", web, start)
	if got := c.Totals(); got.Blocked != 1 {
		t.Fatalf("got %+v, want a blocked pod", got)
	}
	if gone := c.Expire(start); gone != nil {
		t.Errorf("got expired %+v, want none: web fits after low has ended", gone)
	}
}

// TestClaimStays: a pod that is placed beside a blocked pod does not reduce the CPU time that the blocked pod
// claims.
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
			rt.Skip("the node is not blocked")
		}
		before := claimed(n, big)
		for range 6 {
			p := w.draw(rt)
			fits := c.Fits("n", p)
			if fits == errWaiting && mustFit(n, p) != nil {
				rt.Fatalf("%v waits for claimed CPUs, but does not fit without the claims", p.Lasting())
			}
			if _, refusal := c.Reserve("n", p, start); (refusal == nil) != (fits == nil) {
				rt.Fatalf("Fits returns %v, Reserve %v", fits, refusal)
			}
			n.rebuild()
			if now := claimed(n, big); now < before {
				rt.Fatalf("claimed CPU time shrinks from %v to %v", before, now)
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
