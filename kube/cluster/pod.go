package cluster

import (
	"fmt"
	"slices"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/nodecpu"
)

// A Pod is a pod's demand for the CPUs of a node. It must not change after it was passed to a Cluster.
type Pod struct {
	UID, Namespace, Name string
	// Planned is true if a scheduler with Candor has placed the pod.
	Planned bool
	// Started is true if a container that does not run to completion is running, according to the pod's status.
	Started bool
	// Accepted is 0 until the kubelet has accepted the pod. Afterwards it is a resource version of the accepted pod. A report with a
	// higher resource version was written after the acceptance.
	Accepted uint64
	// Failed is true if the last attempt to create a container of the pod failed.
	Failed bool

	containers []Container
	lasting    []Container // the containers that do not run to completion
	combined   *Container  // a single container with the demand of all containers; nil if impossible
	memory     int64       // request in bytes
	query      fleet.Query
}

// A Container is a container of a pod.
type Container struct {
	Name    string
	Request hybrid.Request // its ID is the ID of the container in reports (nodecpu.Holder)
	// RunsToCompletion marks containers that end before the next container starts: init containers that are not sidecars.
	RunsToCompletion bool
}

// NewPod returns a pod with containers in start order. It sets the IDs of their requests. memory is the pod's memory request in bytes. An
// error names the container with an invalid request.
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
	p.combined = p.combine()
	p.buildQuery()
	return p, nil
}

// lasting returns the containers that do not run to completion. It returns the given slice if these are all containers.
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

// buildQuery computes query: the total demand of the pod, in the form that package fleet needs.
func (p *Pod) buildQuery() {
	p.query = fleet.NewQuery(&fleet.Request{Class: hybrid.Flexible, Guarantee: hybrid.NoGuarantee, Resources: []int64{p.memory}})
	for i := range p.lasting {
		r := &p.lasting[i].Request
		one := &fleet.Request{Class: r.Class, Policy: r.Policy, Topology: r.Topology, Limit: r.Limit, Guarantee: r.Guarantee, Resources: []int64{p.memory}}
		if i == 0 {
			p.query = fleet.NewQuery(one)
		} else {
			p.query.Add(one)
		}
	}
}

// IsEmpty reports whether the pod has no container that needs CPUs from Candor.
func (p *Pod) IsEmpty() bool { return len(p.containers) == 0 }

// NeedsCandor reports whether the pod has a strict container that is sensitive or has a topology policy. A node without Candor refuses such
// a pod.
func (p *Pod) NeedsCandor() bool {
	for i := range p.containers {
		r := &p.containers[i].Request
		if r.Policy == hybrid.Strict && (r.Class == hybrid.Sensitive || !r.IsPlain()) {
			return true
		}
	}
	return false
}

// combine returns a single container with the demand of all containers, or nil if there is no such container. Several containers can be
// combined if all are flexible without a topology policy, because such containers share the same CPUs and only the sum of their guarantees
// matters.
func (p *Pod) combine() *Container {
	if len(p.containers) == 1 && !p.containers[0].RunsToCompletion {
		return &p.containers[0]
	}
	sum, most := hybrid.Milli(0), hybrid.Milli(0) // sum of p.lasting; maximum of the containers that run to completion
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

// Lasting returns the requests of the containers that do not run to completion.
func (p *Pod) Lasting() []hybrid.Request {
	requests := make([]hybrid.Request, len(p.lasting))
	for i := range p.lasting {
		requests[i] = p.lasting[i].Request
	}
	return requests
}
