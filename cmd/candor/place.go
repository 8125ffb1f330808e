package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/fleet/packing"
	"github.com/candor-project/candor/internal/texttable"
)

const placeLong = `Place a set of applications on nodes so that no node exceeds its capacity of any
resource. The objective is the fewest nodes, or the least shared time: CPU time on CPUs
that several applications use.

Both files are CSV with a header line, or JSON. Each entry has a name, its CPUs and
optionally other resources. docs/place.md describes the files.`

const placeExample = `  candor place --apps apps.csv --nodes nodes.csv
  candor place --apps apps.json --nodes nodes.csv --minimize sharing -o json`

// goalWords are the objectives of candor place.
var goalWords = []string{"nodes", "sharing"}

func newPlaceCommand() *cobra.Command {
	var apps, nodes string
	var goal packing.Goal
	cmd := &cobra.Command{
		Use:     "place --apps FILE --nodes FILE",
		Short:   "Place a set of applications on nodes",
		Long:    placeLong,
		Example: placeExample,
		Args:    noArgs,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&apps, "apps", "", "file with the demand of each application")
	flags.StringVar(&nodes, "nodes", "", "file with the capacity of each node")
	wordFlag(cmd, &goal, goalWords, "minimize", "", "objective: fewest nodes or least sharing")
	output := outputFlag(cmd, "matrix", "wide", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		appList, err := readThings("apps", apps)
		if err != nil {
			return err
		}
		nodeList, err := readThings("nodes", nodes)
		if err != nil {
			return err
		}
		return place(cmd, appList, nodeList, goal, output)
	}
	return cmd
}

// readThings reads a list of applications or nodes from the file of a flag.
func readThings(flag, name string) (packing.List, error) {
	if name == "" {
		return packing.List{}, missing("--"+flag, "a file in CSV or JSON")
	}
	file, err := os.Open(name)
	if err != nil {
		return packing.List{}, badInput("--%s: %w", flag, err)
	}
	defer file.Close()
	list, err := packing.Read(file, name)
	if err != nil {
		return list, badInput("--%s: %w", flag, err)
	}
	return list, nil
}

// place solves the problem and writes the solution.
func place(cmd *cobra.Command, apps, nodes packing.List, goal packing.Goal, output *choice) error {
	solution, err := packing.Solve(apps, nodes, goal)
	switch {
	case errors.Is(err, packing.ErrOtherResources):
		return badInput("%w", err)
	case err != nil:
		return err
	case output.value == "json":
		return solution.WriteJSON(cmd.OutOrStdout(), apps, nodes, goal)
	default:
		return writeSolution(cmd.OutOrStdout(), tableWidth(cmd.OutOrStdout(), output), solution, apps, nodes, goal)
	}
}

// writeSolution writes the allocation as a matrix, the use of each node, and the outcome. width is the width of the terminal; 0:
// unlimited. If the matrix is wider, a list with the node of each application replaces it.
func writeSolution(out io.Writer, width int, s *packing.Solution, apps, nodes packing.List, goal packing.Goal) error {
	var text strings.Builder
	var matrix, uses texttable.Table
	isHidden := false
	if matrix.Titles, matrix.Rows = s.Matrix(apps, nodes); width > 0 && matrix.Width() > width {
		matrix = texttable.Table{FirstWidth: 20, LastWidth: 20}
		matrix.Titles, matrix.Rows = s.Pairs(apps, nodes)
		isHidden = true
	}
	_ = matrix.Write(&text, width) // a write to memory cannot fail
	if isHidden {
		fmt.Fprintln(&text, "Use -o wide for the matrix of applications and nodes.")
	}
	var err error
	if uses.Titles, uses.Rows, err = s.UseTable(apps, nodes); err != nil {
		return err
	}
	for column := range uses.Titles { // the last resources are hidden first
		uses.Ranks = append(uses.Ranks, max(column-2, 0))
	}
	text.WriteString("\n")
	_ = uses.Write(&text, width)
	fmt.Fprintf(&text, "\n%s\n", s.Outcome(nodes, goal))
	_, err = io.WriteString(out, text.String())
	return err
}
