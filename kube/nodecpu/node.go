package nodecpu

import (
	"errors"
	"fmt"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// ErrBadReport is the error for an invalid report, which no agent writes.
var ErrBadReport = errors.New("bad report")

// ErrNoReport is the error for a NodeCPU whose agent has not reported yet, or has given the node's containers back.
var ErrNoReport = errors.New("no report yet")

// Node converts a report to a node, which makes the same plans as the reporting agent. The grants have the IDs from Holder.ID. The error is
// ErrNoReport if the report is empty or has a phase. It is ErrBadReport if the report contradicts itself or has CPUs that the machine does not have.
func Node(s *v1alpha1.NodeCPUStatus) (*hybrid.Node, error) {
	if s.Counter == 0 && s.Machine.Online == "" {
		return nil, ErrNoReport
	}
	switch s.Phase {
	case "":
	case v1alpha1.GivenBack:
		return nil, fmt.Errorf("%w: Candor has given the node's containers back (giveBack of the chart)", ErrNoReport)
	default: // GivingBack
		return nil, fmt.Errorf("%w: Candor gives the node's containers back (giveBack of the chart)", ErrNoReport)
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

// emptyNode returns a node with the machine and the options of a report. The node has no grants yet.
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
	// UseIsolated only allows isolated CPUs. Usable already excludes the isolated CPUs that the node does not allocate.
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

// restore restores the grants of a report on the node, and checks the report's fingerprint and pools.
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
	// A larger sum could overflow when the scheduler adds up several nodes.
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

// checkPools returns an error if the pools in the report differ from the pools of the restored node.
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

// amount parses an amount of CPU. "" is 0.
func amount(s string) (hybrid.Milli, error) {
	if s == "" {
		return 0, nil
	}
	return hybrid.ParseMilli(s)
}
