package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Job is a command of candor that Run runs on nodes.
type Job struct {
	Args []string // of candor, such as audit -o json
	// NeedsStateDir adds --state-dir with the state directory of the agent to Args, if candor runs in the agent's container.
	NeedsStateDir bool
	MaxOutput     int64         // maximum size of a node's output, in bytes
	Timeout       time.Duration // for the answer of a node, without the start of a pod
	// Pods describes the pods for nodes without an agent. nil: on these nodes, candor does not run.
	Pods *Pods
	// Receive, if not nil, is called with each answer, in the order in which they arrive. Run then returns the answers without
	// Output, so that it does not store the output of all nodes. Progress, if not nil, is called after each answer with the
	// number of nodes that have answered. Calls of both do not overlap.
	Receive  func(*Answer)
	Progress func(answered int)
}

// An Answer is the output of candor on a node.
type Answer struct {
	Node   string
	Pod    string // namespace/name of the pod in which candor ran; "" if it did not run
	Output []byte
	// Err is the reason why there is no output. If candor ended with another exit code than 0, Err is an *ExitError, and Output
	// is set.
	Err error
}

// ErrNoAgent is the error of a node without an agent if a Job has no Pods.
var ErrNoAgent = errors.New("no agent of Candor runs on the node")

// atOnce is the number of nodes from which Run reads at the same time. Each read is a connection through the API server to the
// kubelet.
const atOnce = 20

// Run runs a job on nodes, and returns an answer for each node, in the order of nodes. agents are the agents by node.
//
// Run takes at most job.Pods.Timeout plus job.Timeout for the nodes that answer, and for each atOnce nodes that do not answer
// another job.Timeout. If ctx ends, the answers that are missing have its error. The error of Run is about all nodes: it cannot
// create pods.
func (c *Cluster) Run(ctx context.Context, nodes []Node, agents map[string]Agent, job *Job) ([]Answer, error) {
	r := &jobRun{cluster: c, job: job, slots: make(chan struct{}, atOnce), answers: map[string]*Answer{}}
	var wait sync.WaitGroup
	var bare []string // nodes without an agent
	for _, n := range nodes {
		agent, has := agents[n.Name]
		switch {
		case n.Problem != "":
			r.answer(Answer{Node: n.Name, Err: errors.New(n.Problem)})
		case has && agent.Problem != "":
			r.answer(Answer{Node: n.Name, Err: errors.New(agent.Problem)})
		case has:
			wait.Go(func() { r.ask(ctx, &agent) })
		case job.Pods == nil:
			r.answer(Answer{Node: n.Name, Err: ErrNoAgent})
		default:
			bare = append(bare, n.Name)
		}
	}
	var err error
	if len(bare) > 0 {
		err = r.runPods(ctx, bare)
	}
	wait.Wait()
	if err != nil {
		return nil, err
	}
	all := make([]Answer, len(nodes))
	for i, n := range nodes {
		all[i] = Answer{Node: n.Name, Err: context.Cause(ctx)}
		if a := r.answers[n.Name]; a != nil {
			all[i] = *a
		}
	}
	return all, nil
}

// A jobRun holds the answers of a job that runs.
type jobRun struct {
	cluster *Cluster
	job     *Job
	slots   chan struct{} // a value for each read in progress

	mu      sync.Mutex
	answers map[string]*Answer // by node
}

// answer stores the answer of a node. Only the first answer of a node counts.
func (r *jobRun) answer(a Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answers[a.Node] != nil {
		return
	}
	r.answers[a.Node] = &a
	if r.job.Receive != nil {
		r.job.Receive(&a)
		a.Output = nil
	}
	if r.job.Progress != nil {
		r.job.Progress(len(r.answers))
	}
}

func (r *jobRun) hasAnswer(node string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answers[node] != nil
}

// ask runs candor in the container of an agent.
func (r *jobRun) ask(ctx context.Context, agent *Agent) {
	command := append([]string{program}, r.job.Args...)
	if r.job.NeedsStateDir && agent.StateDir != "" {
		command = append(command, "--state-dir", agent.StateDir)
	}
	r.read(ctx, agent.Node, agent.Container, func(ctx context.Context) ([]byte, error) {
		return r.cluster.exec(ctx, agent.Container, command, r.job.MaxOutput)
	})
}

// read stores the output of a container as the answer of a node. It waits until less than atOnce reads are in progress.
func (r *jobRun) read(ctx context.Context, node string, at Container, output func(context.Context) ([]byte, error)) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return
	}
	late := fmt.Errorf("no answer within %v", r.job.Timeout)
	limited, cancel := context.WithTimeoutCause(ctx, r.job.Timeout, late)
	defer cancel()
	text, err := output(limited)
	if ctx.Err() != nil && err != nil {
		return // Run reports that it was interrupted
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = late
	}
	r.answer(Answer{Node: node, Pod: at.Namespace + "/" + at.Pod, Output: text, Err: err})
}
