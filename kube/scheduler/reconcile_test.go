package scheduler

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/cluster"
	"github.com/candor-project/candor/kube/v1alpha1"
)

func newStore() cache.Indexer {
	return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

// newTestShared returns the shared state of a scheduler's profiles with empty stores and without informers.
func newTestShared() *shared {
	s := &shared{cluster: cluster.New(time.Hour), now: time.Now, log: klog.Background()}
	s.nodes, s.reports, s.profiles = corelisters.NewNodeLister(newStore()), newStore(), newStore()
	s.sources.namespaces = corelisters.NewNamespaceLister(newStore())
	return s
}

// A feed simulates the plugin's informers: the test changes their stores and calls their event handlers.
type feed struct {
	*testing.T
	*shared
	all cache.Indexer // store of the Nodes
}

func newFeed(t *testing.T) *feed {
	f := &feed{t, newTestShared(), newStore()}
	f.nodes = corelisters.NewNodeLister(f.all)
	return f
}

func (f *feed) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *feed) node(name, uid string) *v1.Node {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
	f.must(f.all.Add(node))
	return node
}

// store adds a report to the informer's store, and returns the object that the informer passes to its
// handlers.
func (f *feed) store(u *unstructured.Unstructured) any {
	r, err := asReport(u)
	f.must(err)
	f.must(f.reports.Add(r))
	return r
}

// refusal returns the reason why the node n refuses a sensitive pod; "" if the pod fits.
func (f *feed) refusal(cpu string) string {
	f.Helper()
	demand, err := readDemand(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Annotations: map[string]string{"candor.dev/class": "sensitive"}},
		Spec: v1.PodSpec{Containers: []v1.Container{container("app", cpu)}}}, nil, nil, nil)
	f.must(err)
	if r := f.cluster.Fits("n", demand.Pod); r != nil {
		return r.Reason
	}
	return ""
}

func (f *feed) wantRefusal(step, cpu, want string) {
	f.Helper()
	if got := f.refusal(cpu); got != want {
		f.Errorf("%s: got refusal %q, want %q", step, got, want)
	}
}

// TestVersionsDecrease: after a restore of etcd from a backup, objects have lower versions than before. The
// plugin accepts their reports after two ticks, and all later reports.
func TestVersionsDecrease(t *testing.T) {
	f := newFeed(t)
	f.node("n", "")
	f.storeReport(f.store(newReport(t, 900)))
	f.reconcile()
	f.storeReport(f.store(newReport(t, 500, staticContainer("a", 4000))))
	f.wantRefusal("an older report may be a late event", "1", "")
	f.reconcile()
	f.wantRefusal("one tick", "1", "")
	f.storeReport(f.store(newReport(t, 501, staticContainer("a", 4000)))) // the node reports in each tick
	f.reconcile()
	f.wantRefusal("two ticks", "1", "no capacity (1 CPU missing)")
	f.storeReport(f.store(newReport(t, 502)))
	f.wantRefusal("the next report", "1", "")
}

// TestChangeBeforeInformer: kube-scheduler's informer can deliver a report before the plugin's own informer.
// The plugin drops the report only if its informer never delivers it.
func TestChangeBeforeInformer(t *testing.T) {
	f := newFeed(t)
	f.node("n", "")
	f.storeReport(f.store(newReport(t, 7)))
	ahead, err := asReport(newReport(t, 8, staticContainer("a", 4000)))
	f.must(err)
	f.storeReport(ahead)
	f.reconcile()
	f.wantRefusal("ahead", "1", "no capacity (1 CPU missing)")
	f.store(newReport(t, 8, staticContainer("a", 4000)))
	f.reconcile()
	f.reconcile()
	f.wantRefusal("the store has the report", "1", "no capacity (1 CPU missing)")

	gone, _, _ := f.reports.GetByKey("n")
	f.must(f.reports.Delete(gone))
	f.removeReport(gone)
	f.must(f.all.Delete(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
	f.reconcile()
	f.storeReport(ahead) // a late event of kube-scheduler's informer
	f.wantRefusal("late report of a deleted node", "1", "no capacity (1 CPU missing)")
	f.reconcile()
	f.reconcile()
	f.wantRefusal("two ticks after the late report", "1", "no Candor on node")
	if got := f.cluster.Versions(); len(got) != 0 {
		t.Errorf("versions %v remain, want none", got)
	}
}

// TestFormerNode: the plugin ignores the report of a former node with the same name, in any order of the Node
// and NodeCPU events.
func TestFormerNode(t *testing.T) {
	owned := func(version int, uid string, containers ...hybrid.Request) *unstructured.Unstructured {
		r := newReport(t, version, containers...)
		r.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: types.UID(uid)}})
		return r
	}
	f := newFeed(t)
	first := f.node("n", "first")
	f.storeReport(f.store(owned(1, "first")))
	f.wantRefusal("report of the current node", "4", "")
	second := f.node("n", "second")
	f.updateNode(first, first)
	f.wantRefusal("update without a change", "4", "")
	f.updateNode(first, second)
	f.wantRefusal("node recreated", "4", "report is of a former node")
	f.storeReport(f.store(owned(2, "first")))
	f.wantRefusal("second report of the former node", "4", "report is of a former node")
	f.storeReport(f.store(owned(3, "second", staticContainer("a", 1000))))
	f.wantRefusal("first report of the new node", "3", "")
	f.storeReport(f.store(owned(4, "third", staticContainer("a", 2000))))
	f.wantRefusal("report before the Node event", "2", "report is of a former node")
	f.addNode(f.node("n", "third"))
	f.wantRefusal("Node event after the report", "2", "")
	f.addNode(f.node("other", "x")) // a node without Candor
	f.reconcile()
	f.reconcile()
	f.wantRefusal("two ticks", "2", "")
}

