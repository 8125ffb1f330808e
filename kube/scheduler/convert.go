package scheduler

import (
	v1 "k8s.io/api/core/v1"

	"github.com/candor-project/candor/kube/podcpu"
)

// podOf converts a pod to the type of podcpu, which has fewer fields.
func podOf(pod *v1.Pod) *podcpu.Pod {
	p := &podcpu.Pod{
		Metadata: podcpu.Metadata{
			Name: pod.Name, Namespace: pod.Namespace, UID: string(pod.UID), Labels: pod.Labels, Annotations: pod.Annotations,
		},
		Spec: podcpu.Spec{
			NodeName: pod.Spec.NodeName, RestartPolicy: string(pod.Spec.RestartPolicy), Overhead: listOf(pod.Spec.Overhead),
			InitContainers: containersOf(pod.Spec.InitContainers), Containers: containersOf(pod.Spec.Containers),
		},
		Status: podcpu.Status{
			Phase: string(pod.Status.Phase), Nominated: pod.Status.NominatedNodeName,
			InitContainers: statusesOf(pod.Status.InitContainerStatuses), Containers: statusesOf(pod.Status.ContainerStatuses),
		},
	}
	if pod.Spec.Resources != nil {
		whole := resourcesOf(pod.Spec.Resources)
		p.Spec.Resources = &whole
	}
	for _, c := range pod.Status.Conditions {
		p.Status.Conditions = append(p.Status.Conditions, podcpu.Condition{Type: string(c.Type), Reason: c.Reason})
	}
	return p
}

func containersOf(all []v1.Container) []podcpu.Container {
	containers := make([]podcpu.Container, len(all))
	for i := range all {
		c := &all[i]
		containers[i] = podcpu.Container{
			Name: c.Name, Image: c.Image, Resources: resourcesOf(&c.Resources), RestartRules: len(c.RestartPolicyRules) > 0,
		}
		if c.RestartPolicy != nil {
			containers[i].RestartPolicy = string(*c.RestartPolicy)
		}
	}
	return containers
}

func statusesOf(all []v1.ContainerStatus) []podcpu.ContainerStatus {
	statuses := make([]podcpu.ContainerStatus, len(all))
	for i := range all {
		from, to := &all[i], &statuses[i]
		to.Name, to.Allocated = from.Name, listOf(from.AllocatedResources)
		if from.Resources != nil {
			resources := resourcesOf(from.Resources)
			to.Resources = &resources
		}
		if from.State.Running != nil {
			to.State.Running = &struct{}{}
		}
		if ended := from.State.Terminated; ended != nil {
			to.State.Terminated = &podcpu.Terminated{ExitCode: ended.ExitCode}
		}
	}
	return statuses
}

func resourcesOf(r *v1.ResourceRequirements) podcpu.Resources {
	return podcpu.Resources{Requests: listOf(r.Requests), Limits: listOf(r.Limits)}
}

func listOf(list v1.ResourceList) podcpu.List {
	if list == nil {
		return nil
	}
	all := make(podcpu.List, len(list))
	for name, q := range list {
		all[string(name)] = q
	}
	return all
}
