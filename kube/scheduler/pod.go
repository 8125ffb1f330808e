package scheduler

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/kube/cluster"
	"github.com/candor-project/candor/kube/profile"
)

// An asked pod is what a pod asks of a node, and what is to be written into it.
type asked struct {
	*cluster.Pod
	notes     map[string]string // annotations that say what the pod does not say itself
	conflicts []string          // where profiles differ, a line each
}

// askedBy reads a pod that is to be placed. The error says what cannot be meant.
func (s *shared) askedBy(pod *v1.Pod) (*asked, error) {
	profiles, labels := s.places.of(pod)
	return read(pod, profiles, labels, s.options.defaults)
}

// boundAs reads a pod that has a node: that goes by the pod's annotations alone. Where they cannot be meant, which the node
// says too, the pod counts by what it requests.
func boundAs(pod *v1.Pod) (*cluster.Pod, error) {
	a, err := read(pod, nil, nil, nil)
	if err != nil {
		plain := *pod
		plain.Annotations = nil
		if a, err = read(&plain, nil, nil, nil); err != nil {
			return nil, err
		}
	}
	a.Planned, a.Started = pod.Annotations[kube.HintKey] != "", runsOne(pod, a.Pod)
	return a.Pod, nil
}

// read reads a pod: its containers in the order in which they start, but for those that have ended for good.
func read(pod *v1.Pod, profiles []profile.Profile, labels, defaults profile.Values) (*asked, error) {
	said := &profile.Pod{Annotations: pod.Annotations, Labels: pod.Labels}
	a, notes := &asked{}, newNotes(pod.Annotations)
	var planned []cluster.Container
	sensitive := false
	add := func(c *v1.Container, passing bool) error {
		r, err := profile.Resolve(said, profile.Container{Name: c.Name, Image: c.Image}, profiles, labels, defaults)
		if err != nil {
			return err
		}
		notes.add(c.Name, r.Values)
		a.conflicts = append(a.conflicts, r.Conflicts...)
		if get(r.Settings.Preserve, false) || hasEnded(pod, c) {
			return nil
		}
		request := requestOf(&c.Resources, &r.Settings)
		sensitive = sensitive || request.Class == hybrid.Sensitive
		planned = append(planned, cluster.Container{Name: c.Name, Request: request, Passing: passing})
		return nil
	}
	if err := each(pod, add); err != nil {
		return nil, err
	}
	if sensitive && hasOwnCPU(pod.Spec.Resources) {
		return nil, errors.New("CPU of the pod as a whole (spec.resources) beside a sensitive container: want it on the containers")
	}
	a.notes = notes.all()
	var err error
	a.Pod, err = cluster.NewPod(string(pod.UID), pod.Namespace, pod.Name, memoryOf(pod), planned)
	return a, err
}

// each does something with each container of a pod, in the order in which they start; passing are those that
// end before the next begins.
func each(pod *v1.Pod, do func(c *v1.Container, passing bool) error) error {
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if err := do(c, c.RestartPolicy == nil || *c.RestartPolicy != v1.ContainerRestartPolicyAlways); err != nil {
			return err
		}
	}
	for i := range pod.Spec.Containers {
		if err := do(&pod.Spec.Containers[i], false); err != nil {
			return err
		}
	}
	return nil
}

// hasOwnCPU reports whether a pod has CPU requests or limits besides those of its containers.
func hasOwnCPU(r *v1.ResourceRequirements) bool {
	if r == nil {
		return false
	}
	_, requested := r.Requests[v1.ResourceCPU]
	_, limited := r.Limits[v1.ResourceCPU]
	return requested || limited
}

// memoryOf is what a pod requests, in bytes, as Kubernetes counts it.
func memoryOf(pod *v1.Pod) int64 {
	memory := resource.PodRequests(pod, resource.PodResourcesOptions{})[v1.ResourceMemory]
	return memory.Value()
}

// noRequest is what the kernel's shares cannot tell from no request.
const noRequest hybrid.Milli = 2

// requestOf is what a container asks of its node, by the rules by which candor nri reads it there.
func requestOf(r *v1.ResourceRequirements, s *kube.Settings) hybrid.Request {
	limit := hybrid.Milli(r.Limits.Cpu().MilliValue())
	if limit > 0 {
		limit = max(limit, hybrid.MinLimit)
	}
	request := hybrid.Milli(r.Requests.Cpu().MilliValue())
	if _, given := r.Requests[v1.ResourceCPU]; !given {
		request = limit
	}
	h := hybrid.Request{Class: get(s.Class, hybrid.Flexible), Policy: get(s.Policy, hybrid.Strict), Wish: get(s.Topology, hybrid.Prefer)}
	h.Immovable = !get(s.Movable, true)
	h.Limit = limit
	if h.Class == hybrid.Sensitive && limit > 0 && request == limit {
		return h
	}
	h.Class, h.Guarantee = hybrid.Flexible, request
	if request <= noRequest {
		h.Guarantee = hybrid.NoGuarantee
	}
	return h
}

func get[T any](said *T, otherwise T) T {
	if said == nil {
		return otherwise
	}
	return *said
}
