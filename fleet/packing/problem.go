package packing

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// CPU is the name of the first resource. Its unit is milli-CPU; other resources have any unit.
const CPU = "cpu"

// An Item is an application with its demand, or a node with its capacity.
type Item struct {
	Name    string
	Amounts []int64 // in the order of List.Resources, CPU first
}

// A List is a list of applications or of nodes.
type List struct {
	Resources []string // CPU first
	Items     []Item
}

// Goal is the objective that a solution minimizes.
type Goal uint8

const (
	// Nodes minimizes the number of nodes with applications and then, for this number, the sharing.
	Nodes Goal = iota
	// Sharing minimizes the CPU time on CPUs of several applications.
	Sharing
)

var goalNames = []string{"nodes", "sharing"}

func (g Goal) String() string { return goalNames[g] }

// MarshalText returns the goal's name.
func (g Goal) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText parses a goal's name. The error for an unknown name lists the known names.
func (g *Goal) UnmarshalText(text []byte) error {
	i := slices.Index(goalNames, string(text))
	if i < 0 {
		return fmt.Errorf("%.40q: must be one of %s", text, joinNames(goalNames))
	}
	*g = Goal(i)
	return nil
}

// A Solution is an allocation of all applications.
type Solution struct {
	NodeOf  []int // by application: index of the application's node
	Used    int   // number of nodes with applications
	Shared  int64 // CPU time on CPUs that several applications use, in milli-CPU
	Optimal bool  // no allocation has a lower value of the objective
	Bound   int64 // lower bound on the objective of every allocation: nodes, or milli-CPU

	SharesLeast bool // no allocation with the same number of nodes shares less; for the goal Sharing, none with any number
}

// An Infeasible error explains why there is no solution.
type Infeasible struct {
	Resource string // the resource that is lacking; "" if several together are lacking
	Reason   string
}

func (e *Infeasible) Error() string { return "no allocation: " + e.Reason }

// A problem holds the applications and the nodes, with their resources in the same order.
type problem struct {
	resources []string
	apps      []Item
	nodes     []Item
}

// ErrOtherResources reports that applications and nodes have different resources.
var ErrOtherResources = errors.New("must be the same")

// newProblem returns a problem with the nodes' resources in the order of the applications' resources.
func newProblem(apps, nodes List) (*problem, error) {
	p := &problem{apps.Resources, apps.Items, slices.Clone(nodes.Items)}
	mismatch := fmt.Errorf("applications have the resources %s, nodes %s: %w", joinNames(apps.Resources), joinNames(nodes.Resources), ErrOtherResources)
	if len(apps.Resources) != len(nodes.Resources) {
		return nil, mismatch
	}
	for n := range p.nodes {
		p.nodes[n].Amounts = make([]int64, len(p.resources))
		for r, name := range p.resources {
			at := slices.Index(nodes.Resources, name)
			if at < 0 {
				return nil, mismatch
			}
			p.nodes[n].Amounts[r] = nodes.Items[n].Amounts[at]
		}
	}
	return p, nil
}

func joinNames(names []string) string { return strings.Join(names, ", ") }

// sumOf returns the sum of a resource over all items.
func sumOf(items []Item, resource int) int64 {
	var sum int64
	for i := range items {
		sum += items[i].Amounts[resource]
	}
	return sum
}
