package scheduler

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/candor-project/candor/hybrid"
)

// kube-scheduler calls every plugin for every one of thousands of nodes. For most pods that is wasted work, because Candor can compute the
// order of the nodes faster. So Candor preselects the best nodes for a pod without node constraints, and kube-scheduler evaluates only
// these. No better node is lost: each omitted node ranks no better than the preselected nodes of its zone, or refuses the pod. Such a
// refusal comes from Candor, or from kube-scheduler's checks of resources and taints. If all preselected nodes refuse the pod,
// kube-scheduler evaluates all nodes in the next attempt.

// preselect returns the best nodes for a pod, or nil if all nodes must be evaluated.
func (p *Plugin) preselect(cycle fwk.CycleState, pod *v1.Pod, demand *podDemand, nodes []fwk.NodeInfo) *fwk.PreFilterResult {
	maxNodes := p.options.nodesToScore
	if len(nodes) <= maxNodes {
		p.nodeCache.release()
	}
	if !p.mayPreselect || len(nodes) <= maxNodes || !demand.IsSimple() || p.fullScan.has(pod.UID) || p.cluster.HeldOn(string(pod.UID)) != "" {
		return nil
	}
	w, ok := plainRequestOf(pod)
	if !ok {
		return nil
	}
	if cycle.ShouldRecordPluginMetrics() {
		began := time.Now()
		defer func() { preselectTime.Observe(time.Since(began).Seconds() / float64(len(nodes))) }()
	}
	w.log = p.log
	best := p.nodeCache.best(p.cluster, nodes, demand.Pod, w, maxNodes)
	if len(best) == 0 {
		return nil // kube-scheduler evaluates all nodes, and collects the reasons for their refusals
	}
	result := &fwk.PreFilterResult{NodeNames: make(sets.Set[string], len(best))}
	for _, at := range best {
		result.NodeNames.Insert(nodes[at].Node().Name)
	}
	return result
}

// plainRequestOf returns the pod's CPU and memory requests and tolerations. It returns false if the pod has other constraints on its node.
func plainRequestOf(pod *v1.Pod) (*plainRequest, bool) {
	spec := &pod.Spec
	if spec.NodeName != "" || len(spec.NodeSelector) > 0 || spec.Affinity != nil || len(spec.TopologySpreadConstraints) > 0 ||
		len(spec.ResourceClaims) > 0 || spec.SchedulingGroup != nil || pod.Status.NominatedNodeName != "" ||
		slices.ContainsFunc(spec.Volumes, isNodeSpecific) || slices.ContainsFunc(spec.Containers, hasHostPort) || slices.ContainsFunc(spec.InitContainers, hasHostPort) {
		return nil, false
	}
	w := &plainRequest{tolerations: spec.Tolerations}
	for name, amount := range resource.PodRequests(pod, resource.PodResourcesOptions{}) {
		switch name {
		case v1.ResourceCPU:
			w.cpu = hybrid.Milli(amount.MilliValue())
		case v1.ResourceMemory:
			w.memory = amount.Value()
		default:
			if !amount.IsZero() {
				return nil, false
			}
		}
	}
	return w, true
}

// isNodeSpecific reports whether a volume can be limited to some nodes.
func isNodeSpecific(v v1.Volume) bool {
	return v.ConfigMap == nil && v.Secret == nil && v.EmptyDir == nil && v.Projected == nil && v.DownwardAPI == nil && v.HostPath == nil
}

func hasHostPort(c v1.Container) bool {
	return slices.ContainsFunc(c.Ports, func(p v1.ContainerPort) bool { return p.HostPort > 0 })
}

// canPreselect reports whether the profile allows a preselection. The profile needs the plugins whose checks the preselection
// anticipates. Candor's PostFilter must run before preemption: first the pod must be tried on the nodes that the preselection
// omitted.
func (p *Plugin) canPreselect() bool {
	profile, ok := p.handle.(interface{ ListPlugins() *config.Plugins })
	if !ok {
		return false
	}
	plugins := profile.ListPlugins()
	for _, name := range []string{names.NodeResourcesFit, names.NodeUnschedulable, names.TaintToleration} {
		if !slices.ContainsFunc(plugins.Filter.Enabled, func(one config.Plugin) bool { return one.Name == name }) {
			return false
		}
	}
	postFilters := plugins.PostFilter.Enabled
	return len(postFilters) > 0 && postFilters[0].Name == Name
}

// PostFilter queues a pod for an evaluation of all nodes if all preselected nodes have refused it. It runs before preemption, so that no
// pod is preempted while other nodes have room.
func (p *Plugin) PostFilter(_ context.Context, cycle fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if s := stateOf(cycle); s == nil || !s.isPreselected {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	p.fullScan.add(pod.UID)
	if now, err := p.pods.Pods(pod.Namespace).Get(pod.Name); err != nil || now.UID != pod.UID { // the pod was deleted, and no further event would remove the entry
		p.fullScan.remove(pod.UID)
	}
	p.queue.Activate(p.log, map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
	return nil, fwk.NewStatus(fwk.Success, "the nodes that are best by Candor refuse it, so it is tried on all next")
}

// A uidSet is a set of UIDs of pods. It is safe for concurrent use.
type uidSet struct {
	mu   sync.Mutex
	uids map[types.UID]bool
}

func (w *uidSet) has(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.uids[uid]
}

func (w *uidSet) add(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.uids == nil {
		w.uids = map[types.UID]bool{}
	}
	w.uids[uid] = true
}

func (w *uidSet) remove(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.uids, uid)
}
