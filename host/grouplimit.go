package host

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/hybrid"
)

// An ancestor of the containers' cgroups can have a quota: CPUQuota= of a systemd slice, or the limit of the container that runs
// Candor. All processes below that cgroup share the quota, so the quota limits the capacity, like the number of CPUs. Candor
// refuses a strict sensitive container if the sum for all containers below the cgroup would exceed the quota. The sum adds the
// limits of sensitive containers and the guarantees of flexible containers.
//
// The kernel does not divide such a quota. A container that uses more than its guarantee can cause throttling of its
// neighbors, and a warning reports that.

// A GroupLimit is the quota of a cgroup, which all containers below the cgroup share.
type GroupLimit struct {
	Group      string       // path of the cgroup
	Limit      hybrid.Milli // quota of the cgroup, in milli-CPU
	Containers []string     // IDs of the containers below it
}

// limitOf converts the quota of a bound to milli-CPU, rounded down.
func limitOf(b cgroup.Bound) hybrid.Milli {
	return hybrid.Milli(1000 * b.Quota.Microseconds() / b.Period.Microseconds())
}

// boundsOf returns the quotas of the ancestors of a container's cgroup, the nearest first. It leaves out the quota of a pod's cgroup: the
// kubelet computes that quota from the limits of the pod's containers, and Candor lifts it (podgroup.go).
func (h *Host) boundsOf(g *Grant) ([]cgroup.Bound, error) {
	path := g.Engine.Cgroup
	if g.Engine.Pod != "" {
		path = cmp.Or(g.Engine.PodGroup(), filepath.Dir(path))
	}
	switch path {
	case "":
		return h.tree.Group(g.ID).BoundsAbove()
	case "/":
		return nil, nil
	}
	return h.tree.EngineGroup(g.ID, path).BoundsAbove()
}

// isBelow reports whether a container's cgroup is below another cgroup.
func (h *Host) isBelow(g *Grant, path string) bool {
	groupPath := cmp.Or(g.Engine.Cgroup, h.tree.Group(g.ID).Path())
	return path == "/" || strings.HasPrefix(groupPath, path+"/")
}

// placeWithin places a container and checks its grant against the quotas of its cgroup's ancestors. On an error the caller undoes the
// placement (withRollback).
func (op *operation) placeWithin(g, held *Grant) error {
	if err := op.place(g, held); err != nil {
		return err
	}
	g.Grant, _ = op.node.Grant(g.ID)
	op.raiseHelpers(g)
	bounds, err := op.boundsOf(g)
	if err == nil {
		err = op.checkGuarantees(g, bounds)
	}
	if err == nil {
		err = op.checkQuotaV1(g, bounds)
	}
	if err == nil {
		op.warnOvercommit(g, bounds)
	}
	return err
}

// resizeWithin resizes a container as resizeNode does, with the checks of placeWithin. It skips checkGuarantees for a
// smaller size, because a smaller size lowers the sum of the limits below a cgroup.
func (op *operation) resizeWithin(g *Grant, limit, guarantee hybrid.Milli) error {
	return op.withRollback(func() error {
		if err := op.resizeNode(g, limit, guarantee); err != nil {
			return err
		}
		next := *g
		next.Grant, _ = op.node.Grant(g.ID)
		bounds, err := op.boundsOf(g)
		if err == nil && next.Guaranteed() > g.Guaranteed() {
			err = op.checkGuarantees(&next, bounds)
		}
		if err == nil && next.Quota != g.Quota {
			err = op.checkQuotaV1(&next, bounds)
		}
		if err == nil {
			op.warnOvercommit(&next, bounds)
		}
		return err
	})
}

// checkGuarantees refuses a strict sensitive container if the limits and guarantees of the containers below a cgroup
// would exceed the quota of that cgroup.
func (op *operation) checkGuarantees(g *Grant, bounds []cgroup.Bound) error {
	if g.Class != hybrid.Sensitive || g.Policy != hybrid.Strict {
		return nil
	}
	for _, b := range bounds {
		left := limitOf(b) - op.sumBelow(b, g, func(other *Grant) hybrid.Milli { return other.Guaranteed() })
		if g.Limit <= left {
			continue
		}
		return &hybrid.Refusal{ID: g.ID, Kind: hybrid.ErrNoCapacity, Text: fmt.Sprintf(
			"needs %s, and cgroup %s has a quota of %s (left: %s); raise that quota, request less, or use the policy best-effort",
			cpuText(g.Limit), b.Path, cpuText(limitOf(b)), cpuText(max(left, 0)))}
	}
	return nil
}

