package simulate

import (
	"fmt"
	"math"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/trace"
)

// A Setting holds the trace and the options that all points of a sweep have in common.
type Setting struct {
	// Open opens the trace. Each replay calls Open.
	Open func() (trace.Reader, error)

	// CoresOfLargest is the number of CPUs of the largest machine, for traces whose amounts of CPU are fractions of this machine.
	CoresOfLargest float64
	// Overcommit multiplies the number of CPUs of every machine (see CPUs). It does not change requests and memory.
	Overcommit float64
	// Seed is the seed of the random selection of sensitive containers.
	Seed uint64
	// Machines, if not 0, replaces the number of the trace's machines (see ResizeMachines).
	Machines int

	// Progress, if not nil, receives the progress of the points.
	Progress *Progress

	// canStop, if not nil, is called after each event. If it returns true, the replay stops with errTargetMissed.
	canStop func(*Result) bool
}

// Largest values of a setting.
const (
	MaxCores      = 1024 // capacity of a cpuset
	MaxOvercommit = 100
)

// Check returns an error if the setting is invalid.
func (s *Setting) Check() error {
	switch {
	case s.Open == nil:
		return fmt.Errorf("no trace")
	case !(s.CoresOfLargest > 0 && s.CoresOfLargest <= MaxCores):
		return fmt.Errorf("cores of the largest machine %v: must be above 0, at most %d", s.CoresOfLargest, MaxCores)
	case !(s.Overcommit > 0 && s.Overcommit <= MaxOvercommit):
		return fmt.Errorf("overcommit %v: must be above 0, at most %d", s.Overcommit, MaxOvercommit)
	case s.Machines < 0 || s.Machines > fleet.MaxNodes:
		return fmt.Errorf("%d machines: must be 1 to %d", s.Machines, fleet.MaxNodes)
	}
	return nil
}

// CPUs returns the number of whole CPUs of a machine: the capacity in the trace times the overcommit factor, rounded down, so that no
// machine has more than its capacity. A machine with less than one CPU is not simulated.
func (s *Setting) CPUs(unit trace.Unit, cpu int32) int {
	milli := float64(unit.Milli(cpu, s.CoresOfLargest))
	const slack = 1e-6 // for products that rounding makes slightly less than a whole number
	return int(math.Floor(milli*s.Overcommit/1000 + slack))
}

// A Point selects the algorithm, the policy, the scheduler and the sensitive containers of a replay.
type Point struct {
	Algorithm hybrid.Algorithm
	Policy    hybrid.Policy
	Scheduler fleet.Order
	Sensitive Selection
}

// DefaultScheduler returns the scheduler that belongs to an algorithm.
func DefaultScheduler(a hybrid.Algorithm) fleet.Order {
	if a == hybrid.Paper {
		return fleet.Paper
	}
	return fleet.Candor
}
