package scheduler

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/cluster"
	"github.com/candor-project/candor/kube/nodecpu"
)

// stateIn returns the state of a container, nil where its node says none.
func stateIn(all []v1.ContainerStatus, name string) *v1.ContainerState {
	i := slices.IndexFunc(all, func(s v1.ContainerStatus) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &all[i].State
}

// hasEnded reports whether a container, but for init containers, has ended and is not started again: its node has given its room
// to others.
func hasEnded(pod *v1.Pod, c *v1.Container) bool {
	state := stateIn(pod.Status.ContainerStatuses, c.Name)
	if state == nil || state.Terminated == nil || len(c.RestartPolicyRules) > 0 {
		return false
	}
	policy := v1.ContainerRestartPolicy(pod.Spec.RestartPolicy)
	if c.RestartPolicy != nil {
		policy = *c.RestartPolicy
	}
	switch policy {
	case v1.ContainerRestartPolicyNever:
		return true
	case v1.ContainerRestartPolicyOnFailure:
		return state.Terminated.ExitCode == 0
	default:
		return false
	}
}

// runsOne reports whether one of a pod's planned containers runs that lasts.
func runsOne(pod *v1.Pod, planned *cluster.Pod) bool {
	return slices.ContainsFunc(planned.Lasting(), func(r hybrid.Request) bool {
		name := nodecpu.HolderOf(r.ID).Container
		for _, all := range [][]v1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
			if state := stateIn(all, name); state != nil && state.Running != nil {
				return true
			}
		}
		return false
	})
}
