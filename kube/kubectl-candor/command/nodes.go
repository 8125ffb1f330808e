package command

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/jsonout"
	"github.com/candor-project/candor/internal/texttable"
	"github.com/candor-project/candor/kube/survey"
)

const nodesLong = `List the nodes with their CPUs by use, and what still fits:

FREE     CPU that no pod has requested
LARGEST  CPUs of the largest sensitive container that fits now, with a whole limit
FITS     with --cpu: number of sensitive containers with this limit that fit together
SHARED   with -o wide: CPU time of sensitive containers on CPUs of several containers

The command reads the reports that candor nri --publish writes (kubectl get nodecpu). A
node without a report has the reason in the column STATUS.`

const nodesExample = `  kubectl candor nodes
  kubectl candor nodes --cpu 3500m
  kubectl candor nodes -o json | jq -r '.[] | select(.largestCPUs >= 8) | .node'`

// maxFits bounds the column FITS of a node.
const maxFits = 1024

func newNodesCommand(a *access) *cobra.Command {
	cmd := &cobra.Command{Use: "nodes [NODE...]", Short: "List the nodes with their free CPUs", Long: nodesLong, Example: nodesExample}
	output := outputFlag(cmd, "table", "wide", "json")
	var cpu milliFlag
	cmd.Flags().Var(&cpu, "cpu", "limit of sensitive containers to count, such as 1.5")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit := hybrid.Milli(cpu); cmd.Flags().Changed("cpu") && (limit < hybrid.MinLimit || limit > hybrid.MaxLimit) {
			return badInput("--cpu %v: must be %v to %v", limit, hybrid.MinLimit, hybrid.MaxLimit)
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
		rows := nodeRows(s, nodes, hybrid.Milli(cpu))
		if output.value == "json" {
			return jsonout.Write(cmd.OutOrStdout(), rows)
		}
		return writeNodes(cmd.OutOrStdout(), rows, hybrid.Milli(cpu), output)
	}
	return cmd
}

// A nodeRow is a node in the output of nodes.
type nodeRow struct {
	Node       string       `json:"node"`
	Problem    string       `json:"problem,omitempty"` // reason why the CPUs are unknown
	Cordoned   bool         `json:"cordoned"`
	CPUs       int          `json:"cpus"`
	Exclusive  int          `json:"exclusive"`
	Fractional int          `json:"fractional"`
	Shared     int          `json:"shared"`
	Free       hybrid.Milli `json:"freeMilli"`
	Largest    int          `json:"largestCPUs"`
	Fits       *int         `json:"fits,omitempty"` // with --cpu
	SharedTime hybrid.Milli `json:"sharedTimeMilli"`
}

func nodeRows(s *survey.Survey, nodes []survey.Node, cpu hybrid.Milli) []nodeRow {
	rows := []nodeRow{}
	for i := range nodes {
		n := &nodes[i]
		room := s.Room(n)
		row := nodeRow{
			Node: n.Name, Problem: n.Problem, Cordoned: room.Cordoned, CPUs: room.Usable, Exclusive: room.Pools.Exclusive.Count(),
			Fractional: room.Pools.Fractional.Count(), Shared: room.Pools.Shared.Count(), Free: room.Free, Largest: room.Whole, SharedTime: room.Shared,
		}
		if cpu > 0 {
			row.Fits = new(s.Fits(n, cpu, maxFits))
		}
		rows = append(rows, row)
	}
	return rows
}

// status returns the reason why a node is not usual, or "ready".
func (r *nodeRow) status() string {
	var words []string
	if r.Cordoned {
		words = append(words, "cordoned")
	}
	if r.Problem != "" {
		words = append(words, cpumap.Clean(r.Problem))
	}
	if words == nil {
		return "ready"
	}
	return strings.Join(words, ", ")
}

func writeNodes(out io.Writer, rows []nodeRow, cpu hybrid.Milli, output *choice) error {
	t := &texttable.Table{Titles: []string{"NODE", "CPUS", "EXCLUSIVE", "FRACTIONAL", "SHARED", "FREE", "LARGEST"}, Ranks: []int{0, 3, 4, 4, 4, 0, 0}, FirstWidth: 20, LastWidth: 20}
	if cpu > 0 {
		t.Titles, t.Ranks = append(t.Titles, "FITS "+cpu.String()), append(t.Ranks, 0)
	}
	if output.value == "wide" {
		t.Titles, t.Ranks = append(t.Titles, "SHARED TIME"), append(t.Ranks, 1)
	}
	t.Titles, t.Ranks = append(t.Titles, "STATUS"), append(t.Ranks, 0)
	largest, fits := 0, 0
	for i := range rows {
		r := &rows[i]
		cells := []string{cpumap.Clean(r.Node), strconv.Itoa(r.CPUs), strconv.Itoa(r.Exclusive), strconv.Itoa(r.Fractional), strconv.Itoa(r.Shared), r.Free.String(), strconv.Itoa(r.Largest)}
		if r.Problem != "" {
			cells = []string{cpumap.Clean(r.Node), "-", "-", "-", "-", r.Free.String(), "-"}
		}
		if r.Fits != nil {
			cells = append(cells, strconv.Itoa(*r.Fits))
		}
		if output.value == "wide" {
			cells = append(cells, r.SharedTime.String())
		}
		t.Rows = append(t.Rows, append(cells, r.status()))
		if !r.Cordoned {
			largest = max(largest, r.Largest)
			fits += value(r.Fits)
		}
	}
	if err := t.Write(out, tableWidth(output)); err != nil {
		return err
	}
	line := fmt.Sprintf("The largest sensitive container that fits has %s.", count(largest, "CPU"))
	if cpu > 0 {
		line += fmt.Sprintf(" %s of %s fit.", count(fits, "container"), amount(cpu))
	}
	if n := len(slices.DeleteFunc(slices.Clone(rows), func(r nodeRow) bool { return r.Problem == "" })); n > 0 {
		line += fmt.Sprintf(" %s without a report.", count(n, "node"))
	}
	_, err := fmt.Fprintf(out, "\n%s\n", line)
	return err
}

// value returns the number of a pointer, or 0 for nil.
func value(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}
