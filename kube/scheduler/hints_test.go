package scheduler

import (
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/topology"
)

// newReport returns the NodeCPU of a node with 4 CPUs and these containers, in the form that the informers
// deliver.
func newReport(t *testing.T, version int, containers ...hybrid.Request) *unstructured.Unstructured {
	t.Helper()
	m, err := topology.Parse("core:4")
	if err != nil {
		t.Fatal(err)
	}
	n, err := hybrid.NewNode(m, hybrid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range containers {
		if _, _, err := n.Place(&containers[i]); err != nil {
			t.Fatal(err)
		}
	}
	object := &v1alpha1.NodeCPU{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: strconv.Itoa(version)}, Status: nodecpu.Status(n, nodecpu.HolderOf)}
	object.Status.Counter = int64(version)
	return toUnstructured(t, object)
}

// TestHints: an event wakes a refused pod only if it can help the pod. An event can arrive before the
// plugin's own informer has the change.
func TestHints(t *testing.T) {
	p := &Plugin{shared: newTestShared()}
	p.sources.namespaces = corelisters.NewNamespaceLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil))
	pod := func(name, cpu string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "u-1", Annotations: map[string]string{"candor.dev/class": "sensitive"}},
			Spec: v1.PodSpec{Containers: []v1.Container{container("app", cpu)}}}
	}
	waits, other := pod("waits", "2"), pod("other", "3")
	other.UID, other.Spec.NodeName = "u-2", "n"
	full, fuller, free := newReport(t, 1, staticContainer("a", 3000)), newReport(t, 2, staticContainer("a", 3500)), newReport(t, 3)
	profile := func(namespace string) *unstructured.Unstructured {
		return toUnstructured(t, &v1alpha1.CPUProfile{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: namespace}})
	}
	type hint = func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error)
	for _, step := range []struct {
		name        string
		hint        hint
		old, latest any
		want        fwk.QueueingHint
	}{
		{"first report, full", p.afterReport, nil, full, fwk.QueueSkip},
		{"fuller", p.afterReport, full, fuller, fwk.QueueSkip},
		{"free", p.afterReport, fuller, free, fwk.Queue},
		{"late repetition after free", p.afterReport, full, fuller, fwk.Queue},
		{"bound pod deleted", p.afterPod, other, nil, fwk.Queue},
		{"profile of another namespace", p.afterProfile, nil, profile("elsewhere"), fwk.QueueSkip},
		{"profile of the pod's namespace", p.afterProfile, nil, profile("default"), fwk.Queue},
		{"profile deleted", p.afterProfile, profile("default"), nil, fwk.Queue},
	} {
		if got, err := step.hint(p.log, waits, step.old, step.latest); got != step.want || err != nil {
			t.Errorf("%s: got %v, %v; want %v", step.name, got, err, step.want)
		}
	}
	p.storePod(other) // bound, but in no report
	if got, _ := p.afterReport(p.log, waits, free, newReport(t, 4)); got != fwk.QueueSkip {
		t.Error("a report woke the pod although the free CPUs are reserved")
	}
	if got, _ := p.afterPod(p.log, waits, other, nil); got != fwk.Queue {
		t.Error("the deletion of the pod with the reservation did not wake the pod")
	}
	if demand, err := p.demandOf(waits); err != nil || p.cluster.Fits("n", demand.Pod) == nil {
		t.Error("the hint of a deletion removed the reservation") // the event can be old
	}
}

// TestWokenInAnyOrder deletes a pod and reports its node without it. The events of kube-scheduler's informers
// (pod, hint) and of the plugin's informers (lose, report) come in any order. The next tick at the latest
// wakes a pod that then fits, once.
func TestWokenInAnyOrder(t *testing.T) {
	registerMetrics()
	pod := func(name, cpu string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), Annotations: map[string]string{"candor.dev/class": "sensitive"}},
			Spec: v1.PodSpec{Containers: []v1.Container{container("app", cpu)}}}
	}
	for _, order := range []string{"report hint lose pod", "lose pod report hint", "hint report pod lose", "pod lose hint report", "pod hint lose report", "hint lose pod report"} {
		f, woken, all := newFeed(t), &queue{}, newStore()
		p := &Plugin{shared: f.shared}
		web, next := pod("web", "1600m"), pod("next", "2400m")
		f.must(all.Add(next))
		f.queue, f.pods = woken, corelisters.NewPodLister(all)
		web.Spec.NodeName = "n"
		before, after := newReport(t, 1, staticContainer("db", 1600), staticContainer("web/app", 1600)), newReport(t, 2, staticContainer("db", 1600))
		f.storeReport(f.store(before))
		f.storePod(web)
		isWoken := false
		for step := range strings.FieldsSeq(order) {
			hint := fwk.QueueSkip
			switch step {
			case "report":
				f.storeReport(f.store(after))
			case "hint":
				hint, _ = p.afterReport(f.log, next, before, after)
			case "pod":
				hint, _ = p.afterPod(f.log, next, web, nil)
			case "lose":
				f.removePod(web)
			}
			isWoken = isWoken || hint == fwk.Queue
		}
		f.expire()
		if !isWoken && len(woken.woken) == 0 {
			t.Errorf("%s: not woken", order)
		}
		f.expire()
		if len(woken.woken) > 1 {
			t.Errorf("%s: woken %d times", order, len(woken.woken))
		}
	}
}
