package scheduler

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/candor-project/candor/kube/cluster"
	"github.com/candor-project/candor/kube/podcpu"
	"github.com/candor-project/candor/kube/profile"
)

// An asked pod is the demand of a pod, with the settings to write into it.
type asked struct {
	*cluster.Pod
	notes     map[string]string // annotations for settings that the pod does not have
	conflicts []string          // where profiles differ, a line each
}

// askedBy reads a pending pod. The error names an invalid setting.
func (s *shared) askedBy(pod *v1.Pod) (*asked, error) {
	profiles, labels := s.places.of(pod)
	return read(pod, profiles, labels, s.options.defaults)
}

// boundAs reads a pod that has a node.
func boundAs(pod *v1.Pod) (*cluster.Pod, error) {
	p, err := podcpu.ReadBound(podOf(pod))
	if err != nil {
		return nil, err
	}
	if pod.Status.StartTime != nil { // the kubelet sets it when it accepts the pod
		p.Accepted = versionOf(pod.ResourceVersion)
	}
	p.Failed = slices.ContainsFunc(pod.Status.InitContainerStatuses, hasFailed) || slices.ContainsFunc(pod.Status.ContainerStatuses, hasFailed)
	return p, nil
}

// createFailed is the kubelet's reason for a container that the runtime did not create: also where a plugin of the runtime, such as candor
// nri, has refused it.
const createFailed = "CreateContainerError"

func hasFailed(c v1.ContainerStatus) bool {
	return c.State.Waiting != nil && c.State.Waiting.Reason == createFailed
}

// read reads a pod.
func read(pod *v1.Pod, profiles []profile.Profile, labels, defaults profile.Values) (*asked, error) {
	a, err := podcpu.Read(podOf(pod), podcpu.Context{Profiles: profiles, Namespace: labels, Defaults: defaults})
	if err != nil {
		return nil, err
	}
	notes := newNotes(pod.Annotations)
	for _, c := range a.Containers {
		notes.add(c.Container, c.Values)
	}
	return &asked{Pod: a.Pod, notes: notes.all(), conflicts: a.Conflicts}, nil
}
