package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/cluster"
	"github.com/candor-project/candor/topology"
)

// A queue records the pods that the plugin wakes.
type queue struct{ woken []string }

func (q *queue) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	for name := range pods {
		q.woken = append(q.woken, name)
	}
}

// TestExpired: a reservation expires with an event, unless another scheduler has bound the pod. In both
// cases, pods that fit on the free CPUs are woken.
func TestExpired(t *testing.T) {
	registerMetrics()
	m, err := topology.Parse("core:4")
	if err != nil {
		t.Fatal(err)
	}
	n, err := hybrid.NewNode(m, hybrid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, q, now := events.NewFakeRecorder(10), &queue{}, time.Unix(0, 0)
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for name, cpu := range map[string]string{"waits": "4", "large": "5"} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), Annotations: map[string]string{"candor.dev/class": "sensitive"}},
			Spec: v1.PodSpec{Containers: []v1.Container{container("app", cpu)}}}
		if err := pods.Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	p := &shared{events: r, queue: q, pods: corelisters.NewPodLister(pods), options: options{reservationTimeout: 10 * time.Minute},
		cluster: cluster.New(10 * time.Minute), now: func() time.Time { return now }}
	p.sources.namespaces = corelisters.NewNamespaceLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil))
	p.cluster.Report("n", 1, n, now)
	for _, name := range []string{"own", "foreign"} {
		demand, err := boundPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "u-1"}, Spec: v1.PodSpec{Containers: []v1.Container{container("app", "1")}}})
		if err != nil {
			t.Fatal(err)
		}
		if name == "foreign" {
			p.cluster.Bound("n", demand, now)
		} else if _, refusal := p.cluster.Reserve("n", demand, now); refusal != nil {
			t.Fatal(refusal)
		}
		p.expire()
		if len(r.Events)+len(q.woken) > 0 {
			t.Errorf("before the timeout: %d events, woken %v; want none", len(r.Events), q.woken)
		}
		now = now.Add(10*time.Minute + time.Second)
		p.expire()
		switch {
		case name == "foreign" && len(r.Events) > 0:
			t.Error("event for a pod of another scheduler: ", <-r.Events)
		case name == "own" && len(r.Events) != 1:
			t.Errorf("%d events, want 1", len(r.Events))
		case name == "own":
			if e := <-r.Events; !strings.Contains(e, "CandorReservationExpired the node has not reported the pod for 10m0s") {
				t.Error(e)
			}
		}
		if !slices.Equal(q.woken, []string{"default/waits"}) {
			t.Errorf("woken: got %v, want default/waits", q.woken)
		}
		q.woken = nil
		if got := p.cluster.Totals(); got.Reserved != 0 {
			t.Errorf("got %+v, want no reservation", got)
		}
		p.cluster.Forget("u-1")
	}
}
