package scheduler

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/cluster"
)

// seats cache the nodes of kube-scheduler's last snapshot, in its order, so that the checks of thousands of nodes stay in the CPU caches.
type seats struct {
	mu     sync.Mutex
	all    []seat
	zones  map[string]*cluster.TopK
	crowds cluster.ResultCaches
	begin  int // where the next pod begins: nodes that are as good take turns
}

// A seat is a node with the facts that decide without Candor that a pod cannot run on it.
type seat struct {
	cluster.NodeRef
	generation int64         // of kube-scheduler's node info
	pods       int64         // number of pods that still fit
	taints     []v1.Taint    // that keep pods away
	zone       *cluster.TopK // the best of its zone are sought by themselves
}

// best returns the numbers of the best nodes for a pod: at most k, with the same number from each zone. It returns none if too many nodes
// must be asked, or if there are too many zones.
func (s *seats) best(of *cluster.Cluster, nodes []fwk.NodeInfo, pod *cluster.Pod, w *wanted, most int) (best []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read(of, nodes)
	answers := s.crowds.For(pod, len(nodes))
	for _, zone := range s.zones {
		zone.Start(pod, answers)
	}
	for i := range nodes {
		at := (s.begin + i) % len(nodes)
		if one := &s.all[at]; one.takes(w) {
			one.zone.Add(at, &one.NodeRef)
		}
	}
	s.begin = (s.begin + most) % len(nodes)
	zones := 0
	for _, zone := range s.zones {
		if zone.Len() > 0 {
			zones++
		}
	}
	ok := zones <= most
	for _, zone := range s.zones {
		switch {
		case !ok:
			zone.Stop()
		case zone.Len() > 0:
			best, ok = zone.Best(most/zones, best)
		}
	}
	if !ok {
		return nil
	}
	return best
}

// release gives up the memory of the seats, once the cluster is too small for them.
func (s *seats) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.zones, s.crowds, s.begin = nil, nil, cluster.ResultCaches{}, 0
}

// read brings the seats up to date.
func (s *seats) read(of *cluster.Cluster, nodes []fwk.NodeInfo) {
	if len(s.all) != len(nodes) || len(s.zones) > len(nodes) { // zones of deleted nodes
		s.all, s.zones = make([]seat, len(nodes)), map[string]*cluster.TopK{}
	}
	for i, node := range nodes {
		if s.all[i].generation != node.GetGeneration() { // no two states have the same, but in cycles of pod groups, which are not narrowed
			s.all[i] = s.seat(of, node)
		}
	}
}

func (s *seats) seat(of *cluster.Cluster, info fwk.NodeInfo) seat {
	node := info.Node()
	zone := node.Labels[v1.LabelTopologyZone]
	if s.zones[zone] == nil {
		s.zones[zone] = new(cluster.TopK)
	}
	return seat{
		NodeRef: of.NodeRef(node.Name, amountsOf(info)), generation: info.GetGeneration(),
		pods:   int64(info.GetAllocatable().GetAllowedPodNumber() - len(info.GetPods())),
		taints: taintsOf(node), zone: s.zones[zone],
	}
}

// taintsOf are the taints that keep pods away.
func taintsOf(node *v1.Node) []v1.Taint {
	taints := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t v1.Taint) bool {
		return t.Effect != v1.TaintEffectNoSchedule && t.Effect != v1.TaintEffectNoExecute
	})
	if node.Spec.Unschedulable {
		taints = append(taints, v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule})
	}
	return taints
}

// wanted is the demand of a pod besides Candor's resources.
type wanted struct {
	cpu         hybrid.Milli
	memory      int64
	tolerations []v1.Toleration
	log         klog.Logger
}

// takes reports whether kube-scheduler's own plugins can accept the pod on the node. If it is false, they refuse it.
func (s *seat) takes(w *wanted) bool {
	return s.pods > 0 && (w.cpu == 0 || w.cpu <= s.FreeCPU) && (w.memory == 0 || w.memory <= s.FreeMemory) && s.tolerates(w)
}

func (s *seat) tolerates(w *wanted) bool {
	for i := range s.taints {
		if !corev1.TolerationsTolerateTaint(w.log, w.tolerations, &s.taints[i], true) {
			return false
		}
	}
	return true
}