// TestDeletedProfiles: the plugin removes deleted profiles, ignores their late events, and accepts updates
// with lower versions after two ticks.
func TestDeletedProfiles(t *testing.T) {
	f := newFeed(t)
	profile := func(version int, class string) *unstructured.Unstructured {
		return toUnstructured(t, &v1alpha1.CPUProfile{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "default", ResourceVersion: strconv.Itoa(version)},
			Spec: v1alpha1.CPUProfileSpec{Selector: &v1alpha1.PodSelector{}, Class: class}})
	}
	class := func() string {
		demand, err := f.demandOf(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}, Spec: v1.PodSpec{Containers: []v1.Container{container("app", "1")}}})
		f.must(err)
		return demand.annotations["candor.dev/class"]
	}
	f.must(f.profiles.Add(profile(900, "sensitive")))
	f.sources.store(profile(900, "sensitive"))
	f.must(f.profiles.Update(profile(500, "flexible")))
	f.sources.store(profile(500, "flexible"))
	f.reconcile()
	if got := class(); got != "sensitive" {
		t.Errorf("after one tick: got class %s, want sensitive", got)
	}
	f.reconcile()
	if got := class(); got != "flexible" {
		t.Errorf("after two ticks with a lower version: got class %s, want flexible", got)
	}
	f.must(f.profiles.Delete(profile(501, "")))
	f.sources.remove(profile(501, ""))
	f.reconcile()
	f.sources.store(profile(500, "sensitive"))
	if got := class(); got != "flexible" {
		t.Errorf("after a late event of a deleted profile: got class %s, want flexible", got)
	}
	f.reconcile()
	if len(f.sources.profiles) != 0 {
		t.Errorf("profiles %v remain, want none", f.sources.profiles)
	}
	f.sources.store(profile(500, "sensitive")) // an event that arrives several ticks late
	f.reconcile()
	f.reconcile()
	if len(f.sources.profiles) != 0 || len(f.staleProfiles.versions) != 0 {
		t.Errorf("profiles %v remain, want none", f.sources.profiles)
	}
}

// TestHeapAfterDeletions creates and deletes waves of nodes, reports, pods and profiles. The heap must not
// grow after the first wave.
func TestHeapAfterDeletions(t *testing.T) {
	f := newFeed(t)
	text := newReport(t, 1, staticContainer("a", 1500))
	round := 0
	wave := func() {
		for range 500 {
			round++
			name := fmt.Sprintf("gke-pool-%d-%08x", round%7, round)
			node, version := f.node(name, name), strconv.Itoa(round)
			u := text.DeepCopy()
			u.SetName(name)
			u.SetResourceVersion(version)
			f.storeReport(f.store(u))
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: name, UID: types.UID(name), ResourceVersion: version},
				Spec: v1.PodSpec{NodeName: name, Containers: []v1.Container{container("app", "1")}}}
			f.storePod(pod)
			f.fullScan.add(pod.UID)
			f.cluster.NodeRef(name, cluster.Amounts{})
			p := toUnstructured(t, &v1alpha1.CPUProfile{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: name, ResourceVersion: version},
				Spec: v1alpha1.CPUProfileSpec{Selector: &v1alpha1.PodSelector{}, Class: "sensitive"}})
			f.sources.store(p)
			f.removePod(pod)
			f.sources.remove(p)
			gone, _, _ := f.reports.GetByKey(name)
			f.must(f.reports.Delete(gone))
			f.removeReport(gone)
			f.must(f.all.Delete(node))
		}
		f.reconcile()
		f.reconcile()
		f.freed.take() // expire does this in each tick
	}
	inUse := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	wave()
	before := inUse()
	for range 10 {
		wave()
	}
	if after := inUse(); after > before+64<<10 {
		t.Errorf("heap of %d bytes, %d before: want no growth", after, before)
	}
	runtime.KeepAlive(f)
}

// TestReportIsStoredAsNode: the informer stores the parsed node of a report instead of its text, and parses
// each report only once.
func TestReportIsStoredAsNode(t *testing.T) {
	once, err := asReport(newReport(t, 7, staticContainer("a", 1500)))
	if err != nil {
		t.Fatal(err)
	}
	again, err := asReport(once)
	if r, ok := again.(*report); err != nil || !ok || again != once || r.Name != "n" || r.version() != 7 || len(r.node.Grants()) != 1 {
		t.Errorf("%+v, %v", again, err)
	}
}
