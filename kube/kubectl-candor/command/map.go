package command

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/internal/jsonout"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/kube/survey"
)

const mapLong = `Show the CPU maps of the nodes: sockets, NUMA nodes, L3 domains and cores, and the
containers with their limits and the number of CPUs that they see. There are four kinds of
CPUs:

  exclusive   CPU of a single sensitive container
  fractional  CPU that runs fractions of limits, such as 500m of the limit 1500m
  shared      CPU that the flexible containers share
  reserved    CPU for programs outside of Candor

The command reads the reports that candor nri --publish writes (kubectl get nodecpu). A
node without a report has a line with the reason.`

const mapExample = `  kubectl candor map
  kubectl candor map node-1
  kubectl candor map node-1 -o svg > node-1.svg
  kubectl candor map -o json | jq -r 'select(.problem) | .node'`

func newMapCommand(a *access) *cobra.Command {
	cmd := &cobra.Command{Use: "map [NODE...]", Short: "Show the CPU maps of the nodes", Long: mapLong, Example: mapExample}
	output := outputFlag(cmd, "table", "json", "svg")
	color := choiceFlag(cmd, "color", "", "colors: auto uses them on a terminal without NO_COLOR", "auto", "always", "never")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if output.value == "svg" && len(args) != 1 {
			return badInput("-o svg: a picture shows one node: name it")
		}
		c, err := a.connect(cmd.Context())
		if err != nil {
			return err
		}
		s, err := survey.Read(cmd.Context(), c)
		if err != nil {
			return err
		}
		nodes, err := namedNodes(s, args)
		if err != nil {
			return err
		}
		out, names := cmd.OutOrStdout(), s.Names()
		for i := range nodes {
			if err := writeMap(out, &nodes[i], names, i == 0, output.value, textOptions(color.value)); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

// namedNodes returns the nodes with the given names, or all nodes.
func namedNodes(s *survey.Survey, names []string) (nodes []survey.Node, err error) {
	if len(names) == 0 {
		return s.Nodes, nil
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		n, err := s.Node(name)
		if err != nil {
			return nil, badInput("%w", err)
		}
		nodes = append(nodes, *n)
	}
	return nodes, nil
}

// mapOf returns the map of a node. n.CPUs must not be nil: the node has published a report.
func mapOf(n *survey.Node, names map[string]podname.Name) *cpumap.Map {
	m := cpumap.FromNode(n.CPUs)
	m.Names, m.SeenCPUs = names, n.SeenCPUs
	return m
}

// A nodeMap is the JSON form of a node.
type nodeMap struct {
	Node    string           `json:"node"`
	Problem string           `json:"problem,omitempty"` // reason for a missing map
	Map     *cpumap.Document `json:"map,omitempty"`     // as candor map writes it on the node
}

// writeMap writes a node: as a JSON line, as a picture, or as a drawing under its name.
func writeMap(out io.Writer, n *survey.Node, names map[string]podname.Name, isFirst bool, form string, o cpumap.TextOptions) error {
	switch {
	case form == "json" && n.CPUs != nil:
		return jsonout.WriteLine(out, nodeMap{Node: n.Name, Map: mapOf(n, names).Document()})
	case form == "json":
		return jsonout.WriteLine(out, nodeMap{Node: n.Name, Problem: n.Problem})
	case form == "svg" && n.CPUs != nil:
		return mapOf(n, names).SVG(out)
	case form == "svg":
		return badInput("node %s: %s", n.Name, n.Problem)
	}
	if !isFirst {
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "Node %s: ", cpumap.Clean(n.Name))
	if n.CPUs == nil {
		_, err := fmt.Fprintln(out, cpumap.Clean(n.Problem))
		return err
	}
	return mapOf(n, names).Text(out, o)
}
