package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/fleet/packing"
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
	output := outputFlag(cmd, "matrix", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		appList, err := readThings("apps", apps)
		if err != nil {
			return err
		}
		nodeList, err := readThings("nodes", nodes)
		if err != nil {
			return err
		}
		return place(cmd, appList, nodeList, goal, output.value)
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
func place(cmd *cobra.Command, apps, nodes packing.List, goal packing.Goal, form string) error {
	solution, err := packing.Solve(apps, nodes, goal)
	switch {
	case errors.Is(err, packing.ErrOtherResources):
		return badInput("%w", err)
	case err != nil:
		return err
	case form == "json":
		return solution.WriteJSON(cmd.OutOrStdout(), apps, nodes, goal)
	default:
		return solution.WriteMatrix(cmd.OutOrStdout(), apps, nodes, goal)
	}
}