// checkQuotaV1 refuses, on cgroup v1, a quota that exceeds the quota of an ancestor of the container's cgroup. The kernel would refuse such
// a quota too, but with a bare EINVAL.
func (op *operation) checkQuotaV1(g *Grant, bounds []cgroup.Bound) error {
	if op.tree.Version() == 2 {
		return nil
	}
	for _, b := range bounds {
		if g.Quota > limitOf(b) {
			return &hybrid.Refusal{ID: g.ID, Kind: hybrid.ErrNoCapacity, Text: fmt.Sprintf(
				"needs a quota of %s, and cgroup v1 refuses more than the %s of cgroup %s; raise the quota of that cgroup, or request %s or less",
				cpuText(g.Quota), cpuText(limitOf(b)), b.Path, cpuText(limitOf(b)))}
		}
	}
	return nil
}

// warnOvercommit warns if the containers below an ancestor of the container's cgroup can use more than the ancestor's quota. It warns of
// the nearest such ancestor.
func (op *operation) warnOvercommit(g *Grant, bounds []cgroup.Bound) {
	for _, b := range bounds {
		if sum := maxUse(g) + op.sumBelow(b, g, maxUse); sum > limitOf(b) {
			op.log.Warn("the containers below a cgroup can use more than its quota, and the kernel throttles all of them when it runs out; raise that quota, or lower their limits",
				logName(g.ID, &g.Engine), "group", b.Path, "quota", cpuText(limitOf(b)), "can use", cpuText(sum))
			return
		}
	}
}

// sumBelow returns the sum of the results of figure for the containers below the cgroup of b. The container of the grant "without" does not
// count.
func (op *operation) sumBelow(b cgroup.Bound, without *Grant, figure func(*Grant) hybrid.Milli) (sum hybrid.Milli) {
	for _, other := range op.info {
		if other.ID != without.ID && op.isBelow(other, b.Path) {
			sum += figure(other)
		}
	}
	return sum
}

// maxUse returns the CPU time that a container can use per second: its limit, or all of its CPUs if that is less.
func maxUse(g *Grant) hybrid.Milli {
	if all := hybrid.Milli(1000 * g.CPUs.Count()); g.Limit == 0 || g.Limit > all {
		return all
	}
	return g.Limit
}

// cpuText formats an amount of CPU time: "1500m", "1 CPU", "2 CPUs".
func cpuText(m hybrid.Milli) string {
	switch {
	case m%1000 != 0:
		return m.String()
	case m == 1000:
		return "1 CPU"
	}
	return m.String() + " CPUs"
}

// GroupLimits returns the limits of three kinds of cgroups, ordered by path: Candor's parent cgroup, its ancestors, and the ancestors of
// the cgroups of engines' containers. It leaves out limits that allow all CPUs of the node or more.
func (h *Host) GroupLimits(s *Snapshot) ([]GroupLimit, error) {
	bounds, err := h.tree.BoundsOfParent()
	if err != nil {
		return nil, err
	}
	for i := range s.Grants {
		if above, err := h.boundsOf(&s.Grants[i]); err == nil { // an unreadable cgroup hides no other cgroup
			bounds = append(bounds, above...)
		}
	}
	usable := s.Node.Usable()
	all := hybrid.Milli(1000 * usable.Count())
	var limits []GroupLimit
	for _, b := range bounds {
		isKnown := slices.ContainsFunc(limits, func(l GroupLimit) bool { return l.Group == b.Path })
		if isKnown || limitOf(b) >= all {
			continue
		}
		limit := GroupLimit{Group: b.Path, Limit: limitOf(b), Containers: []string{}}
		for i := range s.Grants {
			if h.isBelow(&s.Grants[i], b.Path) {
				limit.Containers = append(limit.Containers, s.Grants[i].ID)
			}
		}
		limits = append(limits, limit)
	}
	slices.SortFunc(limits, func(a, b GroupLimit) int { return strings.Compare(a.Group, b.Group) })
	return limits, nil
}

// Reservations returns the CPUs that foreign cgroups reserve for themselves.
func (h *Host) Reservations() ([]cgroup.Reservation, error) { return h.tree.Reservations() }
