package packing

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/jsonout"
)

// A nodeUse is the use of a node by its applications.
type nodeUse struct {
	name     string
	apps     int
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

// writeUses writes a table with a row per node and a column per resource.
func (s *Solution) writeUses(out io.Writer, apps, nodes List) error {
	list, err := s.uses(apps, nodes)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\nNODE\tAPPLICATIONS\t%s\n", strings.ToUpper(strings.Join(apps.Resources, "\t")))
	for _, n := range list {
		fmt.Fprintf(w, "%s\t%d", n.name, n.apps)
		for r, resource := range apps.Resources {
			share := "-"
			if n.capacity[r] > 0 {
				share = fmt.Sprintf("%.0f %%", 100*float64(n.used[r])/float64(n.capacity[r]))
			}
			fmt.Fprintf(w, "\t%s of %s (%s)", amountText(resource, n.used[r]), amountText(resource, n.capacity[r]), share)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// WriteMatrix writes the allocation as a matrix with a row per application and a column per node. Below the matrix, it writes the use of
// each node and a line with the number of used nodes, the shared time and the quality of the allocation.
func (s *Solution) WriteMatrix(out io.Writer, apps, nodes List, goal Goal) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for n := range nodes.Items {
		fmt.Fprintf(w, "\t%s", nodes.Items[n].Name)
	}
	for a := range apps.Items {
		fmt.Fprintf(w, "\n%s", apps.Items[a].Name)
		for n := range nodes.Items {
			mark := "0"
			if s.NodeOf[a] == n {
				mark = "1"
			}
			fmt.Fprintf(w, "\t%s", mark)
		}
	}
	fmt.Fprintln(w)
	if err := w.Flush(); err != nil {
		return err
	}
	if err := s.writeUses(out, apps, nodes); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%d of %d nodes used, %dm of CPU time shared: %s\n", s.Used, len(nodes.Items), s.Shared, s.quality(goal))
	return err
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
