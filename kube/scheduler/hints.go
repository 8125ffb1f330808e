package scheduler

import (
	"cmp"
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/candor-project/candor/kube/v1alpha1"
)

// EventsToRegister returns the events after which a refused pod can fit: a new report of a node, the deletion of a pod, a change of the
// refused pod itself, and a change of a profile.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	if err := p.checkBindOrder(); err != nil { // checked here, because now all plugins of the profile exist
		return nil, err
	}
	if p.mayPreselect = p.canPreselect(); !p.mayPreselect && p.options.nodesToScore > 0 {
		p.log.Info("kube-scheduler selects the nodes to score, because Candor cannot preselect the best nodes; use postFilter: {enabled: [{name: Candor}]} beside "+
			"multiPoint, and enable kube-scheduler's NodeResourcesFit, NodeUnschedulable and TaintToleration", "profile", p.handle.ProfileName())
	}
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: eventOf(v1alpha1.NodeCPUs), ActionType: fwk.Add | fwk.Update}, QueueingHintFn: p.afterReport},
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, QueueingHintFn: p.afterPod},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}},
		{Event: fwk.ClusterEvent{Resource: eventOf(v1alpha1.CPUProfiles), ActionType: fwk.Add | fwk.Update | fwk.Delete}, QueueingHintFn: p.afterProfile},
	}, nil
}

// eventOf returns the name of a custom resource in kube-scheduler's events.
func eventOf(resource string) fwk.EventResource {
	return fwk.EventResource(resource + "." + v1alpha1.GroupVersion.Version + "." + v1alpha1.GroupVersion.Group)
}

// afterProfile queues a refused pod after a change of a profile in its namespace, because the pod's settings can have changed.
func (p *Plugin) afterProfile(_ klog.Logger, pod *v1.Pod, before, after any) (fwk.QueueingHint, error) {
	changed, exists := after.(*unstructured.Unstructured)
	if exists {
		p.sources.store(changed) // this event can arrive before the event of the plugin's informer
	} else if changed, exists = lastState(before).(*unstructured.Unstructured); exists {
		p.sources.remove(changed)
	}
	return queueIf(exists && changed.GetNamespace() == pod.Namespace), nil
}

// afterReport queues a refused pod if it fits on a node after the node's new report. If the cluster already has a newer report,
// afterReport evaluates the pod with the newer report.
func (p *Plugin) afterReport(_ klog.Logger, pod *v1.Pod, before, after any) (fwk.QueueingHint, error) {
	u, ok := after.(*unstructured.Unstructured)
	if !ok {
		return fwk.Queue, nil
	}
	if versionOf(u.GetResourceVersion()) > p.cluster.Version(u.GetName()) { // this event arrived before the event of the plugin's informer
		now, err := asReport(u)
		if err != nil {
			return fwk.Queue, err
		}
		p.storeReport(now)
	}
	demand, err := p.demandOf(pod)
	if err != nil {
		return fwk.QueueSkip, nil //nolint:nilerr // a report does not help a pod with bad settings
	}
	return queueIf(p.cluster.FitsAfterReport(u.GetName(), versionBefore(before), demand.Pod)), nil
}

// versionBefore returns the version of the object before an event, or 0 if the object was added.
func versionBefore(obj any) uint64 {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || u == nil {
		return 0
	}
	return versionOf(u.GetResourceVersion())
}

// afterPod queues a refused pod if it fits on a node after the deletion of another pod. kube-scheduler can send the event late, and also
// for pods that still exist: after a failed binding or a changed nomination.
func (p *Plugin) afterPod(_ klog.Logger, pod *v1.Pod, deleted, _ any) (fwk.QueueingHint, error) {
	other, ok := deleted.(*v1.Pod)
	if !ok {
		return fwk.Queue, nil
	}
	demand, err := p.demandOf(pod)
	if err != nil {
		return fwk.QueueSkip, nil //nolint:nilerr // a deleted pod does not help a pod with bad settings
	}
	node := cmp.Or(other.Spec.NodeName, other.Status.NominatedNodeName, p.cluster.HeldOn(string(other.UID)))
	return queueIf(p.cluster.FitsWithout(node, demand.Pod, string(other.UID)) == nil), nil
}

func queueIf(helps bool) fwk.QueueingHint {
	if helps {
		return fwk.Queue
	}
	return fwk.QueueSkip
}
