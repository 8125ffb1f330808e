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
	Amounts []int64 // in the order of the list's resources; CPU first
}

// A List is applications or nodes.
type List struct {
	Resources []string // CPU first
	Items     []Item
}

// Goal is the objective that a solution minimizes.
type Goal uint8

const (
	// Nodes: as few nodes as possible have applications; with as many, as little sharing as possible.
	Nodes Goal = iota
	// Sharing: as little CPU time as possible is on CPUs that several applications use.
	Sharing
)

var goalNames = []string{"nodes", "sharing"}

func (g Goal) String() string { return goalNames[g] }

// MarshalText writes the goal's name.
func (g Goal) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText parses a goal's name. The error for an unknown name lists the known names.
func (g *Goal) UnmarshalText(text []byte) error {
	i := slices.Index(goalNames, string(text))
	if i < 0 {
		return fmt.Errorf("%.40q: must be one of %s", text, list(goalNames))
	}
	*g = Goal(i)
	return nil
}

// A Solution is where each application goes.
type Solution struct {
	Of      []int // by application: index of its node
	Used    int   // nodes with applications
	Shared  int64 // milli-CPU on CPUs that several applications use
	Optimal bool  // no other solution has a lower objective
	Bound   int64 // no other has less than this: nodes, or milli-CPU

	SharesLeast bool // no other that uses as many nodes, or any number where Sharing is minimized, shares less
}

// An Infeasible error explains why there is no solution.
type Infeasible struct {
	Resource string // that is lacking; "": no single one
	Reason   string
}

func (e *Infeasible) Error() string { return "no allocation: " + e.Reason }

// problem is the two lists with the nodes' resources in the order of the applications'.
type problem struct {
	resources []string
	apps      []Item
	nodes     []Item
}

// ErrOtherResources reports that applications and nodes have different resources.
var ErrOtherResources = errors.New("must be the same")

// newProblem brings the lists together.
func newProblem(apps, nodes List) (*problem, error) {
	p := &problem{apps.Resources, apps.Items, slices.Clone(nodes.Items)}
	other := fmt.Errorf("applications have the resources %s, nodes %s: %w", list(apps.Resources), list(nodes.Resources), ErrOtherResources)
	if len(apps.Resources) != len(nodes.Resources) {
		return nil, other
	}
	for n := range p.nodes {
		p.nodes[n].Amounts = make([]int64, len(p.resources))
		for r, name := range p.resources {
			at := slices.Index(nodes.Resources, name)
			if at < 0 {
				return nil, other
			}
			p.nodes[n].Amounts[r] = nodes.Items[n].Amounts[at]
		}
	}
	return p, nil
}

func list(names []string) string { return strings.Join(names, ", ") }

// total is the sum of a resource over things.
func total(things []Item, resource int) int64 {
	var sum int64
	for i := range things {
		sum += things[i].Amounts[resource]
	}
	return sum
}
