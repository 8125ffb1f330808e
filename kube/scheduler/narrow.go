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

// Of thousands of nodes kube-scheduler asks its plugins about each, for most pods in vain: Candor's order is known before. So a
// pod of which nothing else is said than what it asks for is looked at on the best nodes only. Nothing better is lost by
// that: what is left out is worse than each of them in its zone, or refused by Candor or for want of CPU, memory or
// a toleration. Where all of them are refused for other reasons, the pod is tried on all nodes next.

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

// wantedBy returns what a pod asks for, and whether that is all that it says of where it can be.
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

// canNarrow reports whether the profile's plugins are such that pods may be looked at on the best nodes only: it is the others that
// refuse what narrow leaves out for them, and Candor is asked before pods are preempted.
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

// PostFilter has a pod tried on all nodes that the best ones refuse for reasons that are not Candor's. Nobody has to make way
// for it before.
func (p *Plugin) PostFilter(_ context.Context, cycle fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if s := stateOf(cycle); s == nil || !s.narrowed {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	p.wide.add(pod.UID)
	if now, err := p.pods.Pods(pod.Namespace).Get(pod.Name); err != nil || now.UID != pod.UID { // it was gone before
		p.wide.remove(pod.UID)
	}
	p.queue.Activate(p.log, map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
	return nil, fwk.NewStatus(fwk.Success, "the nodes that are best by Candor refuse it, so it is tried on all next")
}

// wide are the pods that are looked at on all nodes, for others than Candor refuse the best ones.
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
