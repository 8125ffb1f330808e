package scheduler

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/cluster"
)

// grantsKey is the key of the reserved grants in the data of a scheduling cycle.
const grantsKey fwk.StateKey = Name + "/grants"

// grants are the grants that are reserved for a pod on its node.
type grants []hybrid.Grant

// Clone implements fwk.StateData.
func (g grants) Clone() fwk.StateData { return g }

// Reserve reserves CPUs for the pod on the selected node.
func (p *Plugin) Reserve(_ context.Context, cycle fwk.CycleState, _ *v1.Pod, node string) *fwk.Status {
	s := stateOf(cycle)
	if s == nil {
		return nil
	}
	given, refusal := p.cluster.Reserve(node, s.pod.Pod, p.now())
	if refusal != nil { // the node has changed since Filter
		return fwk.NewStatus(fwk.Unschedulable, refusal.Reason)
	}
	cycle.Write(grantsKey, grants(given))
	return nil
}

// Unreserve ends the reservation that Reserve has made. It keeps the reservation of a bound pod, because a binding can succeed although its
// call has failed.
func (p *Plugin) Unreserve(_ context.Context, cycle fwk.CycleState, pod *v1.Pod, _ string) {
	p.cluster.Cancel(string(pod.UID))
	cycle.Delete(grantsKey)
}

// reportExpired reports, by an event of the pod and a metric, that the pod's reservation has ended before the pod
// started.
func (s *shared) reportExpired(e cluster.Expired) {
	switch {
	case e.Held:
	case e.Unmet != nil:
		countUnmet()
		s.warn(e, "CandorReservationUnmet", "node %s has no room for the pod: %s; its CPUs are no longer reserved. Delete the pod so that it is placed on another node, "+
			"or free CPUs of %[1]s: candor map --cluster --node %[1]s shows their containers", e.Node, e.Unmet.Reason)
	default:
		countExpired()
		if e.Ours { // a node need not report pods that other schedulers have placed
			s.warn(e, "CandorReservationExpired", "the node has not reported the pod for %v: its reservation ended", s.options.reservationTimeout)
		}
	}
}

// warn writes a warning event of the pod whose reservation has ended.
func (s *shared) warn(e cluster.Expired, reason, note string, args ...any) {
	pod := &v1.Pod{}
	pod.APIVersion, pod.Kind = "v1", "Pod"
	pod.Namespace, pod.Name = e.Pod.Namespace, e.Pod.Name
	pod.UID = types.UID(e.Pod.UID)
	s.events.Eventf(pod, nil, v1.EventTypeWarning, reason, "Reserving", note, args...)
}
