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

// stateKey is the key of the pod's state in a scheduling cycle.
const stateKey fwk.StateKey = Name

// A state is the state of the pod in a scheduling cycle.
type state struct {
	pod    *asked
	trials map[string]*cluster.Trial // of nodes with other pods than they have, by name
	// narrowed pods are looked at on the best nodes only.
	narrowed bool
}

// Clone implements fwk.StateData: preemption tries nodes side by side, each with a state of its own.
func (s *state) Clone() fwk.StateData {
	c := &state{pod: s.pod, trials: maps.Clone(s.trials), narrowed: s.narrowed}
	for name, t := range c.trials {
		c.trials[name] = t.Clone()
	}
	return c
}

// stateOf returns the state of a cycle, nil if PreFilter has not been.
func stateOf(cycle fwk.CycleState) *state {
	if data, err := cycle.Read(stateKey); err == nil {
		if s, ok := data.(*state); ok {
			return s
		}
	}
	return nil
}

var errNotSynced = errors.New("the nodes' reports are still being read")

// PreFilter reads the pod's demand, and finds the best nodes for it.
func (p *Plugin) PreFilter(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if !p.awaitSync(ctx) {
		return nil, fwk.AsStatus(errNotSynced)
	}
	asks, err := p.askedBy(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	if r := p.awaits(pod, asks); r != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, r.Reason)
	}
	best := p.narrow(cycle, pod, asks, nodes)
	cycle.Write(stateKey, &state{pod: asks, narrowed: best != nil})
	return best, nil
}

// awaits returns a refusal if a preemptor only waits for the report of its victims' end. Meanwhile preemption clears the nomination, but
// the room stays held.
func (p *Plugin) awaits(pod *v1.Pod, asks *asked) *cluster.Refusal {
	name := cmp.Or(pod.Status.NominatedNodeName, p.cluster.HeldOn(string(pod.UID)))
	if name == "" {
		return nil
	}
	node, err := p.handle.SnapshotSharedLister().NodeInfos().Get(name)
	if err != nil {
		return nil //nolint:nilerr // the node was deleted: the error means only that
	}
	return p.cluster.HoldFor(name, asks.Pod, present(node), p.now())
}

// PreFilterExtensions lets preemption try nodes without some of their pods.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod adds a pod to the trial of its node.
func (p *Plugin) AddPod(_ context.Context, cycle fwk.CycleState, _ *v1.Pod, other fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	if s := stateOf(cycle); s != nil {
		if asks, err := p.asOf(other.GetPod()); err == nil { // else no node has room for it
			p.trial(s, node).Add(asks)
		}
	}
	return nil
}

// asOf reads a bound or nominated pod.
func (s *shared) asOf(pod *v1.Pod) (*cluster.Pod, error) {
	if pod.Spec.NodeName != "" {
		return boundAs(pod)
	}
	a, err := s.askedBy(pod)
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

// trial returns the trial of a node.
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
