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

// kube-scheduler calls every plugin for every one of thousands of nodes. For most pods that is wasted work, because Candor already knows its
// node order. So a pod without further constraints is evaluated on the best nodes only. This loses no better node: an omitted node is worse
// than each of them in its zone, or refused by Candor, or lacks CPU, memory or a toleration. If all of them refuse the pod for other
// reasons, all nodes are evaluated next.

// narrow returns the best nodes for a pod, nil where it has to be looked at on all.
func (p *Plugin) narrow(cycle fwk.CycleState, pod *v1.Pod, asks *asked, nodes []fwk.NodeInfo) *fwk.PreFilterResult {
	most := p.options.nodesToScore
	if len(nodes) <= most {
		p.seats.release()
	}
	if !p.narrows || len(nodes) <= most || !asks.IsSimple() || p.wide.has(pod.UID) || p.cluster.HeldOn(string(pod.UID)) != "" {
		return nil
	}
	w, ok := wantedBy(pod)
	if !ok {
		return nil
	}
	if cycle.ShouldRecordPluginMetrics() {
		began := time.Now()
		defer func() { narrowTime.Observe(time.Since(began).Seconds() / float64(len(nodes))) }()
	}
	w.log = p.log
	best := p.seats.best(p.cluster, nodes, asks.Pod, w, most)
	if len(best) == 0 {
		return nil // all are asked why
	}
	result := &fwk.PreFilterResult{NodeNames: make(sets.Set[string], len(best))}
	for _, at := range best {
		result.NodeNames.Insert(nodes[at].Node().Name)
	}
	return result
}

// wantedBy returns the pod's requests, and whether the pod has no further constraints on its node.
func wantedBy(pod *v1.Pod) (*wanted, bool) {
	spec := &pod.Spec
	if spec.NodeName != "" || len(spec.NodeSelector) > 0 || spec.Affinity != nil || len(spec.TopologySpreadConstraints) > 0 ||
		len(spec.ResourceClaims) > 0 || spec.SchedulingGroup != nil || pod.Status.NominatedNodeName != "" ||
		slices.ContainsFunc(spec.Volumes, isElsewhere) || slices.ContainsFunc(spec.Containers, hasHostPort) || slices.ContainsFunc(spec.InitContainers, hasHostPort) {
		return nil, false
	}
	w := &wanted{tolerations: spec.Tolerations}
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

// isElsewhere reports whether a volume may be on some nodes only.
func isElsewhere(v v1.Volume) bool {
	return v.ConfigMap == nil && v.Secret == nil && v.EmptyDir == nil && v.Projected == nil && v.DownwardAPI == nil && v.HostPath == nil
}

func hasHostPort(c v1.Container) bool {
	return slices.ContainsFunc(c.Ports, func(p v1.ContainerPort) bool { return p.HostPort > 0 })
}

// canNarrow reports whether the profile's plugins allow the evaluation of the best nodes only: the other plugins must refuse the nodes that
// narrow omits for them, and Candor must run before preemption.
func (p *Plugin) canNarrow() bool {
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
	first := plugins.PostFilter.Enabled
	return len(first) > 0 && first[0].Name == Name
}

// PostFilter queues a pod for an evaluation of all nodes if the best nodes refuse it for reasons other than Candor's. It does so before any
// preemption.
func (p *Plugin) PostFilter(_ context.Context, cycle fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if s := stateOf(cycle); s == nil || !s.narrowed {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	p.wide.add(pod.UID)
	if now, err := p.pods.Pods(pod.Namespace).Get(pod.Name); err != nil || now.UID != pod.UID { // it was deleted before
		p.wide.remove(pod.UID)
	}
	p.queue.Activate(p.log, map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
	return nil, fwk.NewStatus(fwk.Success, "the nodes that are best by Candor refuse it, so it is tried on all next")
}

// wide are the pods to evaluate on all nodes, since other plugins refuse the best nodes.
type wide struct {
	mu   sync.Mutex
	uids map[types.UID]bool
}

func (w *wide) has(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.uids[uid]
}

func (w *wide) add(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.uids == nil {
		w.uids = map[types.UID]bool{}
	}
	w.uids[uid] = true
}

func (w *wide) remove(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.uids, uid)
}
