package scheduler

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/candor-project/candor/kube/cluster"
	"github.com/candor-project/candor/kube/podcpu"
	"github.com/candor-project/candor/kube/profile"
)

// A podDemand is the demand of a pending pod, with the annotations to add to the pod.
type podDemand struct {
	*cluster.Pod
	annotations map[string]string // annotations to add (see podSettings)
	conflicts   []string          // differences between profiles, a line each
}

// demandOf returns the demand of a pending pod. An error names the invalid setting.
func (s *shared) demandOf(pod *v1.Pod) (*podDemand, error) {
	profiles, labels := s.sources.sourcesFor(pod)
	return readDemand(pod, profiles, labels, s.options.defaults)
}

// boundPod returns the demand of a bound pod.
func boundPod(pod *v1.Pod) (*cluster.Pod, error) {
	p, err := podcpu.ReadBound(podOf(pod))
	if err != nil {
		return nil, err
	}
	if pod.Status.StartTime != nil { // the kubelet sets the start time when it accepts the pod
		p.Accepted = versionOf(pod.ResourceVersion)
	}
	p.Failed = slices.ContainsFunc(pod.Status.InitContainerStatuses, hasFailed) || slices.ContainsFunc(pod.Status.ContainerStatuses, hasFailed)
	return p, nil
}

// createFailed is the kubelet's reason for a container that the runtime did not create. An example is a container that a plugin
// of the runtime, such as candor nri, has refused.
const createFailed = "CreateContainerError"

func hasFailed(c v1.ContainerStatus) bool {
	return c.State.Waiting != nil && c.State.Waiting.Reason == createFailed
}

// readDemand returns the demand of a pending pod, with settings from its annotations and the other sources.
func readDemand(pod *v1.Pod, profiles []profile.Profile, labels, defaults profile.Values) (*podDemand, error) {
	demand, err := podcpu.Read(podOf(pod), podcpu.Context{Profiles: profiles, Namespace: labels, Defaults: defaults})
	if err != nil {
		return nil, err
	}
	notes := newPodSettings(pod.Annotations)
	for _, c := range demand.Containers {
		notes.add(c.Container, c.Values)
	}
	return &podDemand{Pod: demand.Pod, annotations: notes.missing(), conflicts: demand.Conflicts}, nil
}
