package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/internal/jsonout"
	"github.com/candor-project/candor/internal/texttable"
	"github.com/candor-project/candor/kube/kubectl-candor/remote"
	"github.com/candor-project/candor/kube/survey"
)

const doctorLong = `Check Candor on all nodes: the agents and their versions, the reports of the nodes, and the
checks of candor doctor on each node with an agent. Nodes with the same finding share a
row. For each finding that needs an action, the command prints the next step.

A finding has the status warning (Candor works with a restriction), failed (Candor does
not work there yet) or unknown (a check could not read a file).

The exit code is 1 if a check failed or a node did not answer.`

const doctorExample = `  kubectl candor doctor
  kubectl candor doctor --node node-1 --all
  kubectl candor doctor -o json | jq -r '.findings[] | select(.status == "failed") | .nodes[]'`

// doctorFlags are the flags of doctor.
type doctorFlags struct {
	nodeFlags
	output *choice
	all    bool
}

func newDoctorCommand(a *access) *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check Candor on all nodes", Long: doctorLong, Example: doctorExample, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, a) },
	}
	f.nodeFlags.add(cmd)
	f.output = outputFlag(cmd, "table", "wide", "json")
	cmd.Flags().BoolVar(&f.all, "all", false, "also list checks with the status ok")
	return cmd
}

// maxDoctor bounds the output of candor doctor, in bytes.
const maxDoctor = 1 << 20

func (f *doctorFlags) run(cmd *cobra.Command, a *access) error {
	ctx := cmd.Context()
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	nodes, agents, err := f.read(ctx, c)
	if err != nil {
		return err
	}
	if len(agents) == 0 {
		return errNoAgents
	}
	job := &remote.Job{Args: []string{"doctor", "-o", "json", "--for", "kubernetes"}, MaxOutput: maxDoctor, Timeout: answerTime}
	end := showProgress(cmd.ErrOrStderr(), job, len(nodes))
	answers, err := c.Remote.Run(ctx, nodes, agents, job)
	end()
	if err := errors.Join(err, context.Cause(ctx)); err != nil {
		return withRights(err)
	}
	d := newDiagnosis(len(nodes))
	for i := range answers {
		d.addAnswer(&answers[i])
	}
	d.addVersions(nodes, agents)
	if err := d.addReports(ctx, c, nodes, agents); err != nil {
		return err
	}
	d.finish(f.all)
	if f.output.value == "json" {
		err = jsonout.Write(cmd.OutOrStdout(), d)
	} else {
		err = d.write(cmd.OutOrStdout(), tableWidth(f.output))
	}
	if err == nil {
		err = d.err()
	}
	return err
}

// Statuses of findings, as in candor doctor.
const (
	statusOK      = "ok"
	statusUnknown = "unknown"
	statusWarning = "warning"
	statusFailed  = "failed"
)

// statuses are the statuses, the worst first.
var statuses = []string{statusFailed, statusWarning, statusUnknown, statusOK}

// A finding is the result of a check on one or more nodes.
type finding struct {
	Check  string   `json:"check"`
	Status string   `json:"status"`
	Found  string   `json:"found"`
	Next   string   `json:"next,omitempty"`
	Nodes  []string `json:"nodes"`
}

// A diagnosis is the output of doctor.
type diagnosis struct {
	NodeCount int       `json:"nodeCount"`
	Findings  []finding `json:"findings"` // the worst first
	Missing   []string  `json:"nodesWithoutAnswer"`

	at map[[4]string]int // index in Findings, by check, status, found and next
}

func newDiagnosis(nodes int) *diagnosis {
	return &diagnosis{NodeCount: nodes, Findings: []finding{}, Missing: []string{}, at: map[[4]string]int{}}
}

// add adds a finding on a node.
func (d *diagnosis) add(node, check, status, found, next string) {
	key := [4]string{check, status, found, next}
	i, isKnown := d.at[key]
	if !isKnown {
		i = len(d.Findings)
		d.at[key] = i
		d.Findings = append(d.Findings, finding{Check: check, Status: status, Found: found, Next: next})
	}
	d.Findings[i].Nodes = append(d.Findings[i].Nodes, node)
}

// maxChecks bounds the checks of a node.
const maxChecks = 200

// addAnswer adds the checks of candor doctor on a node.
func (d *diagnosis) addAnswer(a *remote.Answer) {
	var exit *remote.ExitError
	switch {
	case errors.Is(a.Err, remote.ErrNoAgent):
		d.add(a.Node, "agent", statusWarning, a.Err.Error(), "nodeSelector and tolerations of the chart select the nodes (docs/deploy.md)")
		return
	case a.Err != nil && !errors.As(a.Err, &exit):
		d.Missing = append(d.Missing, a.Node)
		d.add(a.Node, "agent", statusFailed, a.Err.Error(), "kubectl get nodes, and kubectl get pods -A -l app.kubernetes.io/name=candor -o wide")
		return
	}
	var report struct {
		Checks []struct{ ID, Status, Found, Next string }
	}
	if err := json.Unmarshal(a.Output, &report); err != nil || len(report.Checks) == 0 {
		d.Missing = append(d.Missing, a.Node)
		d.add(a.Node, "agent", statusFailed, fmt.Sprintf("candor doctor in the agent: %v", cmp.Or(a.Err, errors.New("no JSON"))), "upgrade the chart")
		return
	}
	for _, c := range report.Checks[:min(len(report.Checks), maxChecks)] {
		if slices.Contains(statuses, c.Status) {
			d.add(a.Node, c.ID, c.Status, c.Found, c.Next)
		}
	}
}

