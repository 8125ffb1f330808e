package scheduler

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestStuckPod: a foreign container takes the CPUs of a bound pod before the pod starts. Flexible pods still
// fit on the node. When the kubelet fails to create the container, the reservation ends with an event.
func TestStuckPod(t *testing.T) {
	p := wantLab(t)
	p.startScheduler(t, setup{})
	defer p.clear(t)
	n := p.addAgent(t, "n", "core:8")
	p.addPod(t, "big", "6", ofSensitive())
	big := p.bound(t, "big")
	n.put(staticContainer("foreign", 3500))
	p.addPod(t, "whole", "1", ofSensitive())
	p.refused(t, "whole", "0/1 nodes are available: 1 CPUs are reserved for pods that cannot start yet. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.")
	p.addPod(t, "flexible", "300m")
	n.create(p.bound(t, "flexible"))
	now := metav1.Now()
	big.Status.StartTime = &now
	big.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "app", Image: "none", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CreateContainerError"}}}}
	if _, err := p.client.CoreV1().Pods("default").UpdateStatus(ctx, big, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	whole := p.bound(t, "whole")
	n.create(whole)
	n.report()
	const want = "node n has no room for the pod: no capacity (1500m missing); its CPUs are no longer reserved"
	until(t, "an event reports the unmet reservation", func() bool {
		events, err := p.client.EventsV1().Events("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events.Items {
			if e.Reason == "CandorReservationUnmet" && e.Regarding.UID == big.UID {
				return strings.HasPrefix(e.Note, want)
			}
		}
		return false
	})
}

// TestNodeOfSameName: a recreated node takes no sensitive pods until its report belongs to the new Node.
// Reservations of the former node no longer count.
func TestNodeOfSameName(t *testing.T) {
	p := wantLab(t)
	p.startScheduler(t, setup{})
	defer p.clear(t)
	n := p.addAgent(t, "n", "core:4")
	setOwner := func(uid types.UID) {
		t.Helper()
		n.object.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: uid}}
		object, err := p.dynamic.Resource(nodeCPUs).Update(ctx, toUnstructured(t, n.object), metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n.object.ResourceVersion = object.GetResourceVersion()
	}
	uid := func() types.UID {
		t.Helper()
		node, err := p.client.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return node.UID
	}
	setOwner(uid())
	p.addPod(t, "first", "1", ofSensitive())
	n.create(p.bound(t, "first"))
	n.report()
	p.remove(t, "first")
	if err := p.client.CoreV1().Nodes().Delete(ctx, "n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.addNode(t, "n", 4)
	p.addPod(t, "second", "1", ofSensitive())
	p.refused(t, "second", "0/1 nodes are available: 1 report is of a former node. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.")
	setOwner(uid())
	p.bound(t, "second")
}
