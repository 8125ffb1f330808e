package packing

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/jsonout"
)

// A nodeUse is the use of a node by its applications.
type nodeUse struct {
	name     string
	apps     int     // number of applications
	used     []int64 // by resource
	capacity []int64 // by resource
}

// uses returns the used amount and the capacity of each resource, for each node. The applications' list determines the order of the
// resources.
func (s *Solution) uses(apps, nodes List) ([]nodeUse, error) {
	p, err := newProblem(apps, nodes)
	if err != nil {
		return nil, err
	}
	list := make([]nodeUse, len(p.nodes))
	for n := range p.nodes {
		list[n] = nodeUse{name: p.nodes[n].Name, used: make([]int64, len(p.resources)), capacity: p.nodes[n].Amounts}
	}
	for a, n := range s.NodeOf {
		list[n].apps++
		for r, amount := range p.apps[a].Amounts {
			list[n].used[r] += amount
		}
	}
	return list, nil
}

// UseTable returns a table with the use of each node: a row per node and, after the number of its applications, a column per resource.
func (s *Solution) UseTable(apps, nodes List) (titles []string, rows [][]string, err error) {
	list, err := s.uses(apps, nodes)
	if err != nil {
		return nil, nil, err
	}
	titles = []string{"NODE", "APPLICATIONS"}
	for _, resource := range apps.Resources {
		titles = append(titles, strings.ToUpper(resource))
	}
	for _, n := range list {
		row := []string{n.name, strconv.Itoa(n.apps)}
		for r, resource := range apps.Resources {
			share := "-"
			if n.capacity[r] > 0 {
				share = fmt.Sprintf("%.0f %%", 100*float64(n.used[r])/float64(n.capacity[r]))
			}
			row = append(row, fmt.Sprintf("%s of %s (%s)", amountText(resource, n.used[r]), amountText(resource, n.capacity[r]), share))
		}
		rows = append(rows, row)
	}
	return titles, rows, nil
}

// Matrix returns the allocation as a matrix with a row per application and a column per node: 1 marks the node of the application. The
// first column has the names of the applications.
func (s *Solution) Matrix(apps, nodes List) (titles []string, rows [][]string) {
	titles = []string{""}
	for n := range nodes.Items {
		titles = append(titles, nodes.Items[n].Name)
	}
	for a := range apps.Items {
		row := []string{apps.Items[a].Name}
		for n := range nodes.Items {
			mark := "0"
			if s.NodeOf[a] == n {
				mark = "1"
			}
			row = append(row, mark)
		}
		rows = append(rows, row)
	}
	return titles, rows
}

// Pairs returns the allocation as a table with a row per application, which has the names of the application and its node.
func (s *Solution) Pairs(apps, nodes List) (titles []string, rows [][]string) {
	for a, n := range s.NodeOf {
		rows = append(rows, []string{apps.Items[a].Name, nodes.Items[n].Name})
	}
	return []string{"APPLICATION", "NODE"}, rows
}

// Outcome returns a sentence with the number of used nodes, the shared time and the quality of the allocation.
func (s *Solution) Outcome(nodes List, goal Goal) string {
	return fmt.Sprintf("%d of %d nodes used, %dm of CPU time shared: %s", s.Used, len(nodes.Items), s.Shared, s.quality(goal))
}

// quality returns a phrase about the distance of the solution from the optimum.
func (s *Solution) quality(goal Goal) string {
	switch {
	case s.Optimal && goal == Sharing:
		return "no allocation shares less"
	case goal == Sharing:
		return fmt.Sprintf("none shares less than %dm", s.Bound)
	}
	text := fmt.Sprintf("none needs fewer than %d nodes", s.Bound)
	if s.Optimal {
		text = "no allocation needs fewer nodes"
	}
	if s.SharesLeast {
		text += ", with as many none shares less"
	}
	return text
}

// A Document is the JSON form of a solution.
type Document struct {
	Minimize    string      `json:"minimize"`
	Placements  []placement `json:"placements"`
	Matrix      [][]int     `json:"matrix"` // a row per application: 1 in the column of its node
	Nodes       []jsonNode  `json:"nodes"`
	Used        int         `json:"nodesUsed"`
	Shared      int64       `json:"sharedMilli"`
	Optimal     bool        `json:"optimal"`
	NodesBound  *int64      `json:"nodesBound,omitempty"`       // no allocation uses fewer nodes; only if the goal is nodes
	SharedBound *int64      `json:"sharedBoundMilli,omitempty"` // no allocation shares less; only if the goal is sharing
	Least       bool        `json:"sharesLeast"`
}

type placement struct {
	Application string `json:"application"`
	Node        string `json:"node"`
}

// WriteJSON writes the solution as a JSON object.
func (s *Solution) WriteJSON(out io.Writer, apps, nodes List, goal Goal) error {
	result := Document{Minimize: goal.String(), Used: s.Used, Shared: s.Shared, Optimal: s.Optimal, Least: s.SharesLeast}
	if goal == Sharing {
		result.SharedBound = &s.Bound
	} else {
		result.NodesBound = &s.Bound
	}
	for a, n := range s.NodeOf {
		cells := make([]int, len(nodes.Items))
		cells[n] = 1
		result.Matrix = append(result.Matrix, cells)
		result.Placements = append(result.Placements, placement{apps.Items[a].Name, nodes.Items[n].Name})
	}
	uses, err := s.uses(apps, nodes)
	if err != nil {
		return err
	}
	for i := range uses {
		result.Nodes = append(result.Nodes, uses[i].json(apps.Resources))
	}
	return jsonout.Write(out, result)
}

// The encoding of the use of a node as JSON. CPU is in milli-CPU, other resources are in the unit of the files.
type (
	jsonNode struct {
		Name          string         `json:"name"`
		Applications  int            `json:"applications"`
		UseMilli      int64          `json:"useMilli"`
		CapacityMilli int64          `json:"capacityMilli"`
		Resources     []jsonResource `json:"resources"` // all resources except CPU
	}
	jsonResource struct {
		Name     string `json:"name"`
		Use      int64  `json:"use"`
		Capacity int64  `json:"capacity"`
	}
)

func (n *nodeUse) json(resources []string) jsonNode {
	out := jsonNode{Name: n.name, Applications: n.apps, UseMilli: n.used[0], CapacityMilli: n.capacity[0], Resources: []jsonResource{}}
	for r, name := range resources[1:] { // CPU is the first
		out.Resources = append(out.Resources, jsonResource{name, n.used[r+1], n.capacity[r+1]})
	}
	return out
}

// amountText formats an amount of a resource.
func amountText(resource string, amount int64) string {
	if resource == CPU {
		return hybrid.Milli(amount).String()
	}
	return strconv.FormatInt(amount, 10)
}
