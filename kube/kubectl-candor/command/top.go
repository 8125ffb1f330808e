package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/auditreport"
	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/jsonout"
	"github.com/candor-project/candor/internal/seencpus"
	"github.com/candor-project/candor/internal/texttable"
	"github.com/candor-project/candor/kube/kubectl-candor/remote"
)

const topLong = `List the CPU use of the containers on all nodes with Candor's agent. On each node, the
command runs candor top in the agent's container for the time of --interval.

USE   CPUs that the container uses
LIM%  used share of the limit
THR%  share of the periods in which the quota ran out
SEES  CPUs that the container sees; 1/2 if the affinity has 1 CPU, and /proc/cpuinfo and
      /sys/devices/system/cpu/online show 2

If a node does not answer, the command names it, and ends with exit code 1.`

const topExample = `  kubectl candor top
  kubectl candor top --sort throttled --rows 20
  kubectl candor top -n shop --interval 10s
  kubectl candor top -o json | jq '[.containers[].useMilli] | add'`

// topFlags are the flags of top.
type topFlags struct {
	nodeFlags
	output   *choice
	sort     *choice
	interval time.Duration
	rows     int
}

func newTopCommand(a *access) *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use: "top", Short: "List the CPU use of the containers on all nodes",
		Long: topLong, Example: topExample, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, a) },
	}
	f.nodeFlags.add(cmd)
	f.output = outputFlag(cmd, "table", "wide", "json")
	f.sort = choiceFlag(cmd, "sort", "", "sort key of the containers", "use", "limit-used", "throttled", "name")
	cmd.Flags().DurationVar(&f.interval, "interval", time.Second, "time to measure, 100ms to 1m")
	cmd.Flags().IntVar(&f.rows, "rows", 100, "maximum number of containers in the table; 0 lists all")
	return cmd
}

// Bounds of top.
const (
	minInterval = 100 * time.Millisecond
	maxInterval = time.Minute
	maxTop      = 8 << 20 // bytes of a node
)

func (f *topFlags) run(cmd *cobra.Command, a *access) error {
	switch {
	case f.interval < minInterval || f.interval > maxInterval:
		return badInput("--interval %v: must be %v to %v", f.interval, minInterval, maxInterval)
	case f.rows < 0:
		return badInput("--rows %d: must be 0 or more", f.rows)
	}
	namespace := ""
	if *a.flags.Namespace != "" { // the namespace of the context does not count: top shows nodes
		var err error
		if namespace, err = a.namespace(); err != nil {
			return err
		}
	}
	ctx := cmd.Context()
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	answers, err := f.ask(ctx, cmd, c, &remote.Job{
		Args: []string{"top", "-o", "json", "-n", "1", "--interval", f.interval.String()}, NeedsStateDir: true, MaxOutput: maxTop, Timeout: answerTime + f.interval,
	})
	if err != nil {
		return err
	}
	r := topOf(answers, namespace)
	r.sort(f.sort.value)
	if f.output.value == "json" {
		err = jsonout.Write(cmd.OutOrStdout(), r)
	} else {
		err = r.write(cmd.OutOrStdout(), tableWidth(f.output), f.rows)
	}
	if err != nil {
		return err
	}
	return missingAnswers(r.Nodes)
}

// A topReport is the output of top.
type topReport struct {
	Nodes      []auditreport.Node `json:"nodes"`
	Containers []topContainer     `json:"containers"`
}

// A topContainer is a container with the fields of candor top -o json that top shows.
type topContainer struct {
	Node      string        `json:"node"`
	ID        string        `json:"id"`
	Name      string        `json:"name"`
	Namespace string        `json:"namespace,omitempty"`
	Pod       string        `json:"pod,omitempty"`
	Container string        `json:"container,omitempty"`
	State     string        `json:"state"`
	Class     string        `json:"class"`
	Limit     hybrid.Milli  `json:"limitMilli"` // 0: no limit
	Use       *hybrid.Milli `json:"useMilli,omitempty"`
	Throttled *float64      `json:"throttledShare,omitempty"`
	seencpus.Summary
}

