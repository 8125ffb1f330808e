package scheduler

import (
	"cmp"
	"context"
	"errors"
	"maps"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/candor-project/candor/kube/cluster"
)

// stateKey is the key of the state in the data of a scheduling cycle.
const stateKey fwk.StateKey = Name

// A state is the plugin's data for a pod in a scheduling cycle.
type state struct {
	pod    *podDemand
	trials map[string]*cluster.Trial // hypothetical nodes for preemption, by name
	// isPreselected is true if kube-scheduler evaluates the pod only on the preselected nodes.
	isPreselected bool
}

// Clone implements fwk.StateData. Preemption tries several nodes in parallel, each with a clone of the state.
func (s *state) Clone() fwk.StateData {
	c := &state{pod: s.pod, trials: maps.Clone(s.trials), isPreselected: s.isPreselected}
	for name, t := range c.trials {
		c.trials[name] = t.Clone()
	}
	return c
}

// stateOf returns the state of a cycle, or nil if PreFilter has not run.
func stateOf(cycle fwk.CycleState) *state {
	if data, err := cycle.Read(stateKey); err == nil {
		if s, ok := data.(*state); ok {
			return s
		}
	}
	return nil
}

var errNotSynced = errors.New("the nodes' reports are still being read")

// PreFilter reads the pod's demand, and preselects the best nodes.
func (p *Plugin) PreFilter(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if !p.awaitSync(ctx) {
		return nil, fwk.AsStatus(errNotSynced)
	}
	demand, err := p.demandOf(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	if r := p.waitForVictims(pod, demand); r != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, r.Reason)
	}
	best := p.preselect(cycle, pod, demand, nodes)
	cycle.Write(stateKey, &state{pod: demand, isPreselected: best != nil})
	return best, nil
}

// waitForVictims returns a refusal if the pod has preempted other pods and only waits until the node reports their end. The cluster holds
// the room for the pod, even after preemption clears the nomination.
func (p *Plugin) waitForVictims(pod *v1.Pod, demand *podDemand) *cluster.Refusal {
	name := cmp.Or(pod.Status.NominatedNodeName, p.cluster.HeldOn(string(pod.UID)))
	if name == "" {
		return nil
	}
	node, err := p.handle.SnapshotSharedLister().NodeInfos().Get(name)
	if err != nil {
		return nil //nolint:nilerr // the only possible error is that the node was deleted
	}
	return p.cluster.HoldFor(name, demand.Pod, presentUIDs(node), p.now())
}

// PreFilterExtensions returns the methods with which preemption adds pods to nodes and removes pods.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod adds a pod to the trial of its node.
func (p *Plugin) AddPod(_ context.Context, cycle fwk.CycleState, _ *v1.Pod, other fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	if s := stateOf(cycle); s != nil {
		if demand, err := p.clusterPod(other.GetPod()); err == nil { // an invalid request fits on no node
			p.trial(s, node).Add(demand)
		}
	}
	return nil
}

// clusterPod returns the demand of a bound or nominated pod.
func (s *shared) clusterPod(pod *v1.Pod) (*cluster.Pod, error) {
	if pod.Spec.NodeName != "" {
		return boundPod(pod)
	}
	a, err := s.demandOf(pod)
	if err != nil {
		return nil, err
	}
	return a.Pod, nil
}

// RemovePod removes a pod from the trial of its node.
func (p *Plugin) RemovePod(_ context.Context, cycle fwk.CycleState, _ *v1.Pod, other fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	if s := stateOf(cycle); s != nil {
		p.trial(s, node).Remove(string(other.GetPod().UID))
	}
	return nil
}

// trial returns the trial of a node: preemption adds and removes pods there without effect on the node. The state keeps the trial for the
// next call.
func (p *Plugin) trial(s *state, node fwk.NodeInfo) *cluster.Trial {
	name := node.Node().Name
	if s.trials[name] == nil {
		if s.trials == nil {
			s.trials = map[string]*cluster.Trial{}
		}
		s.trials[name] = p.cluster.Trial(name)
	}
	return s.trials[name]
}
