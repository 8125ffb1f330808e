package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/candor-project/candor/kube/kubectl-candor/remote"
)

// nodeFlags select nodes, and the agents on them.
type nodeFlags struct {
	selector       string
	nodes          []string
	agentNamespace string
}

func (f *nodeFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.selector, "selector", "l", "", "label selector of the nodes (default: all nodes)")
	flags.StringSliceVar(&f.nodes, "node", nil, "name of a node (default: all nodes)")
	flags.StringVar(&f.agentNamespace, "agent-namespace", "", "namespace of Candor's agents (default: search all namespaces)")
}

// read returns the selected nodes, by name, and the agents by node.
func (f *nodeFlags) read(ctx context.Context, c *cluster) ([]remote.Node, map[string]remote.Agent, error) {
	if _, err := labels.Parse(f.selector); err != nil {
		return nil, nil, badInput("--selector %.200q: %w", f.selector, err)
	}
	if f.agentNamespace != "" && !isObjectName(f.agentNamespace) {
		return nil, nil, badInput("--agent-namespace %.60q: must be the name of a namespace", f.agentNamespace)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	nodes, err := c.Remote.Nodes(ctx, f.selector)
	if err != nil {
		return nil, nil, withRights(err)
	}
	if nodes, err = f.named(nodes); err != nil {
		return nil, nil, err
	}
	agents, err := c.Remote.Agents(ctx, f.agentNamespace)
	if err != nil {
		return nil, nil, withRights(err)
	}
	return nodes, agents, nil
}

// named returns the nodes of --node, or all nodes without the flag.
func (f *nodeFlags) named(all []remote.Node) (nodes []remote.Node, err error) {
	for _, name := range f.nodes {
		i := slices.IndexFunc(all, func(n remote.Node) bool { return n.Name == name })
		if i < 0 {
			return nil, badInput("--node %.253q: no such Linux node; kubectl get nodes lists the nodes", name)
		}
		nodes = append(nodes, all[i])
	}
	if f.nodes == nil {
		nodes = all
	}
	if len(nodes) == 0 {
		return nil, badInput("no Linux node; kubectl get nodes lists the nodes")
	}
	return nodes, nil
}

// maxNamed bounds the nodes that an error names.
const maxNamed = 20

// notAnswered returns the error that names the nodes without an answer, or nil if all nodes have answered.
func notAnswered(names []string, nodes int) error {
	if len(names) == 0 {
		return nil
	}
	more := ""
	if n := len(names) - maxNamed; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Errorf("%d of %s did not answer: %s%s", len(names), count(nodes, "node"), strings.Join(names[:min(len(names), maxNamed)], ", "), more)
}

// ask runs a job in the agents of the selected nodes. Nodes without an agent are no error, unless no node has one.
func (f *nodeFlags) ask(ctx context.Context, cmd *cobra.Command, c *cluster, job *remote.Job) ([]remote.Answer, error) {
	nodes, agents, err := f.read(ctx, c)
	if err != nil {
		return nil, err
	}
	nodes = slices.DeleteFunc(nodes, func(n remote.Node) bool { _, has := agents[n.Name]; return !has })
	if len(nodes) == 0 {
		return nil, errNoAgents
	}
	end := showProgress(cmd.ErrOrStderr(), job, len(nodes))
	answers, err := c.Remote.Run(ctx, nodes, agents, job)
	end()
	return answers, withRights(errors.Join(err, context.Cause(ctx)))
}

var errNoAgents = errors.New("no agent of Candor runs on these nodes; docs/deploy.md installs it, and kubectl candor audit works without it")
