package remote

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

// An Agent is a container that runs candor nri on a node.
type Agent struct {
	Container
	Node     string
	StateDir string // --state-dir of candor nri; "" if the flag is not set
	Version  string // label app.kubernetes.io/version of the pod
	Problem  string // reason why the agent is not ready; "" if it is ready
}

// agentSelector selects the pods of the agents. The Helm chart sets the label.
const agentSelector = "app.kubernetes.io/name=candor"

// agentContainer is the name of the agent's container in its pod.
const agentContainer = "candor"

// Agents returns the agents of the cluster, by node. namespace is the namespace of the agents; "" searches all namespaces.
//
// Any user can set the label of the agents. Agents only accepts pods of a DaemonSet with hostPID, which the PodSecurity levels
// baseline and restricted forbid. If several namespaces have such pods, Agents returns an error, and the user has to name the
// namespace.
func (c *Cluster) Agents(ctx context.Context, namespace string) (map[string]Agent, error) {
	agents, found := map[string]Agent{}, map[string]bool{}
	list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.client.CoreV1().Pods(namespace).List(ctx, o)
	})
	err := list.EachListItem(ctx, metav1.ListOptions{LabelSelector: agentSelector}, func(object runtime.Object) error {
		p, ok := object.(*corev1.Pod)
		if !ok || !isAgent(p) {
			return nil
		}
		found[p.Namespace] = true
		agent := agentOf(p)
		if other, isKnown := agents[agent.Node]; !isKnown || other.Problem != "" {
			agents[agent.Node] = agent
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(found) > 1 {
		names := slices.Sorted(maps.Keys(found))
		return nil, fmt.Errorf("%d namespaces have agents (%s); use --agent-namespace NAMESPACE", len(names), strings.Join(names[:min(len(names), 3)], ", "))
	}
	return agents, nil
}

// isAgent reports whether a pod with the label of agents is the pod of an agent on a node.
func isAgent(p *corev1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	return p.Spec.NodeName != "" && p.Spec.HostPID && owner != nil && owner.Kind == "DaemonSet" &&
		p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed && agentSpec(p) != nil
}

// agentSpec returns the container of a pod that runs candor nri, or nil.
func agentSpec(p *corev1.Pod) *corev1.Container {
	i := slices.IndexFunc(p.Spec.Containers, func(c corev1.Container) bool {
		return c.Name == agentContainer && slices.Contains(c.Args, "nri")
	})
	if i < 0 {
		return nil
	}
	return &p.Spec.Containers[i]
}

func agentOf(p *corev1.Pod) Agent {
	a := Agent{Container: Container{p.Namespace, p.Name, agentContainer}, Node: p.Spec.NodeName, Version: p.Labels["app.kubernetes.io/version"]}
	for _, arg := range agentSpec(p).Args {
		if dir, is := strings.CutPrefix(arg, "--state-dir="); is {
			a.StateDir = dir
		}
	}
	a.Problem = notReady(p)
	return a
}

// notReady returns the reason why the agent's container does not run, or "" if it runs.
func notReady(p *corev1.Pod) string {
	if p.DeletionTimestamp != nil {
		return "the agent is being deleted"
	}
	for i := range p.Status.ContainerStatuses {
		s := &p.Status.ContainerStatuses[i]
		switch {
		case s.Name != agentContainer:
		case s.State.Running != nil:
			return ""
		case s.State.Waiting != nil:
			return fmt.Sprintf("the agent waits: %.60s: %.200s", s.State.Waiting.Reason, s.State.Waiting.Message)
		default:
			return "the agent has ended"
		}
	}
	return "the agent has not started"
}
