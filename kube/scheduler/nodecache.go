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

// A nodeCache holds the nodes of kube-scheduler's last snapshot in the same order. Its entries are small, so that thousands of nodes fit
// into the CPU caches.
type nodeCache struct {
	mu     sync.Mutex
	nodes  []cachedNode
	zones  map[string]*cluster.TopK
	caches cluster.ResultCaches
	first  int // index of the first node for the next pod, so that equally good nodes take turns
}

// A cachedNode is a node with the facts that kube-scheduler's own plugins check.
type cachedNode struct {
	cluster.NodeRef
	generation int64         // of kube-scheduler's NodeInfo; it changes with each change of the node
	pods       int64         // number of further pods that the node allows
	taints     []v1.Taint    // taints that refuse pods without a toleration
	zone       *cluster.TopK // the search in the node's zone
}

// best returns the indexes of the best nodes for a pod: at most maxNodes, with the same maximum for each zone. It returns nil if too many
// nodes must be evaluated, or if there are more zones than maxNodes.
func (s *nodeCache) best(c *cluster.Cluster, nodes []fwk.NodeInfo, pod *cluster.Pod, w *plainRequest, maxNodes int) (best []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.update(c, nodes)
	cache := s.caches.For(pod, len(nodes))
	for _, zone := range s.zones {
		zone.Start(pod, cache)
	}
	for i := range nodes {
		at := (s.first + i) % len(nodes)
		if n := &s.nodes[at]; n.canTake(w) {
			n.zone.Add(at, &n.NodeRef)
		}
	}
	s.first = (s.first + maxNodes) % len(nodes)
	zones := 0
	for _, zone := range s.zones {
		if zone.Len() > 0 {
			zones++
		}
	}
	ok := zones <= maxNodes
	for _, zone := range s.zones {
		switch {
		case !ok:
			zone.Stop()
		case zone.Len() > 0:
			best, ok = zone.Best(maxNodes/zones, best)
		}
	}
	if !ok {
		return nil
	}
	return best
}

// release frees the memory of the cache. It is called if the cluster is too small for a preselection.
func (s *nodeCache) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes, s.zones, s.caches, s.first = nil, nil, cluster.ResultCaches{}, 0
}

// update replaces the cached nodes that differ from the nodes of a snapshot.
func (s *nodeCache) update(c *cluster.Cluster, nodes []fwk.NodeInfo) {
	if len(s.nodes) != len(nodes) || len(s.zones) > len(nodes) { // more zones than nodes: some zones have no nodes any more
		s.nodes, s.zones = make([]cachedNode, len(nodes)), map[string]*cluster.TopK{}
	}
	for i, node := range nodes {
		if s.nodes[i].generation != node.GetGeneration() { // a generation identifies a state, except in cycles of pod groups, which are not preselected
			s.nodes[i] = s.newNode(c, node)
		}
	}
}

func (s *nodeCache) newNode(c *cluster.Cluster, info fwk.NodeInfo) cachedNode {
	node := info.Node()
	zone := node.Labels[v1.LabelTopologyZone]
	if s.zones[zone] == nil {
		s.zones[zone] = new(cluster.TopK)
	}
	return cachedNode{
		NodeRef: c.NodeRef(node.Name, amountsOf(info)), generation: info.GetGeneration(),
		pods:   int64(info.GetAllocatable().GetAllowedPodNumber() - len(info.GetPods())),
		taints: taintsOf(node), zone: s.zones[zone],
	}
}

// taintsOf returns the taints that refuse pods without a toleration. A cordoned node has such a taint, too.
func taintsOf(node *v1.Node) []v1.Taint {
	taints := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t v1.Taint) bool {
		return t.Effect != v1.TaintEffectNoSchedule && t.Effect != v1.TaintEffectNoExecute
	})
	if node.Spec.Unschedulable {
		taints = append(taints, v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule})
	}
	return taints
}

// A plainRequest is the part of a pod's demand that kube-scheduler's own plugins check.
type plainRequest struct {
	cpu         hybrid.Milli
	memory      int64
	tolerations []v1.Toleration
	log         klog.Logger
}

// canTake reports whether kube-scheduler's own plugins can accept the pod on the node. If it returns false, these plugins certainly refuse
// the pod.
func (s *cachedNode) canTake(w *plainRequest) bool {
	return s.pods > 0 && (w.cpu == 0 || w.cpu <= s.FreeCPU) && (w.memory == 0 || w.memory <= s.FreeMemory) && s.tolerates(w)
}

func (s *cachedNode) tolerates(w *plainRequest) bool {
	for i := range s.taints {
		if !corev1.TolerationsTolerateTaint(w.log, w.tolerations, &s.taints[i], true) {
			return false
		}
	}
	return true
}
