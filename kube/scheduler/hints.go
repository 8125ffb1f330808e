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

// EventsToRegister returns the events that can help a refused pod: a report of a node, the end of a pod with a reservation, a change of the
// pod itself or of a profile.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	if err := p.bindsFirst(); err != nil { // asked here, since all plugins of the profile are made by now
		return nil, err
	}
	if p.narrows = p.canNarrow(); !p.narrows && p.options.nodesToScore > 0 {
		p.log.Info("Pods are looked at on as many nodes as kube-scheduler has it, not on the best: want postFilter: {enabled: [{name: Candor}]} beside multiPoint, and "+
			"kube-scheduler's own NodeResourcesFit, NodeUnschedulable and TaintToleration", "profile", p.handle.ProfileName())
	}
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: eventOf(v1alpha1.NodeCPUs), ActionType: fwk.Add | fwk.Update}, QueueingHintFn: p.afterReport},
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, QueueingHintFn: p.afterPod},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}},
		{Event: fwk.ClusterEvent{Resource: eventOf(v1alpha1.CPUProfiles), ActionType: fwk.Add | fwk.Update | fwk.Delete}, QueueingHintFn: p.afterProfile},
	}, nil
}

// eventOf returns the scheduler's name of a custom resource.
func eventOf(resource string) fwk.EventResource {
	return fwk.EventResource(resource + "." + v1alpha1.GroupVersion.Version + "." + v1alpha1.GroupVersion.Group)
}

// afterProfile wakes a pod of the profile's namespace: it may be something else now.
func (p *Plugin) afterProfile(_ klog.Logger, pod *v1.Pod, before, after any) (fwk.QueueingHint, error) {
	changed, set := after.(*unstructured.Unstructured)
	if set {
		p.places.take(changed) // it may have come here first
	} else if changed, set = last(before).(*unstructured.Unstructured); set {
		p.places.drop(changed)
	}
	return queueIf(set && changed.GetNamespace() == pod.Namespace), nil
}

// afterReport queues a pod that fits on a node after the node's report. If the report is older than the known report, the next report
// queues it.
func (p *Plugin) afterReport(_ klog.Logger, pod *v1.Pod, before, after any) (fwk.QueueingHint, error) {
	u, ok := after.(*unstructured.Unstructured)
	if !ok {
		return fwk.Queue, nil
	}
	if versionOf(u.GetResourceVersion()) > p.cluster.Version(u.GetName()) { // it has come here first
		now, err := asReport(u)
		if err != nil {
			return fwk.Queue, err
		}
		p.hear(now)
	}
	asks, err := p.askedBy(pod)
	if err != nil {
		return fwk.QueueSkip, nil //nolint:nilerr // a report does not help a pod with bad settings
	}
	return queueIf(p.cluster.FitsAfterReport(u.GetName(), versionBefore(before), asks.Pod)), nil
}

// versionBefore is the version of a report that was there before an event; 0: there was none.
func versionBefore(obj any) uint64 {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || u == nil {
		return 0
	}
	return versionOf(u.GetResourceVersion())
}

// afterPod queues a pod if a deleted pod leaves room for it. The event can be old, or concern a pod that stays: a failed binding, a changed
// nomination.
func (p *Plugin) afterPod(_ klog.Logger, pod *v1.Pod, gone, _ any) (fwk.QueueingHint, error) {
	other, ok := gone.(*v1.Pod)
	if !ok {
		return fwk.Queue, nil
	}
	asks, err := p.askedBy(pod)
	if err != nil {
		return fwk.QueueSkip, nil //nolint:nilerr // a deleted pod does not help a pod with bad settings
	}
	node := cmp.Or(other.Spec.NodeName, other.Status.NominatedNodeName, p.cluster.HeldOn(string(other.UID)))
	return queueIf(p.cluster.FitsWithout(node, asks.Pod, string(other.UID)) == nil), nil
}

func queueIf(helps bool) fwk.QueueingHint {
	if helps {
		return fwk.Queue
	}
	return fwk.QueueSkip
}
