package podcpu

import (
	"maps"
	"slices"
	"strings"

	"github.com/candor-project/candor/hybrid"
)

// Value returns an amount of a list, rounded up to a whole number; 0 if it is missing.
func (l List) Value(name string) int64 {
	q := l[name]
	return q.Value()
}

// MilliCPU is the CPU of a list.
func (l List) MilliCPU() hybrid.Milli {
	q := l[CPU]
	return hybrid.Milli(q.MilliValue())
}

// Add adds another list.
func (l List) Add(other List) {
	for name, q := range other {
		sum := l[name]
		sum.Add(q)
		l[name] = sum
	}
}

// raise makes each amount the larger of both.
func (l List) raise(other List) {
	for name, q := range other {
		if has, is := l[name]; !is || q.Cmp(has) > 0 {
			l[name] = q
		}
	}
}

// larger is the larger of each amount.
func larger(lists ...List) List {
	all := List{}
	for _, l := range lists {
		all.raise(l)
	}
	return all
}

// requests returns the requests of a container. The limits are the default, as in the API server.
func (r *Resources) requests() List {
	if len(r.Limits) == 0 {
		return r.Requests
	}
	all := maps.Clone(r.Limits)
	maps.Copy(all, r.Requests)
	return all
}

// cpuOf returns the CPU limit and request of a container; the limit is the default of the request. During a resize it returns the larger of
// the accepted and the desired values, without desired values that the node can never meet. (The actual values of the status do not count:
// they include the weights of the node's agent.)
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

// cannotResize reports whether the node reports the resize of the pod as infeasible.
func (p *Pod) cannotResize() bool {
	i := slices.IndexFunc(p.Status.Conditions, func(c Condition) bool { return c.Type == "PodResizePending" })
	return i >= 0 && p.Status.Conditions[i].Reason == "Infeasible"
}

// hugePages begins the names of those resources that a pod can have as a whole, beside CPU and memory.
const hugePages = "hugepages-"

// Requests returns the resources that Kubernetes counts for the pod on its node: the sum of the containers that run at the same time, or the
// maximum of the init containers if that is more; during a resize the larger of both.
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

// allocated returns the resources that the node has accepted for a container.
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

// actual returns the actual resources of a container.
func (p *Pod) actual(c *Container, s *ContainerStatus) List {
	if s != nil && s.Resources != nil && s.Resources.Requests != nil {
		return s.Resources.Requests
	}
	return p.allocated(c, s)
}

// sum sums up a function over the containers of a pod.
func (p *Pod) sum(of func(*Container, *ContainerStatus) List) List {
	stay, most := List{}, List{} // sidecars and containers; the most while init containers run
	_ = p.each(func(c *Container, passing bool) error {
		r := of(c, p.status(c.Name))
		if !passing {
			stay.Add(r)
			return nil
		}
		then := maps.Clone(stay)
		then.Add(r)
		most.raise(then)
		return nil
	})
	stay.raise(most)
	return stay
}
