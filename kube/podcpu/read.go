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

// Context holds the settings of a pod's containers from sources outside the pod.
type Context struct {
	Profiles  []profile.Profile // of the pod's namespace
	Namespace profile.Values    // from the labels of the namespace
	Defaults  profile.Values
}

// A Demand is the demand of a pod on a node.
type Demand struct {
	*cluster.Pod
	Containers []ContainerValues // all containers, including those without a request in Pod
	Conflicts  []string          // differences between profiles, a line each
}

// ContainerValues are the settings of a container, merged from all sources.
type ContainerValues struct {
	Container string
	Values    profile.Values
}

// Read returns the demand of a pod. The demand omits containers with the setting preserve, and containers that have ended and
// will not restart. An error names the invalid setting.
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
			if !slices.Contains(a.Conflicts, line) { // several containers can have the same conflict
				a.Conflicts = append(a.Conflicts, line)
			}
		}
		if valueOr(r.Settings.Preserve, false) || p.hasEnded(c) {
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

// ReadBound returns the demand of a bound pod. Only the pod's annotations determine the settings, because the scheduler writes
// all settings into the annotations. If the annotations are invalid, ReadBound uses the default settings; the node reports the
// error.
func ReadBound(p *Pod) (*cluster.Pod, error) {
	a, err := Read(p, Context{})
	if err != nil {
		plain := *p
		plain.Metadata.Annotations = nil
		if a, err = Read(&plain, Context{}); err != nil {
			return nil, err
		}
	}
	a.Planned, a.Started = p.Metadata.Annotations[kube.HintKey] != "", p.isRunning(a.Pod)
	return a.Pod, nil
}

// WhyFlexible returns the reason why a container of the class sensitive becomes flexible, or "" if it stays sensitive. The reason
// is NoLimit or RequestNotLimit.
func (p *Pod) WhyFlexible(container string) (reason string) {
	_ = p.each(func(c *Container, _ bool) error {
		if c.Name != container {
			return nil
		}
		switch limit, request := p.cpuOf(c); {
		case limit <= 0:
			reason = NoLimit
		case request != limit:
			reason = RequestNotLimit
		}
		return nil
	})
	return reason
}

// Reasons of WhyFlexible, as candor nri logs them.
const (
	NoLimit         = "no-limit"
	RequestNotLimit = "request-not-limit"
)

// isRunning reports whether any container in planned.Lasting is running. These containers do not run to completion.
func (p *Pod) isRunning(planned *cluster.Pod) bool {
	return slices.ContainsFunc(planned.Lasting(), func(r hybrid.Request) bool {
		s := p.status(nodecpu.HolderOf(r.ID).Container)
		return s != nil && s.State.Running != nil
	})
}

// hasOwnCPU reports whether the pod has a CPU request or limit for the whole pod (spec.resources).
func (p *Pod) hasOwnCPU() bool {
	if p.Spec.Resources == nil {
		return false
	}
	_, requested := p.Spec.Resources.Requests[CPU]
	_, limited := p.Spec.Resources.Limits[CPU]
	return requested || limited
}

// noRequest is the request that corresponds to the kernel's minimum of cpu.shares. The kubelet sets this minimum if a container has no
// request, so candor nri cannot distinguish smaller requests from no request.
const noRequest hybrid.Milli = 2

// requestOf returns the request of a container. Its rules equal the rules of candor nri on the node: a sensitive container without a
// limit, or with a request that differs from its limit, becomes flexible.
func requestOf(limit, request hybrid.Milli, s *kube.Settings) hybrid.Request {
	h := hybrid.Request{Class: valueOr(s.Class, hybrid.Flexible), Policy: valueOr(s.Policy, hybrid.Strict), Topology: valueOr(s.Topology, hybrid.Prefer)}
	h.Immovable = !valueOr(s.Movable, true)
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

func valueOr[T any](said *T, otherwise T) T {
	if said == nil {
		return otherwise
	}
	return *said
}
