package podcpu

import (
	"errors"
	"slices"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/kube/cluster"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/profile"
)

// Context holds the settings of a pod from other sources.
type Context struct {
	Profiles  []profile.Profile // of its namespace
	Namespace profile.Values    // by the namespace's labels
	Defaults  profile.Values
}

// A Demand is the demand of a pod on a node.
type Demand struct {
	*cluster.Pod
	Containers []ContainerValues // all of them, also those that are not planned
	Conflicts  []string          // where profiles differ, a line each
}

// ContainerValues are the settings of a container from all sources.
type ContainerValues struct {
	Container string
	Values    profile.Values
}

// Read reads a pod: its containers in the order of their start, except those that have ended for good. The error names an invalid setting.
func Read(p *Pod, beside Context) (*Demand, error) {
	says := &profile.Pod{Annotations: p.Metadata.Annotations, Labels: p.Metadata.Labels}
	a := &Demand{}
	var planned []cluster.Container
	sensitive := false
	err := p.each(func(c *Container, passing bool) error {
		r, err := profile.Resolve(says, profile.Container{Name: c.Name, Image: c.Image}, beside.Profiles, beside.Namespace, beside.Defaults)
		if err != nil {
			return err
		}
		a.Containers = append(a.Containers, ContainerValues{c.Name, r.Values})
		for _, line := range r.Conflicts {
			if !slices.Contains(a.Conflicts, line) { // reported for another container before
				a.Conflicts = append(a.Conflicts, line)
			}
		}
		if get(r.Settings.Preserve, false) || p.hasEnded(c) {
			return nil
		}
		limit, guaranteed := p.cpuOf(c)
		request := requestOf(limit, guaranteed, &r.Settings)
		sensitive = sensitive || request.Class == hybrid.Sensitive
		planned = append(planned, cluster.Container{Name: c.Name, Request: request, RunsToCompletion: passing})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if sensitive && p.hasOwnCPU() {
		return nil, errors.New("CPU of the whole pod (spec.resources) with a sensitive container: specify it at the containers")
	}
	m := &p.Metadata
	a.Pod, err = cluster.NewPod(m.UID, m.Namespace, m.Name, p.Requests().Value(Memory), planned)
	return a, err
}

// ReadBound reads a bound pod, whose annotations alone count. If they are invalid, which the node reports too, the pod counts by its
// requests.
func ReadBound(p *Pod) (*cluster.Pod, error) {
	a, err := Read(p, Context{})
	if err != nil {
		plain := *p
		plain.Metadata.Annotations = nil
		if a, err = Read(&plain, Context{}); err != nil {
			return nil, err
		}
	}
	a.Planned, a.Started = p.Metadata.Annotations[kube.HintKey] != "", p.runs(a.Pod)
	return a.Pod, nil
}

// runs reports whether a planned lasting container runs.
func (p *Pod) runs(planned *cluster.Pod) bool {
	return slices.ContainsFunc(planned.Lasting(), func(r hybrid.Request) bool {
		s := p.status(nodecpu.HolderOf(r.ID).Container)
		return s != nil && s.State.Running != nil
	})
}

// hasOwnCPU reports whether a pod has CPU requests or limits besides those of its containers.
func (p *Pod) hasOwnCPU() bool {
	if p.Spec.Resources == nil {
		return false
	}
	_, requested := p.Spec.Resources.Requests[CPU]
	_, limited := p.Spec.Resources.Limits[CPU]
	return requested || limited
}

// noRequest is the smallest value of the kernel's shares, which also means no request.
const noRequest hybrid.Milli = 2

// requestOf returns the request of a container, by the rules of candor nri on the node.
func requestOf(limit, request hybrid.Milli, s *kube.Settings) hybrid.Request {
	h := hybrid.Request{Class: get(s.Class, hybrid.Flexible), Policy: get(s.Policy, hybrid.Strict), Topology: get(s.Topology, hybrid.Prefer)}
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
