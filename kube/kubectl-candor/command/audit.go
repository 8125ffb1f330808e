package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/candor-project/candor/auditreport"
	"github.com/candor-project/candor/internal/jsonout"
	"github.com/candor-project/candor/kube/kubectl-candor/remote"
)

const auditLong = `List the containers of all nodes whose CPU count differs from their limit. The container
with the most lost time comes first. A second table has a sum for each namespace.

The command needs no installation. On each node without Candor's agent, it creates a pod
that runs candor audit, reads its log, and deletes the pod. The pod runs as root with
SYS_PTRACE in the PID namespace of the node, and changes nothing. Its namespace must permit
privileged pods: with PodSecurity, choose one with --namespace. On a node with the agent,
the command runs candor audit in the agent's container.

SEES       CPUs that the container sees; 1/2 if the affinity has 1 CPU, and
           /proc/cpuinfo and /sys/devices/system/cpu/online show 2
THROTTLED  share of the periods in which the quota ran out
LOST       CPU time lost to throttling since the cgroup was created
GAIN       whether a CPU count equal to the limit would speed the container up
           (candor audit --help)

If a node does not answer, the command names it, and ends with exit code 1.`

const auditExample = `  kubectl candor audit
  kubectl candor audit -n kube-system --image registry.example/candor:v0.2.0
  kubectl candor audit -l pool=batch -o csv > audit.csv
  kubectl candor audit -o html > audit.html
  kubectl candor audit -o json | jq '.containers[] | select(.gain == "likely") | .name'`

// auditFlags are the flags of audit.
type auditFlags struct {
	nodeFlags
	output    *choice
	image     string
	all       bool
	rows      int
	helpers   time.Duration
	timeout   time.Duration
	noPods    bool
	namespace string // of the pods
}

func newAuditCommand(a *access) *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use: "audit", Short: "List containers of all nodes whose CPU count differs from their limit",
		Long: auditLong, Example: auditExample, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, a) },
	}
	f.nodeFlags.add(cmd)
	f.output = outputFlag(cmd, "table", "wide", "json", "csv", "html")
	flags := cmd.Flags()
	flags.StringVar(&f.image, "image", Image, "image of candor for the pods")
	flags.BoolVar(&f.all, "all", false, "also list containers without a mismatch or without a limit")
	flags.IntVar(&f.rows, "rows", 100, "maximum number of containers in the table; 0 lists all")
	flags.DurationVar(&f.helpers, "helpers", 0, "time to measure helpers on each node, up to 30s; 0 disables the measurement")
	flags.DurationVar(&f.timeout, "timeout", time.Minute, "maximum time for a pod to end, up to 110s, with the pull of the image")
	flags.BoolVar(&f.noPods, "no-pods", false, "create no pods: only nodes with the agent answer")
	return cmd
}

// Bounds of the flags and of the answers.
const (
	maxHelpers   = 30 * time.Second
	maxTimeout   = 110 * time.Second // the kubelet ends the pods after 120 s
	answerTime   = 12 * time.Second  // for the output of a node
	startTimeout = 15 * time.Second  // for a kubelet to accept a pod
	maxAudit     = 8 << 20           // bytes of a node: thousands of containers
)

func (f *auditFlags) check(a *access) (err error) {
	switch {
	case f.helpers < 0 || f.helpers > maxHelpers:
		return badInput("--helpers %v: must be 0 to %v", f.helpers, maxHelpers)
	case f.timeout < time.Second || f.timeout > maxTimeout:
		return badInput("--timeout %v: must be 1s to %v", f.timeout, maxTimeout)
	case f.rows < 0:
		return badInput("--rows %d: must be 0 or more", f.rows)
	}
	f.namespace, err = a.namespace()
	return err
}

func (f *auditFlags) run(cmd *cobra.Command, a *access) error {
	if err := f.check(a); err != nil {
		return err
	}
	ctx := cmd.Context()
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	nodes, agents, err := f.read(ctx, c)
	if err != nil {
		return err
	}
	report := auditreport.Builder{All: f.all}
	job := &remote.Job{
		Args: []string{"audit", "--all", "-o", "json", "--helpers", f.helpers.String()}, NeedsStateDir: true,
		MaxOutput: maxAudit, Timeout: answerTime + f.helpers,
		Receive: func(a *remote.Answer) { report.Add(a.Node, a.Pod, a.Output, a.Err) },
	}
	if needsPods(nodes, agents) && !f.noPods {
		if f.image == "" {
			return badInput("missing --image; must be the image of candor, such as ghcr.io/candor-project/candor:v0.2.0")
		}
		job.Pods = &remote.Pods{Namespace: f.namespace, Image: f.image, Timeout: f.timeout + f.helpers, StartTimeout: min(startTimeout, f.timeout)}
		if _, err := c.Remote.DeleteEnded(ctx, f.namespace); err != nil {
			return withRights(err)
		}
	}
	end := showProgress(cmd.ErrOrStderr(), job, len(nodes))
	_, err = c.Remote.Run(ctx, nodes, agents, job)
	end()
	if err := errors.Join(err, context.Cause(ctx)); err != nil {
		return withRights(err)
	}
	r := report.Cluster()
	if err := f.write(cmd, r); err != nil {
		return err
	}
	return missingAnswers(r.Nodes)
}

// needsPods reports whether a node can answer, but has no agent.
func needsPods(nodes []remote.Node, agents map[string]remote.Agent) bool {
	for _, n := range nodes {
		if _, has := agents[n.Name]; n.Problem == "" && !has {
			return true
		}
	}
	return false
}

// write writes the report in the output format.
func (f *auditFlags) write(cmd *cobra.Command, r *auditreport.Cluster) error {
	out := cmd.OutOrStdout()
	switch f.output.value {
	case "json":
		return jsonout.Write(out, r)
	case "csv":
		return r.CSV(out)
	case "html":
		return r.HTML(out)
	}
	return r.Text(out, auditreport.TextOptions{Width: tableWidth(f.output), Rows: f.rows})
}

// missingAnswers returns the error that names the nodes without an answer, or nil.
func missingAnswers(nodes []auditreport.Node) error {
	var names []string
	for i := range nodes {
		if nodes[i].Problem != "" {
			names = append(names, nodes[i].Name)
		}
	}
	return notAnswered(names, len(nodes))
}

// showProgress keeps a line on a terminal up to date until end is called. On other outputs it writes nothing.
func showProgress(out io.Writer, job *remote.Job, nodes int) (end func()) {
	file, isFile := out.(*os.File)
	if !isFile || !term.IsTerminal(int(file.Fd())) {
		return func() {}
	}
	var shown atomic.Int64
	shown.Store(-1)
	job.Progress = func(answered int) {
		if percent := int64(100 * answered / nodes); shown.Swap(percent) != percent {
			fmt.Fprintf(file, "\r%d of %d nodes have answered\x1b[K", answered, nodes)
		}
	}
	fmt.Fprintf(file, "0 of %s have answered", count(nodes, "node"))
	return func() { fmt.Fprint(file, "\r\x1b[K") }
}
