package scheduler

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/candor-project/candor/kube/cluster"
)

// Filter refuses a node on which the allocator cannot place the pod.
func (p *Plugin) Filter(_ context.Context, cycle fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	s := stateOf(cycle)
	if s == nil {
		return nil
	}
	if cycle.ShouldRecordPluginMetrics() {
		defer observe(filterTime, time.Now())
	}
	name := node.Node().Name
	if t := s.trials[name]; t != nil {
		return statusOf(t.Fits(s.pod.Pod, presentUIDs(node)))
	}
	return statusOf(p.cluster.Fits(name, s.pod.Pod))
}

// presentUIDs returns the UIDs of the pods that kube-scheduler counts on a node.
func presentUIDs(node fwk.NodeInfo) map[string]bool {
	uids := map[string]bool{}
	for _, pod := range node.GetPods() {
		uids[string(pod.GetPod().UID)] = true
	}
	return uids
}

// statusOf converts a refusal to a status of kube-scheduler's framework.
func statusOf(r *cluster.Refusal) *fwk.Status {
	switch {
	case r == nil:
		return nil
	case r.Final:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, r.Reason)
	default:
		return fwk.NewStatus(fwk.Unschedulable, r.Reason)
	}
}