// addVersions compares the versions of the agents with the version of this program.
func (d *diagnosis) addVersions(nodes []remote.Node, agents map[string]remote.Agent) {
	for _, n := range nodes {
		agent, has := agents[n.Name]
		switch {
		case !has:
		case agent.Problem != "" && n.Problem == "":
			// addAnswer has the finding
		case strings.TrimPrefix(agent.Version, "v") == strings.TrimPrefix(versionString(), "v"):
			d.add(n.Name, "version", statusOK, "the agent has the version of kubectl candor, "+versionString(), "")
		default:
			d.add(n.Name, "version", statusWarning, fmt.Sprintf("the agent has the version %s, kubectl candor %s", cmp.Or(agent.Version, "unknown"), versionString()),
				"upgrade the chart or the plugin, so that all have one version")
		}
	}
}

// addReports checks the reports of the nodes with an agent, if an agent publishes reports.
func (d *diagnosis) addReports(ctx context.Context, c *cluster, nodes []remote.Node, agents map[string]remote.Agent) error {
	s, err := survey.Read(ctx, c)
	if errors.Is(err, survey.ErrNoDefinitions) {
		for _, n := range nodes {
			d.add(n.Name, "report", statusWarning, "the cluster does not know NodeCPUs", "kubectl apply --server-side -f deploy/helm/candor/crds, then the chart with publish: true")
		}
		return nil
	}
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if _, has := agents[n.Name]; !has {
			continue
		}
		at, err := s.Node(n.Name)
		switch {
		case err != nil: // the node was created after the list
		case at.CPUs == nil:
			d.add(n.Name, "report", statusWarning, at.Problem, "the chart with publish: true; the log of the agent has the reason")
		default:
			d.add(n.Name, "report", statusOK, "the node reports its CPUs", "")
		}
	}
	return nil
}

// finish sorts the findings, the worst and most frequent first. Without all, it removes those with the status ok.
func (d *diagnosis) finish(all bool) {
	if !all {
		d.Findings = slices.DeleteFunc(d.Findings, func(f finding) bool { return f.Status == statusOK })
	}
	slices.SortStableFunc(d.Findings, func(a, b finding) int {
		return cmp.Or(slices.Index(statuses, a.Status)-slices.Index(statuses, b.Status), len(b.Nodes)-len(a.Nodes), strings.Compare(a.Check, b.Check))
	})
}

func (d *diagnosis) write(out io.Writer, width int) error {
	var text strings.Builder
	t := &texttable.Table{Titles: []string{"STATUS", "CHECK", "NODES", "FOUND"}, LastWidth: 30, Ranks: []int{0, 0, 0, 0}}
	for i := range d.Findings {
		f := &d.Findings[i]
		t.Rows = append(t.Rows, []string{f.Status, cpumap.Clean(f.Check), cpumap.Clean(f.nodes()), cpumap.Clean(f.Found)})
	}
	if len(t.Rows) > 0 {
		_ = t.Write(&text, width) // a write to memory cannot fail
		text.WriteString("\n")
	}
	title := "Next steps:\n"
	for _, f := range d.Findings {
		if f.Next != "" && f.Status != statusOK {
			fmt.Fprintf(&text, "%s  %s: %s\n", title, cpumap.Clean(f.Check), cpumap.Clean(f.Next))
			title = ""
		}
	}
	if title == "" {
		text.WriteString("\n")
	}
	fmt.Fprintf(&text, "%s: %s.\n", count(d.NodeCount, "node"), d.summary())
	_, err := io.WriteString(out, text.String())
	return err
}

// nodes returns the names of the first nodes, and the number of all.
func (f *finding) nodes() string {
	const maxNames = 3
	if len(f.Nodes) <= maxNames {
		return strings.Join(f.Nodes, ",")
	}
	return fmt.Sprintf("%d: %s,…", len(f.Nodes), strings.Join(f.Nodes[:maxNames-1], ","))
}

// summary returns the numbers of findings by status.
func (d *diagnosis) summary() string {
	number := map[string]int{}
	for i := range d.Findings {
		number[d.Findings[i].Status]++
	}
	return fmt.Sprintf("%d failed, %s, %d unknown", number[statusFailed], count(number[statusWarning], "warning"), number[statusUnknown])
}

// err returns the error for nodes without an answer and for failed checks, or nil.
func (d *diagnosis) err() error {
	if err := notAnswered(d.Missing, d.NodeCount); err != nil {
		return err
	}
	if i := slices.IndexFunc(d.Findings, func(f finding) bool { return f.Status == statusFailed }); i >= 0 {
		return fmt.Errorf("check %s failed on %s", d.Findings[i].Check, count(len(d.Findings[i].Nodes), "node"))
	}
	return nil
}
