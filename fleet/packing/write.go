package packing

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/jsonout"
)

// WriteMatrix writes the allocation as a matrix with a row per application and a column per node, and then a line with the number of used
// nodes, the shared time and the quality of the allocation.
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
	return jsonout.Write(out, result)
}

// amountText formats an amount of a resource.
func amountText(resource string, amount int64) string {
	if resource == CPU {
		return hybrid.Milli(amount).String()
	}
	return strconv.FormatInt(amount, 10)
}
