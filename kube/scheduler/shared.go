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

// shared is the state that the plugins of all profiles have in common.
type shared struct {
	options  options
	cluster  *cluster.Cluster
	sources  settingSources
	fullScan uidSet // pods that kube-scheduler must evaluate on all nodes (see preselect.go)
	pods     corelisters.PodLister
	nodes    corelisters.NodeLister
	events   events.EventRecorderLogger
	freed    freedNodes
	queue    fwk.PodActivator
	synced   []func() bool // the plugin makes no decision until all of these functions return true

	reports, profiles           cache.Store // stores of the plugin's own informers
	staleReports, staleProfiles staleFinder // only used by the goroutine of tick

	now       func() time.Time
	startedAt time.Time
	log       klog.Logger
}

// newShared returns the initial state. The handle can be that of any profile, because it only serves to queue pods and to write events.
func newShared(o options, handle fwk.Handle, log klog.Logger) *shared {
	s := &shared{options: o, cluster: cluster.New(o.reservationTimeout), queue: handle, now: time.Now, startedAt: time.Now(), log: log}
	s.events = handle.EventRecorder()
	s.sources.log = log
	return s
}

// start starts to process the events of the cluster, until the context ends.
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

// tickInterval is the time between two searches for expired reservations and deleted objects.
const tickInterval = 5 * time.Second

func (s *shared) tick(ctx context.Context) {
	ticker := time.NewTicker(tickInterval)
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

// expire ends the reservations that are unmet or have timed out, queues the pods that fit now, and updates the metrics.
func (s *shared) expire() {
	expired := s.cluster.Expire(s.now())
	for _, e := range expired {
		s.reportExpired(e)
	}
	for _, node := range s.freed.take() {
		expired = append(expired, cluster.Expired{Node: node})
	}
	s.activate(expired)
	countTotals(s.cluster.Totals())
}

// activate queues the pending pods that fit on a node with an expired reservation. Otherwise they would wait, because kube-scheduler gets
// no event when a reservation ends.
func (s *shared) activate(expired []cluster.Expired) {
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
		if pod.Spec.NodeName == "" && s.fitsOnAny(pod, expired) {
			helped[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	if len(helped) > 0 {
		s.queue.Activate(s.log, helped)
	}
}

// fitsOnAny reports whether a pod fits on a node with an expired reservation.
func (s *shared) fitsOnAny(pod *v1.Pod, expired []cluster.Expired) bool {
	demand, err := s.demandOf(pod)
	if err != nil {
		return false
	}
	for _, e := range expired {
		if s.cluster.Fits(e.Node, demand.Pod) == nil {
			return true
		}
	}
	return false
}

// freedNodes are the nodes on which the end of a pod has freed room since the last tick. They are checked again, because kube-scheduler may
// have called afterPod or afterReport before the plugin's own informer reported the end of the pod.
type freedNodes struct {
	mu    sync.Mutex
	nodes map[string]bool
}

func (f *freedNodes) add(node string) {
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

func (f *freedNodes) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	nodes := slices.Collect(maps.Keys(f.nodes))
	f.nodes = nil
	return nodes
}
