package cluster

import (
	"fmt"
	"slices"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/nodecpu"
)

// A Pod is the demand of a pod for the CPUs of a node. It is immutable once the cluster has it.
type Pod struct {
	UID, Namespace, Name string
	// Planned pods have the settings from a scheduler with Candor.
	Planned bool
	// Started pods run on their node, according to the node.
	Started bool
	// Accepted is the version of the pod in which its node's kubelet has accepted it; 0: not yet. Versions of pods and of nodes' reports
	// are compared.
	Accepted uint64
	// Failed pods have a container that their node failed to create at its last attempt.
	Failed bool

	containers []Container
	lasting    []Container // those that are not passing
	one        *Container  // a container that represents all of them; nil: there is none
	memory     int64
	asked      fleet.Query
}

// A Container is a container of a pod.
type Container struct {
	Name    string
	Request hybrid.Request // its ID is the container's name in reports (nodecpu.Holder)
	// RunsToCompletion marks containers that end before the next container starts: init containers that are not sidecars.
	RunsToCompletion bool
}

// NewPod returns a pod. The containers are in the order of their start, without unplanned containers; the IDs of their requests are set.
// memory is the pod's request in bytes. The error names a container with an invalid request.
func NewPod(uid, namespace, name string, memory int64, containers []Container) (*Pod, error) {
	p := &Pod{UID: uid, Namespace: namespace, Name: name, memory: memory, containers: containers}
	for i := range containers {
		c := &containers[i]
		c.Request.ID = nodecpu.Holder{Pod: uid, Container: c.Name}.ID()
		if err := c.Request.Check(); err != nil {
			return nil, fmt.Errorf("container %s: %s", c.Name, reason(err))
		}
	}
	p.lasting = lasting(containers)
	p.one = p.standIn()
	p.ask()
	return p, nil
}

// lasting are those that are not passing: the same list where that is all of them.
func lasting(containers []Container) (list []Container) {
	if !slices.ContainsFunc(containers, func(c Container) bool { return c.RunsToCompletion }) {
		return slices.Clip(containers)
	}
	for _, c := range containers {
		if !c.RunsToCompletion {
			list = append(list, c)
		}
	}
	return list
}

// ask computes the total demand of the pod.
func (p *Pod) ask() {
	p.asked = fleet.NewQuery(&fleet.Request{Class: hybrid.Flexible, Guarantee: hybrid.NoGuarantee, Resources: []int64{p.memory}})
	for i := range p.lasting {
		r := &p.lasting[i].Request
		one := &fleet.Request{Class: r.Class, Policy: r.Policy, Topology: r.Topology, Limit: r.Limit, Guarantee: r.Guarantee, Resources: []int64{p.memory}}
		if i == 0 {
			p.asked = fleet.NewQuery(one)
		} else {
			p.asked.Add(one)
		}
	}
}

// IsEmpty reports whether the pod has no planned container.
func (p *Pod) IsEmpty() bool { return len(p.containers) == 0 }

// NeedsCandor reports whether the pod has a container with a view or topology policy to keep: a node without Candor cannot take it.
func (p *Pod) NeedsCandor() bool {
	for i := range p.containers {
		r := &p.containers[i].Request
		if r.Policy == hybrid.Strict && (r.Class == hybrid.Sensitive || !r.IsPlain()) {
			return true
		}
	}
	return false
}

// standIn returns a single container with the demand of all of them: flexible containers without a topology policy share the same CPUs, so
// that only the sum of their guarantees counts. It returns nil if there is none.
func (p *Pod) standIn() *Container {
	if len(p.containers) == 1 && !p.containers[0].RunsToCompletion {
		return &p.containers[0]
	}
	sum, most := hybrid.Milli(0), hybrid.Milli(0) // of lasting containers; of a container that runs to completion
	for i := range p.containers {
		c := &p.containers[i]
		switch {
		case c.Request.Class != hybrid.Flexible || !c.Request.IsPlain():
			return nil
		case c.RunsToCompletion:
			most = max(most, c.Request.Guaranteed())
		default:
			sum += c.Request.Guaranteed()
		}
	}
	if len(p.containers) == 0 || most > sum || sum > hybrid.MaxLimit {
		return nil
	}
	r := hybrid.Request{ID: p.UID, Class: hybrid.Flexible, Guarantee: sum}
	if sum == 0 {
		r.Guarantee = hybrid.NoGuarantee
	}
	return &Container{Request: r}
}

// Lasting are the requests of the containers that stay when all have started.
func (p *Pod) Lasting() []hybrid.Request {
	requests := make([]hybrid.Request, len(p.lasting))
	for i := range p.lasting {
		requests[i] = p.lasting[i].Request
	}
	return requests
}
