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

// A feed stands for the plugin's informers: their stores, and the events that they send after a change of a store.
type feed struct {
	*testing.T
	*shared
	all cache.Indexer // the Nodes
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

// store puts a report into the informer's store, and returns it as the informer does.
func (f *feed) store(u *unstructured.Unstructured) any {
	r, err := asReport(u)
	f.must(err)
	f.must(f.reports.Add(r))
	return r
}

// refusal returns why the node n does not take a sensitive pod; "": it does.
func (f *feed) refusal(cpu string) string {
	f.Helper()
	asks, err := readDemand(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Annotations: map[string]string{"candor.dev/class": "sensitive"}},
		Spec: v1.PodSpec{Containers: []v1.Container{container("app", cpu)}}}, nil, nil, nil)
	f.must(err)
	if r := f.cluster.Fits("n", asks.Pod); r != nil {
		return r.Reason
	}
	return ""
}

func (f *feed) wantRefusal(step, cpu, want string) {
	f.Helper()
	if got := f.refusal(cpu); got != want {
		f.Errorf("%s: %q, want %q", step, got, want)
	}
}

// TestVersionsGoBack: a cluster restored from a backup of etcd has lower versions than before. Its reports count after
// two ticks, and all later reports too.
func TestVersionsGoBack(t *testing.T) {
	f := newFeed(t)
	f.node("n", "")
	f.storeReport(f.store(newReport(t, 900)))
	f.reconcile()
	f.storeReport(f.store(newReport(t, 500, own("a", 4000))))
	f.wantRefusal("an older report may be a late event", "1", "")
	f.reconcile()
	f.wantRefusal("one tick", "1", "")
	f.storeReport(f.store(newReport(t, 501, own("a", 4000)))) // the node reports in each tick
	f.reconcile()
	f.wantRefusal("two ticks", "1", "no capacity (1 CPU missing)")
	f.storeReport(f.store(newReport(t, 502)))
	f.wantRefusal("the next report", "1", "")
}

// TestChangeBeforeInformer: a change that the plugin's informer does not have yet is reverted only if the informer never
// gets it.
func TestChangeBeforeInformer(t *testing.T) {
	f := newFeed(t)
	f.node("n", "")
	f.storeReport(f.store(newReport(t, 7)))
	ahead, err := asReport(newReport(t, 8, own("a", 4000)))
	f.must(err)
	f.storeReport(ahead)
	f.reconcile()
	f.wantRefusal("ahead", "1", "no capacity (1 CPU missing)")
	f.store(newReport(t, 8, own("a", 4000)))
	f.reconcile()
	f.reconcile()
	f.wantRefusal("the store is there", "1", "no capacity (1 CPU missing)")

	gone, _, _ := f.reports.GetByKey("n")
	f.must(f.reports.Delete(gone))
	f.removeReport(gone)
	f.must(f.all.Delete(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
	f.reconcile()
	f.storeReport(ahead) // late, by kube-scheduler's informer
	f.wantRefusal("a ghost", "1", "no capacity (1 CPU missing)")
	f.reconcile()
	f.reconcile()
	f.wantRefusal("it is gone", "1", "no Candor on node")
	if got := f.cluster.Versions(); len(got) != 0 {
		t.Errorf("%v is still known", got)
	}
}

// TestFormerNode: the report of a former node is ignored, in any order of Node and NodeCPU.
func TestFormerNode(t *testing.T) {
	owned := func(version int, uid string, containers ...hybrid.Request) *unstructured.Unstructured {
		r := newReport(t, version, containers...)
		r.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: types.UID(uid)}})
		return r
	}
	f := newFeed(t)
	first := f.node("n", "first")
	f.storeReport(f.store(owned(1, "first")))
	f.wantRefusal("its own", "4", "")
	second := f.node("n", "second")
	f.updateNode(first, first)
	f.wantRefusal("nothing new", "4", "")
	f.updateNode(first, second)
	f.wantRefusal("another machine", "4", "report is of a former node")
	f.storeReport(f.store(owned(2, "first")))
	f.wantRefusal("written once more", "4", "report is of a former node")
	f.storeReport(f.store(owned(3, "second", own("a", 1000))))
	f.wantRefusal("replaced", "3", "")
	f.storeReport(f.store(owned(4, "third", own("a", 2000))))
	f.wantRefusal("before the Node is known", "2", "report is of a former node")
	f.addNode(f.node("n", "third"))
	f.wantRefusal("the Node is known", "2", "")
	f.addNode(f.node("other", "x")) // which has no Candor
	f.reconcile()
	f.reconcile()
	f.wantRefusal("two ticks", "2", "")
}

// TestProfilesAreForgotten: deleted profiles are removed, late events of them are ignored, and lower versions do not
// block updates.
func TestProfilesAreForgotten(t *testing.T) {
	f := newFeed(t)
	profile := func(version int, class string) *unstructured.Unstructured {
		return toUnstructured(t, &v1alpha1.CPUProfile{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "default", ResourceVersion: strconv.Itoa(version)},
			Spec: v1alpha1.CPUProfileSpec{Selector: &v1alpha1.PodSelector{}, Class: class}})
	}
	class := func() string {
		asks, err := f.demandOf(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}, Spec: v1.PodSpec{Containers: []v1.Container{container("app", "1")}}})
		f.must(err)
		return asks.annotations["candor.dev/class"]
	}
	f.must(f.profiles.Add(profile(900, "sensitive")))
	f.sources.store(profile(900, "sensitive"))
	f.must(f.profiles.Update(profile(500, "flexible")))
	f.sources.store(profile(500, "flexible"))
	f.reconcile()
	if got := class(); got != "sensitive" {
		t.Errorf("%s: after one tick", got)
	}
	f.reconcile()
	if got := class(); got != "flexible" {
		t.Errorf("%s: versions have gone back", got)
	}
	f.must(f.profiles.Delete(profile(501, "")))
	f.sources.remove(profile(501, ""))
	f.reconcile()
	f.sources.store(profile(500, "sensitive"))
	if got := class(); got != "flexible" {
		t.Errorf("%s: a late event counts", got)
	}
	f.reconcile()
	if len(f.sources.profiles) != 0 {
		t.Errorf("%v left", f.sources.profiles)
	}
	f.sources.store(profile(500, "sensitive")) // very late
	f.reconcile()
	f.reconcile()
	if len(f.sources.profiles) != 0 || len(f.staleProfiles.versions) != 0 {
		t.Errorf("%v left", f.sources.profiles)
	}
}

// TestHeapAfterAll: after nodes, reports, pods and profiles are deleted, the plugin takes no more memory than before.
func TestHeapAfterAll(t *testing.T) {
	f := newFeed(t)
	text := newReport(t, 1, own("a", 1500))
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
		f.freed.take() // as expire does
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

// TestReportIsStoredAsNode: the informer's store has the parsed node of a report instead of its text, and parses each
// report once.
func TestReportIsStoredAsNode(t *testing.T) {
	once, err := asReport(newReport(t, 7, own("a", 1500)))
	if err != nil {
		t.Fatal(err)
	}
	again, err := asReport(once)
	if r, ok := again.(*report); err != nil || !ok || again != once || r.Name != "n" || r.version() != 7 || len(r.node.Grants()) != 1 {
		t.Errorf("%+v, %v", again, err)
	}
}
