package podcpu

import (
	"maps"
	"slices"
	"strings"

	"github.com/candor-project/candor/hybrid"
)

// Value returns the amount of a resource, rounded up to an integer, or 0 if the list does not have the resource.
func (l List) Value(name string) int64 {
	q := l[name]
	return q.Value()
}

// MilliCPU returns the amount of CPU in milli-CPU.
func (l List) MilliCPU() hybrid.Milli {
	q := l[CPU]
	return hybrid.Milli(q.MilliValue())
}

// Add adds each amount of other to the same resource of l.
func (l List) Add(other List) {
	for name, q := range other {
		sum := l[name]
		sum.Add(q)
		l[name] = sum
	}
}

// raise sets each amount of l to the maximum of the amounts in l and other.
func (l List) raise(other List) {
	for name, q := range other {
		if has, is := l[name]; !is || q.Cmp(has) > 0 {
			l[name] = q
		}
	}
}

// larger returns the maximum of each amount in several lists.
func larger(lists ...List) List {
	all := List{}
	for _, l := range lists {
		all.raise(l)
	}
	return all
}

// requests returns the requests of a container. A missing request defaults to the limit, as in the API server.
func (r *Resources) requests() List {
	if len(r.Limits) == 0 {
		return r.Requests
	}
	all := maps.Clone(r.Limits)
	maps.Copy(all, r.Requests)
	return all
}

// cpuOf returns the CPU limit and request of a container. A missing request defaults to the limit. During a resize, the request is the
// maximum of the desired value and the value that the kubelet has accepted, or the accepted value if the resize is infeasible. If
// the limit equals the desired request, cpuOf returns the same value for both. It ignores the actual values in the status,
// because they contain the CPU weights that candor nri sets.
func (p *Pod) cpuOf(c *Container) (limit, request hybrid.Milli) {
	limit, request = c.Resources.Limits.MilliCPU(), c.Resources.Requests.MilliCPU()
	if limit > 0 {
		limit = max(limit, hybrid.MinLimit)
	}
	if _, given := c.Resources.Requests[CPU]; !given {
		request = limit
	}
	s := p.status(c.Name)
	if s == nil {
		return limit, request
	}
	if _, agreed := s.Allocated[CPU]; !agreed {
		return limit, request
	}
	isGuaranteed := limit == request
	if agreed := s.Allocated.MilliCPU(); agreed > request || p.cannotResize() {
		request = agreed
	}
	if isGuaranteed {
		limit = request
	}
	return limit, request
}

// cannotResize reports whether the kubelet has rejected the resize of the pod as infeasible.
func (p *Pod) cannotResize() bool {
	i := slices.IndexFunc(p.Status.Conditions, func(c Condition) bool { return c.Type == "PodResizePending" })
	return i >= 0 && p.Status.Conditions[i].Reason == "Infeasible"
}

// hugePages is the name prefix of huge-page resources. A pod as a whole (spec.resources) can only request CPU, memory and huge pages.
const hugePages = "hugepages-"

// Requests returns the resources that Kubernetes counts for the pod on its node: the largest sum of containers that run at the same time,
// in the init phase or after it. During a resize, each amount is the maximum of its desired, accepted and actual value.
func (p *Pod) Requests() List {
	asked := p.sum(func(c *Container, _ *ContainerStatus) List { return c.Resources.requests() })
	allocated := p.sum(p.allocated)
	actual := p.sum(p.actual)
	all := larger(allocated, actual)
	if !p.cannotResize() {
		all.raise(asked)
	}
	if whole := p.Spec.Resources; whole != nil {
		for name, q := range whole.requests() {
			if name == CPU || name == Memory || strings.HasPrefix(name, hugePages) {
				all[name] = q
			}
		}
	}
	all.Add(p.Spec.Overhead)
	return all
}

// allocated returns the requests that the kubelet has accepted for a container. Without a status, these are the desired requests, or nil if
// a resize is infeasible.
func (p *Pod) allocated(c *Container, s *ContainerStatus) List {
	switch {
	case s != nil && s.Allocated != nil:
		return s.Allocated
	case p.cannotResize():
		return nil
	default:
		return c.Resources.requests()
	}
}

// actual returns the requests that are in effect for a container, or the accepted requests if the status does not have them.
func (p *Pod) actual(c *Container, s *ContainerStatus) List {
	if s != nil && s.Resources != nil && s.Resources.Requests != nil {
		return s.Resources.Requests
	}
	return p.allocated(c, s)
}

// sum returns the largest sum of resources over the containers that run at the same time. The argument of sum is a function that returns
// the resources of a container.
func (p *Pod) sum(of func(*Container, *ContainerStatus) List) List {
	lasting, initPeak := List{}, List{} // sum of sidecars and containers; maximum while an init container runs
	_ = p.each(func(c *Container, passing bool) error {
		r := of(c, p.status(c.Name))
		if !passing {
			lasting.Add(r)
			return nil
		}
		during := maps.Clone(lasting)
		during.Add(r)
		initPeak.raise(during)
		return nil
	})
	lasting.raise(initPeak)
	return lasting
}
