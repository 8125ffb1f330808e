package scheduler

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pods returns all pods of the default namespace.
func (p *plane) pods(t testing.TB) []v1.Pod {
	t.Helper()
	list, err := p.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// addMany creates sensitive pods of 1500m.
func (p *plane) addMany(t testing.TB, prefix string, count int) {
	t.Helper()
	for i := range count {
		p.addPod(t, fmt.Sprint(prefix, i), "1500m", ofSensitive())
	}
}

// allBound waits until every pod is bound. Then the agents create the containers of all pods.
func (p *plane) allBound(t testing.TB, agents map[string]*agent) {
	t.Helper()
	until(t, "all pods are bound", func() bool {
		for _, pod := range p.pods(t) {
			if pod.Spec.NodeName == "" {
				return false
			}
		}
		return true
	})
	for _, pod := range p.pods(t) {
		agents[pod.Spec.NodeName].create(&pod)
	}
}

func (p *plane) addAgents(t testing.TB, count int) map[string]*agent {
	t.Helper()
	agents := map[string]*agent{}
	for i := range count {
		name := fmt.Sprint("n", i)
		agents[name] = p.addAgent(t, name, "core:8")
	}
	return agents
}

// binding returns the number of reserved pods that wait for their binding, from a scheduler's metrics.
func (p *plane) binding(t *testing.T, c *child) int {
	t.Helper()
	for _, m := range p.metrics(t, c)["scheduler_goroutines"].GetMetric() {
		if m.GetLabel()[0].GetValue() == "binding" {
			return int(m.GetGauge().GetValue())
		}
	}
	return 0
}

// TestKilledBetweenReserveAndBind kills a scheduler that has bound some pods and reserved others. The next
// scheduler binds the remaining pods, and counts bound pods that no node has reported.
func TestKilledBetweenReserveAndBind(t *testing.T) {
	p := wantLab(t)
	first := p.startScheduler(t, setup{qps: 5}) // pods wait for their binding
	defer p.clear(t)
	agents := p.addAgents(t, 6)
	p.addMany(t, "p", 24)
	until(t, "some pods are bound and others reserved", func() bool {
		bound := 0
		for _, pod := range p.pods(t) {
			if pod.Spec.NodeName != "" {
				bound++
			}
		}
		return bound > 3 && p.binding(t, first) > 0
	})
	kill(first.Cmd)
	p.startScheduler(t, setup{})
	p.allBound(t, agents)
}

// TestTwoSchedulers kills the leader of two schedulers. The second scheduler takes over and counts all pods
// that the first scheduler has bound.
func TestTwoSchedulers(t *testing.T) {
	p := wantLab(t)
	first := p.startScheduler(t, setup{leases: true})
	defer p.clear(t)
	agents := p.addAgents(t, 6)
	p.addMany(t, "first", 12)
	p.bound(t, "first11")
	p.startScheduler(t, setup{leases: true})
	kill(first.Cmd)
	p.addMany(t, "second", 12)
	p.allBound(t, agents)
}

// TestTwoProfiles: two profiles of a scheduler never give the same CPU to two pods, even if bindings are
// slow.
func TestTwoProfiles(t *testing.T) {
	p := wantLab(t)
	p.startScheduler(t, setup{twoProfiles: true, qps: 10})
	defer p.clear(t)
	agents := p.addAgents(t, 2)
	for i := range 16 {
		p.addPod(t, fmt.Sprint("p", i), "1600m", ofSensitive(), func(pod *v1.Pod) {
			if i%2 == 1 {
				pod.Spec.SchedulerName = "other"
			}
		})
	}
	until(t, "every pod is bound or refused", func() bool {
		for _, pod := range p.pods(t) {
			if pod.Spec.NodeName == "" && len(pod.Status.Conditions) == 0 {
				return false
			}
		}
		return true
	})
	bound := 0
	for _, pod := range p.pods(t) {
		if pod.Spec.NodeName != "" {
			agents[pod.Spec.NodeName].create(&pod)
			bound++
		}
	}
	if bound != 8 {
		t.Errorf("%d pods of 1600m are bound to two nodes of 8 CPUs, want 8: four pods fit on a node", bound)
	}
}
