package scheduler

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/candor-project/candor/kube/cluster"
)

// shared is the common state of all profiles of a scheduler.
type shared struct {
	options options
	cluster *cluster.Cluster
	places  places
	wide    wide
	pods    corelisters.PodLister
	nodes   corelisters.NodeLister
	events  events.EventRecorderLogger
	freed   freed
	queue   fwk.PodActivator
	synced  []func() bool // conditions for the first decision

	reports, profiles           cache.Store // of the plugin's own informers
	strayReports, strayProfiles stray       // for the goroutine of tick

	now   func() time.Time
	began time.Time
	log   klog.Logger
}

// newShared returns the initial state. The handle of one profile queues pods and writes events.
func newShared(o options, handle fwk.Handle, log klog.Logger) *shared {
	s := &shared{options: o, cluster: cluster.New(o.patience), queue: handle, now: time.Now, began: time.Now(), log: log}
	s.events = handle.EventRecorder()
	s.places.log = log
	return s
}

// start listens to the cluster until the context ends.
func (s *shared) start(ctx context.Context, handle fwk.Handle) error {
	client, err := dynamic.NewForConfig(handle.KubeConfig())
	if err != nil {
		return err
	}
	registerMetrics()
	if err := s.listen(ctx, handle.SharedInformerFactory(), dynamicinformer.NewDynamicSharedInformerFactory(client, 0)); err != nil {
		return err
	}
	go s.tick(ctx)
	return nil
}

// tickEvery is the time between two searches for ended reservations and deleted objects.
const tickEvery = 5 * time.Second

func (s *shared) tick(ctx context.Context) {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.reconcile()
			s.expire()
		}
	}
}

// expire ends late reservations, and updates the metrics.
func (s *shared) expire() {
	expired := s.cluster.Expire(s.now())
	for _, e := range expired {
		s.tellExpired(e)
	}
	for _, node := range s.freed.take() {
		expired = append(expired, cluster.Expired{Node: node})
	}
	s.wake(expired)
	countTotals(s.cluster.Totals())
}

// wake queues the pods that fit now: no event of the cluster notifies the scheduler of an ended reservation.
func (s *shared) wake(expired []cluster.Expired) {
	if len(expired) == 0 {
		return
	}
	pods, err := s.pods.List(labels.Everything())
	if err != nil {
		s.log.Error(err, "Pods that could be placed now are not woken")
		return
	}
	helped := map[string]*v1.Pod{}
	for _, pod := range pods {
		if pod.Spec.NodeName == "" && s.fitsOnOne(pod, expired) {
			helped[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	if len(helped) > 0 {
		s.queue.Activate(s.log, helped)
	}
}

// fitsOnOne reports whether a pod fits where something has expired.
func (s *shared) fitsOnOne(pod *v1.Pod, expired []cluster.Expired) bool {
	asks, err := s.askedBy(pod)
	if err != nil {
		return false
	}
	for _, e := range expired {
		if s.cluster.Fits(e.Node, asks.Pod) == nil {
			return true
		}
	}
	return false
}

// freed are the nodes on which the end of a pod has freed room since the last tick. kube-scheduler may have asked for the pods that fit there
// (afterPod, afterReport) before the plugin's own informer brought the end of the pod.
type freed struct {
	mu    sync.Mutex
	nodes map[string]bool
}

func (f *freed) add(node string) {
	if node == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.nodes == nil {
		f.nodes = map[string]bool{}
	}
	f.nodes[node] = true
}

func (f *freed) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	nodes := slices.Collect(maps.Keys(f.nodes))
	f.nodes = nil
	return nodes
}
