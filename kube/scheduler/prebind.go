package scheduler

import (
	"context"
	"encoding/json"
	"maps"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/kube/nodecpu"
)

// PreBindPreFlight lets other plugins' work go on at the same time.
func (p *Plugin) PreBindPreFlight(_ context.Context, cycle fwk.CycleState, _ *v1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if stateOf(cycle) == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return &fwk.PreBindPreFlightResult{AllowParallel: true}, nil
}

// PreBind writes into the pod what it is planned as, so that its node takes it for the same whatever the node's own
// defaults are, and what the node would give it by what is known here.
func (p *Plugin) PreBind(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	s := stateOf(cycle)
	if s == nil {
		return nil
	}
	notes := maps.Clone(s.pod.notes)
	if hint, ok := hintOf(cycle, node); ok {
		notes[kube.HintKey] = hint
	}
	if len(notes) == 0 {
		return nil
	}
	// The UID keeps the patch from a pod of the same name that has come since.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": notes}})
	if err != nil {
		return fwk.AsStatus(err)
	}
	_, err = p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fwk.AsStatus(err)
	}
	// Once, whatever becomes of the pod: from now on it says itself what it is.
	for _, conflict := range s.pod.conflicts {
		p.handle.EventRecorder().Eventf(pod, nil, v1.EventTypeWarning, "CandorProfilesDiffer", "Resolving", "%s", conflict)
	}
	return nil
}

// hintOf says in words what was reserved on a node.
func hintOf(cycle fwk.CycleState, node string) (string, bool) {
	data, err := cycle.Read(grantsKey)
	if err != nil {
		return "", false
	}
	given, ok := data.(grants)
	if !ok || len(given) == 0 {
		return "", false
	}
	h := kube.Hint{Node: node, Containers: map[string]string{}}
	for i := range given {
		if g := &given[i]; g.Class == hybrid.Sensitive {
			h.Containers[nodecpu.HolderOf(g.ID).Container] = nodecpu.FormatCPUs(g.Exclusive, g.Fractions)
		}
	}
	if len(h.Containers) == 0 {
		return "", false
	}
	return h.String(), true
}
