package scheduler

import (
	"context"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/kube/nodecpu"
)

// Bind binds the pod to its node, and adds annotations to the pod in the same call: the API server copies a binding's annotations into the
// pod. The annotations contain a hint with the reserved CPUs, and the pod's settings, so that the node's own defaults do not apply. If a
// pod needs no annotations, Bind leaves the pod to the next binder.
func (p *Plugin) Bind(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	s := stateOf(cycle)
	if s == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	notes := maps.Clone(s.pod.annotations)
	if hint, ok := hintOf(cycle, node); ok {
		notes[kube.HintKey] = hint
	}
	if len(notes) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	err := p.createBinding(ctx, &v1.Binding{
		// With the UID, the binding cannot affect a new pod with the same name.
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: notes},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	})
	if err != nil {
		return fwk.AsStatus(err)
	}
	for _, conflict := range s.pod.conflicts {
		p.handle.EventRecorder().Eventf(pod, nil, v1.EventTypeWarning, "CandorProfilesDiffer", "Resolving", "%s", conflict)
	}
	return nil
}

// createBinding sends a binding to the API server in the same way as kube-scheduler's own binder.
func (p *Plugin) createBinding(ctx context.Context, binding *v1.Binding) error {
	if calls := p.handle.APICacher(); calls != nil {
		done, err := calls.BindPod(binding)
		if err != nil {
			return err
		}
		return calls.WaitOnFinish(ctx, done)
	}
	return util.BindPod(ctx, p.handle.ClientSet(), binding)
}

// checkBindOrder returns an error if another binder precedes the plugin, because pods that the other binder binds would lack Candor's
// annotations.
func (p *Plugin) checkBindOrder() error {
	profile, ok := p.handle.(interface{ ListPlugins() *config.Plugins })
	if !ok {
		return fmt.Errorf("plugin %s: kube-scheduler does not say which plugins bind", Name)
	}
	if binders := profile.ListPlugins().Bind.Enabled; len(binders) == 0 || binders[0].Name != Name {
		return fmt.Errorf("profile %s: plugin %s must bind before other plugins: use bind: {enabled: [{name: %[2]s}]} beside multiPoint", p.handle.ProfileName(), Name)
	}
	return nil
}

// hintOf returns the value of the hint annotation: the node, and the CPUs that are reserved there for sensitive containers. It returns
// false if no CPUs are reserved there.
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
