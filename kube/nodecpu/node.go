package nodecpu

import (
	"errors"
	"fmt"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// ErrBadReport is a report that no agent writes.
var ErrBadReport = errors.New("bad report")

// ErrNoReport is a NodeCPU without a report so far.
var ErrNoReport = errors.New("no report yet")

// Node converts a report to a node, with every container at its place under the name from ID. The node plans as the agent would.
// ErrBadReport: a report that contradicts itself, or has CPUs outside its machine. ErrNoReport: an empty report.
func Node(s *v1alpha1.NodeCPUStatus) (*hybrid.Node, error) {
	if s.Counter == 0 && s.Machine.Online == "" {
		return nil, ErrNoReport
	}
	node, err := emptyNode(s)
	if err == nil {
		err = restore(node, s)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadReport, err)
	}
	return node, nil
}

// emptyNode is the node without containers.
func emptyNode(s *v1alpha1.NodeCPUStatus) (*hybrid.Node, error) {
	machine, err := machineOf(&s.Machine)
	if err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	usable, err := cpuset.Parse(s.Usable)
	if err != nil {
		return nil, fmt.Errorf("usable: %w", err)
	}
	reserved, err := cpuset.Parse(s.Reserved)
	if err != nil {
		return nil, fmt.Errorf("reserved: %w", err)
	}
	// The usable CPUs show which of the isolated CPUs the node allocates.
	options := hybrid.Options{Usable: usable, Reserved: reserved, UseIsolated: true}
	if err := options.Algorithm.UnmarshalText([]byte(s.Algorithm)); err != nil {
		return nil, err
	}
	if options.MinShared, err = amount(s.MinShared); err != nil {
		return nil, fmt.Errorf("minShared: %w", err)
	}
	switch {
	case usable.IsEmpty():
		return nil, errors.New("usable: no CPU")
	case !usable.SubsetOf(&machine.Online):
		return nil, fmt.Errorf("usable: CPUs %v are not online", usable.Minus(machine.Online))
	case usable.Overlaps(&reserved):
		return nil, fmt.Errorf("usable: CPUs %v are reserved", usable.Intersect(reserved))
	}
	return hybrid.NewNode(machine, options)
}

// restore restores the grants of the containers.
func restore(n *hybrid.Node, s *v1alpha1.NodeCPUStatus) error {
	grants := make([]hybrid.Grant, len(s.Grants))
	var promised hybrid.Milli
	for i := range s.Grants {
		g, err := grantOf(&s.Grants[i], n)
		if err != nil {
			return fmt.Errorf("grant %d (%.80q): %w", i, s.Grants[i].Container, err)
		}
		promised += g.Guaranteed()
		grants[i] = g
	}
	// A larger sum than any machine's would overflow sums over nodes.
	if promised > hybrid.MaxLimit {
		return fmt.Errorf("%d grants add up to %v: the maximum is %v", len(grants), promised, hybrid.MaxLimit)
	}
	if err := n.Restore(grants); err != nil {
		return err
	}
	if has := v1alpha1.Fingerprint(s.Pods()); s.Fingerprint != has {
		return fmt.Errorf("fingerprint %.40q: that of its pods is %s", s.Fingerprint, has)
	}
	return checkPools(&s.Pools, n.Pools())
}

// checkPools compares the pools of a report with the pools from its grants.
func checkPools(told *v1alpha1.Pools, are hybrid.Pools) error {
	for _, pool := range []struct {
		name, told string
		are        cpuset.Set
	}{
		{"exclusive", told.Exclusive, are.Exclusive},
		{"fractional", told.Fractional, are.Fractional},
		{"shared", told.Shared, are.Shared},
	} {
		set, err := cpuset.Parse(pool.told)
		if err != nil {
			return fmt.Errorf("pools: %s: %w", pool.name, err)
		}
		if set != pool.are {
			return fmt.Errorf("pools: %s CPUs %q: by its grants they are %q", pool.name, set, pool.are)
		}
	}
	return nil
}

// amount reads an amount of CPU; "" is none.
func amount(s string) (hybrid.Milli, error) {
	if s == "" {
		return 0, nil
	}
	return hybrid.ParseMilli(s)
}
