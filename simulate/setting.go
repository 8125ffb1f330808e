package simulate

import (
	"fmt"
	"math"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/trace"
)

// A Setting is common to the points of a sweep.
type Setting struct {
	// Open opens the trace again for each point.
	Open func() (trace.Reader, error)

	// CoresOfLargest are the CPUs of the largest machine, where the trace has
	// fractions of it.
	CoresOfLargest float64
	// Overcommit multiplies the CPUs of every machine; see CPUs. Requests and
	// memory stay as they are.
	Overcommit float64
	// Seed is that of the choice of sensitive containers.
	Seed uint64
	// Machines, if not 0, replaces the number of the trace's machines; see ResizeMachines.
	Machines int

	// Progress, if not nil, receives the progress of the points.
	Progress *Progress

	// missed, if not nil, ends a replay in which something has happened.
	missed func(*Result) bool
}

// Largest values of a setting.
const (
	MaxCores      = 1024 // capacity of a cpuset
	MaxOvercommit = 100
)

// Check returns the error of an invalid setting.
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

// CPUs returns the whole CPUs of a machine: the trace's capacity times the overcommit factor, rounded down, so that no machine gets
// more than its capacity. A machine with less than a CPU takes no part.
func (s *Setting) CPUs(unit trace.Unit, cpu int32) int {
	milli := float64(unit.Milli(cpu, s.CoresOfLargest))
	const slack = 1e-6 // of products that a float misses by a hair
	return int(math.Floor(milli*s.Overcommit/1000 + slack))
}

// A Point is a replay of the trace.
type Point struct {
	Algorithm hybrid.Algorithm
	Policy    hybrid.Policy
	Scheduler fleet.Order
	Sensitive Selection
}

// OwnScheduler returns the scheduler that an algorithm was made with.
func OwnScheduler(a hybrid.Algorithm) fleet.Order {
	if a == hybrid.Paper {
		return fleet.Paper
	}
	return fleet.Candor
}
