package scheduler

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/candor-project/candor/hybrid"
)

// TestUnmetReservation: a bound pod that no longer fits on its node blocks only pods that need whole CPUs.
// When the kubelet reports a failed start, the reservation ends with an event, and a waiting pod is woken.
func TestUnmetReservation(t *testing.T) {
	registerMetrics()
	f, recorder, woken := newFeed(t), events.NewFakeRecorder(10), &queue{}
	pods := newStore()
	f.events, f.queue, f.pods = recorder, woken, corelisters.NewPodLister(pods)
	f.options.reservationTimeout, f.now = 10*time.Minute, func() time.Time { return time.Unix(0, 0) }
	pod := func(name, class, cpu string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), ResourceVersion: "2", Annotations: map[string]string{"candor.dev/class": class}},
			Spec: v1.PodSpec{Containers: []v1.Container{container("app", cpu)}}}
	}
	f.storeReport(f.store(newReport(t, 1)))
	big, whole, flexible := pod("big", "sensitive", "3"), pod("whole", "sensitive", "1"), pod("flexible", "flexible", "200m")
	demand, err := f.demandOf(big)
	f.must(err)
	if _, refusal := f.cluster.Reserve("n", demand.Pod, f.now()); refusal != nil {
		t.Fatal(refusal)
	}
	big.Spec.NodeName = "n"
	big.Annotations["candor.dev/hint"] = "{}"
	f.storePod(big)
	f.storeReport(f.store(newReport(t, 3, staticContainer("foreign", 1500))))
	f.must(pods.Add(whole))
	fits := func(p *v1.Pod) string {
		a, err := f.demandOf(p)
		f.must(err)
		if r := f.cluster.Fits("n", a.Pod); r != nil {
			return r.Reason
		}
		return ""
	}
	if w, fl := fits(whole), fits(flexible); w != "CPUs are reserved for pods that cannot start yet" || fl != "" {
		t.Errorf("whole: %q, flexible: %q", w, fl)
	}
	f.expire()
	if len(recorder.Events)+len(woken.woken) > 0 {
		t.Error("the reservation ended before the node accepted the pod")
	}
	tried := big.DeepCopy()
	tried.ResourceVersion, tried.Status.StartTime = "4", &metav1.Time{Time: time.Unix(0, 0)}
	f.storePod(tried)
	f.expire()
	if len(recorder.Events)+len(woken.woken) > 0 {
		t.Error("a report older than the pod's acceptance ended the reservation")
	}
	tried = tried.DeepCopy()
	tried.ResourceVersion = "5"
	tried.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "app", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CreateContainerError"}}}}
	f.storePod(tried)
	f.expire()
	const want = "Warning CandorReservationUnmet node n has no room for the pod: no capacity (500m missing); its CPUs are no longer reserved. " +
		"Delete the pod so that it is placed on another node, or free CPUs of n: candor map --cluster --node n shows their containers"
	if len(recorder.Events) != 1 {
		t.Fatalf("%d events, want 1", len(recorder.Events))
	}
	if e := <-recorder.Events; e != want {
		t.Errorf("got event %q, want %q", e, want)
	}
	if strings.Join(woken.woken, " ") != "default/whole" || fits(whole) != "" {
		t.Errorf("woken: %v; whole: %q", woken.woken, fits(whole))
	}
	f.expire()
	if len(recorder.Events) > 0 {
		t.Error("unexpected second event: ", <-recorder.Events)
	}
}

// TestAcceptedAndFailed: a pod is accepted after the kubelet has set its start time, and failed while the
// kubelet reports that it cannot create a container.
func TestAcceptedAndFailed(t *testing.T) {
	waits := func(reason string) []v1.ContainerStatus {
		return []v1.ContainerStatus{{Name: "app", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}}}
	}
	for name, test := range map[string]struct {
		status   v1.PodStatus
		accepted uint64
		failed   bool
	}{
		"bound":                             {v1.PodStatus{}, 0, false},
		"accepted":                          {v1.PodStatus{StartTime: &metav1.Time{}}, 7, false},
		"pulls image":                       {v1.PodStatus{StartTime: &metav1.Time{}, ContainerStatuses: waits("ContainerCreating")}, 7, false},
		"create error":                      {v1.PodStatus{StartTime: &metav1.Time{}, ContainerStatuses: waits("CreateContainerError")}, 7, true},
		"create error of an init container": {v1.PodStatus{StartTime: &metav1.Time{}, InitContainerStatuses: waits("CreateContainerError")}, 7, true},
		"image pull error":                  {v1.PodStatus{StartTime: &metav1.Time{}, ContainerStatuses: waits("ErrImagePull")}, 7, false},
	} {
		p, err := boundPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "7"},
			Spec: v1.PodSpec{NodeName: "n", Containers: []v1.Container{container("app", "1")}}, Status: test.status})
		if err != nil || p.Accepted != test.accepted || p.Failed != test.failed || p.Lasting()[0].Class != hybrid.Flexible {
			t.Errorf("%s: %+v, %v; want accepted %d, failed %v", name, p, err, test.accepted, test.failed)
		}
	}
}