// topOf reads the answers of candor top. namespace selects the containers; "" selects all.
func topOf(answers []remote.Answer, namespace string) *topReport {
	r := &topReport{Containers: []topContainer{}, Nodes: []auditreport.Node{}}
	for i := range answers {
		at := &answers[i]
		n := auditreport.Node{Name: at.Node}
		var document struct{ Containers []topContainer }
		err := at.Err
		if err == nil && json.Unmarshal(at.Output, &document) != nil {
			err = errors.New("the output is not the JSON of candor top")
		}
		if err != nil {
			n.Problem = err.Error()
		}
		for _, c := range document.Containers {
			if err == nil && (namespace == "" || c.Namespace == namespace) {
				c.Node = at.Node
				r.Containers = append(r.Containers, c)
				n.Containers++
			}
		}
		r.Nodes = append(r.Nodes, n)
	}
	return r
}

// use returns the used CPU time, or -1 if it is unknown.
func (c *topContainer) use() hybrid.Milli {
	if c.Use == nil {
		return -1
	}
	return *c.Use
}

// limitShare returns the used share of the limit, or -1 if it is unknown.
func (c *topContainer) limitShare() float64 {
	if c.Use == nil || c.Limit <= 0 {
		return -1
	}
	return float64(*c.Use) / float64(c.Limit)
}

// throttled returns the share of throttled periods, or -1 if it is unknown.
func (c *topContainer) throttled() float64 {
	if c.Throttled == nil {
		return -1
	}
	return *c.Throttled
}

func (r *topReport) sort(key string) {
	slices.SortStableFunc(r.Containers, func(a, b topContainer) int {
		order := 0
		switch key {
		case "use":
			order = cmp.Compare(b.use(), a.use())
		case "limit-used":
			order = cmp.Compare(b.limitShare(), a.limitShare())
		case "throttled":
			order = cmp.Compare(b.throttled(), a.throttled())
		}
		return cmp.Or(order, strings.Compare(a.Name, b.Name), strings.Compare(a.Node, b.Node))
	})
}

func (r *topReport) write(out io.Writer, width, rows int) error {
	shown := r.Containers
	if rows > 0 {
		shown = shown[:min(rows, len(shown))]
	}
	t := &texttable.Table{Titles: []string{"NODE", "CONTAINER", "CLASS", "LIMIT", "SEES", "USE", "LIM%", "THR%"}, Ranks: []int{2, 0, 4, 3, 5, 0, 0, 1}}
	for i := range shown {
		c := &shown[i]
		t.Rows = append(t.Rows, []string{cpumap.Clean(c.Node), cpumap.Clean(c.Name), cpumap.Clean(c.Class), limitOrDash(c.Limit), c.Summary.String(),
			cpusOrDash(c.use()), shareOrDash(c.limitShare()), shareOrDash(c.throttled())})
	}
	if len(shown) > 0 {
		if err := t.Write(out, width); err != nil {
			return err
		}
	}
	used, answered := hybrid.Milli(0), 0
	for i := range r.Containers {
		used += max(r.Containers[i].use(), 0)
	}
	for _, n := range r.Nodes {
		if n.Problem == "" {
			answered++
		}
	}
	if more := len(r.Containers) - len(shown); more > 0 {
		fmt.Fprintf(out, "%d more; --rows 0 lists all containers.\n", more)
	}
	if _, err := fmt.Fprintf(out, "\n%s use %s CPUs. %d of %d nodes with an agent answered.\n", count(len(r.Containers), "container"), cpusOrDash(used), answered, len(r.Nodes)); err != nil {
		return err
	}
	var problems []string
	for _, n := range r.Nodes {
		if n.Problem != "" {
			problems = append(problems, n.Name+": "+n.Problem)
		}
	}
	writeLines(out, "Nodes without answer", problems)
	return nil
}

func limitOrDash(m hybrid.Milli) string {
	if m == 0 {
		return "-"
	}
	return m.String()
}

func cpusOrDash(m hybrid.Milli) string {
	if m < 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(m)/1000)
}

func shareOrDash(share float64) string {
	if share < 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", 100*share)
}
