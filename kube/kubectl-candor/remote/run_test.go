package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// kubelets plays the kubelets of a fake cluster: the status of a pod follows from the name of its node. It counts the pods that
// exist.
type kubelets struct {
	*Cluster
	client  *fake.Clientset
	deleted []string // label selectors of collections that were deleted
}

// status returns the status that the kubelet of a node sets, or nil if the kubelet does not answer.
func status(node string) *corev1.PodStatus {
	now := metav1.Now()
	container := func(s corev1.ContainerState) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: agentContainer, State: s}}
	}
	switch kind, _, _ := strings.Cut(node, "-"); kind {
	case "silent":
		return nil
	case "slow":
		return &corev1.PodStatus{Phase: corev1.PodPending, StartTime: &now, ContainerStatuses: container(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}})}
	case "noimage":
		return &corev1.PodStatus{Phase: corev1.PodPending, StartTime: &now,
			ContainerStatuses: container(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}})}
	case "full":
		return &corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfpods", Message: "Node didn't have enough resource: pods"}
	case "failed":
		return &corev1.PodStatus{Phase: corev1.PodFailed, StartTime: &now, ContainerStatuses: container(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}})}
	default:
		return &corev1.PodStatus{Phase: corev1.PodSucceeded, StartTime: &now, ContainerStatuses: container(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}})}
	}
}

// newKubelets returns a fake cluster in which candor prints the name of its node.
func newKubelets(t *testing.T) *kubelets {
	t.Helper()
	k := &kubelets{client: fake.NewClientset()}
	k.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		p := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
		if strings.HasPrefix(p.Spec.NodeName, "refused") {
			return true, nil, apierrors.NewInternalError(errors.New("etcd is full"))
		}
		p.Name = p.GenerateName + p.Spec.NodeName
		p.CreationTimestamp = metav1.Now()
		if s := status(p.Spec.NodeName); s != nil {
			p.Status = *s
		}
		return false, nil, nil
	})
	k.client.PrependReactor("delete-collection", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		k.deleted = append(k.deleted, action.(clienttesting.DeleteCollectionAction).GetListRestrictions().Labels.String())
		return true, nil, nil
	})
	k.Cluster = &Cluster{client: k.client, log: k.output, exec: func(ctx context.Context, at Container, command []string, limit int64) ([]byte, error) {
		text, err := k.output(ctx, at, limit)
		return fmt.Appendf(text, " %s", strings.Join(command, " ")), err
	}}
	return k
}

// output returns the name of the pod. Without an answer, it waits for the end of ctx.
func (k *kubelets) output(ctx context.Context, at Container, _ int64) ([]byte, error) {
	if strings.Contains(at.Pod, "hung") {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if strings.Contains(at.Pod, "failed") {
		return []byte("line\ncandor audit: no cgroups\n"), nil
	}
	return []byte(at.Pod), nil
}

func testJob() *Job {
	return &Job{Args: []string{"audit"}, NeedsStateDir: true, MaxOutput: 1 << 10, Timeout: 300 * time.Millisecond,
		Pods: &Pods{Namespace: "tools", Image: "candor:test", Timeout: 900 * time.Millisecond, StartTimeout: 600 * time.Millisecond}}
}

func nodesOf(names ...string) (nodes []Node) {
	for _, name := range names {
		nodes = append(nodes, Node{Name: name})
	}
	return nodes
}

// TestFaults: each node that cannot answer has an error with the reason, and does not delay the others. Run deletes its pods.
func TestFaults(t *testing.T) {
	k := newKubelets(t)
	nodes := append(nodesOf("good-1", "silent-1", "slow-1", "noimage-1", "full-1", "failed-1", "refused-1", "hung-1", "agent-1", "agent-hung", "agent-ending"),
		Node{"lost-1", "NotReady: Kubelet stopped posting node status."})
	agents := map[string]Agent{}
	for _, name := range []string{"agent-1", "agent-hung", "agent-ending"} {
		agents[name] = Agent{Container: Container{"candor-system", name, agentContainer}, Node: name, StateDir: "/run/c"}
	}
	ending := agents["agent-ending"]
	ending.Problem = "the agent is being deleted"
	agents["agent-ending"] = ending
	answers, err := k.Run(t.Context(), nodes, agents, testJob())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"good-1": "", "agent-1": "",
		"silent-1": "the kubelet did not start the pod within 600ms", "slow-1": "the pod did not end within 900ms: ContainerCreating",
		"noimage-1": "the pod cannot start: ErrImagePull: not found", "full-1": "the pod failed: OutOfpods: Node didn't have enough resource: pods",
		"failed-1": "candor audit: no cgroups", "refused-1": "cannot create the pod: Internal error occurred: etcd is full",
		"hung-1": "no answer within 300ms", "agent-hung": "no answer within 300ms", "agent-ending": "the agent is being deleted",
		"lost-1": "NotReady: Kubelet stopped posting node status.",
	}
	for i, a := range answers {
		switch text := want[a.Node]; {
		case a.Node != nodes[i].Name:
			t.Errorf("answer %d is of %s, want %s", i, a.Node, nodes[i].Name)
		case text == "" && (a.Err != nil || len(a.Output) == 0):
			t.Errorf("%s: %q, %v; want output", a.Node, a.Output, a.Err)
		case text != "" && (a.Err == nil || strings.TrimSpace(a.Err.Error()) != text):
			t.Errorf("%s: error %v, want %s", a.Node, a.Err, text)
		}
	}
	if exit := (*ExitError)(nil); !errors.As(answers[5].Err, &exit) || exit.Code != 1 || len(answers[5].Output) == 0 {
		t.Errorf("%+v, want an exit code and output", answers[5])
	}
	if i := slices.IndexFunc(answers, func(a Answer) bool { return a.Node == "agent-1" }); string(answers[i].Output) != "agent-1 /candor audit --state-dir /run/c" || answers[i].Pod != "candor-system/agent-1" {
		t.Errorf("%+v", answers[i])
	}
	if len(k.deleted) != 1 || !strings.HasPrefix(k.deleted[0], runLabel+"=") {
		t.Errorf("deleted collections: %q, want one of the run", k.deleted)
	}
}

// TestNoPods: without Pods, only agents answer, and no pod is created.
func TestNoPods(t *testing.T) {
	k := newKubelets(t)
	job := testJob()
	job.Pods = nil
	answers, err := k.Run(t.Context(), nodesOf("good-1"), nil, job)
	if err != nil || !errors.Is(answers[0].Err, ErrNoAgent) || len(k.client.Actions()) != 0 {
		t.Errorf("%v, %+v, %v", err, answers, k.client.Actions())
	}
}

// TestForbidden: if the namespace forbids the pods, Run ends after the first refusal, with the next step.
func TestForbidden(t *testing.T) {
	k := newKubelets(t)
	k.client.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New(`violates PodSecurity "baseline:latest"`))
	})
	started := time.Now()
	job := testJob()
	job.Pods.Timeout = time.Minute
	_, err := k.Run(t.Context(), nodesOf("good-1", "good-2", "good-3"), nil, job)
	if !errors.Is(err, ErrPodSecurity) || !strings.Contains(err.Error(), "use --namespace with a namespace of the PodSecurity level privileged") || time.Since(started) > 10*time.Second {
		t.Errorf("%v after %v", err, time.Since(started))
	}
}

// TestInterrupted: if ctx ends, Run deletes the pods, and the missing answers have the cause.
func TestInterrupted(t *testing.T) {
	k := newKubelets(t)
	cause := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(300*time.Millisecond, func() { cancel(cause) })
	job := testJob()
	job.Pods.Timeout, job.Pods.StartTimeout = time.Minute, time.Minute
	answers, err := k.Run(ctx, nodesOf("good-1", "silent-1"), nil, job)
	if err != nil || answers[0].Err != nil || !errors.Is(answers[1].Err, cause) || len(k.deleted) != 1 {
		t.Errorf("%v, %+v, deleted %q", err, answers, k.deleted)
	}
}

// TestMany: 20 reads at once suffice for many nodes, and nodes that hang delay the others only by their timeout.
func TestMany(t *testing.T) {
	k := newKubelets(t)
	agents := map[string]Agent{}
	var nodes []Node
	for i := range 1000 {
		name := fmt.Sprintf("agent-%d", i)
		if i%100 == 0 {
			name = fmt.Sprintf("hung-%d", i)
		}
		nodes = append(nodes, Node{Name: name})
		agents[name] = Agent{Container: Container{"candor-system", name, agentContainer}, Node: name}
	}
	maxAnswered := 0
	job := testJob()
	job.Progress = func(answered int) { maxAnswered = max(maxAnswered, answered) }
	started := time.Now()
	answers, err := k.Run(t.Context(), nodes, agents, job)
	hung := 0
	for _, a := range answers {
		if a.Err != nil {
			hung++
		}
	}
	if took := time.Since(started); err != nil || hung != 10 || maxAnswered != 1000 || took > 5*time.Second {
		t.Errorf("%v, %d without answer, %d answered after %v; want 10 of 1000", err, hung, maxAnswered, took)
	}
}

// TestDeleteEnded: pods that have ended and pods after their deadline are deleted; young pods that run belong to another process.
func TestDeleteEnded(t *testing.T) {
	k := newKubelets(t)
	add := func(name string, phase corev1.PodPhase, age time.Duration, labels map[string]string) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "tools", Labels: labels, CreationTimestamp: metav1.NewTime(time.Now().Add(-age))}, Status: corev1.PodStatus{Phase: phase}}
		if err := k.client.Tracker().Add(p); err != nil {
			t.Fatal(err)
		}
	}
	labels := map[string]string{managerLabel: manager, runLabel: "x"}
	add("ended", corev1.PodSucceeded, time.Second, labels)
	add("late", corev1.PodPending, time.Hour, labels)
	add("young", corev1.PodRunning, time.Second, labels)
	add("other", corev1.PodSucceeded, time.Hour, nil)
	deleted, err := k.DeleteEnded(t.Context(), "tools")
	list, listErr := k.client.CoreV1().Pods("tools").List(t.Context(), metav1.ListOptions{})
	if err != nil || listErr != nil || deleted != 2 || len(list.Items) != 2 {
		t.Errorf("%v, %v, deleted %d, %d pods left; want 2 and 2", err, listErr, deleted, len(list.Items))
	}
}

// TestAgents: an agent is a pod of a DaemonSet with hostPID. A pod of a tenant with the same label is none, and agents in two
// namespaces are an error.
func TestAgents(t *testing.T) {
	k := newKubelets(t)
	add := func(namespace, name, node string, change func(*corev1.Pod)) {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app.kubernetes.io/name": "candor", "app.kubernetes.io/version": "0.2.0"},
				OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Controller: new(true)}}},
			Spec:   corev1.PodSpec{NodeName: node, HostPID: true, Containers: []corev1.Container{{Name: agentContainer, Args: []string{"nri", "--state-dir=/run/candor"}}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: agentContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}},
		}
		change(p)
		if err := k.client.Tracker().Add(p); err != nil {
			t.Fatal(err)
		}
	}
	add("candor-system", "candor-a", "node-1", func(*corev1.Pod) {})
	add("candor-system", "candor-b", "node-2", func(p *corev1.Pod) { p.Status.ContainerStatuses = nil })
	add("candor-system", "candor-old", "node-1", func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Now()}, []string{"x"} })
	add("shop", "fake", "node-3", func(p *corev1.Pod) { p.Spec.HostPID = false })
	add("shop", "bare", "node-4", func(p *corev1.Pod) { p.OwnerReferences = nil })
	agents, err := k.Agents(t.Context(), "")
	if a := agents["node-1"]; err != nil || len(agents) != 2 || a.Pod != "candor-a" || a.Problem != "" || a.StateDir != "/run/candor" || a.Version != "0.2.0" || agents["node-2"].Problem == "" {
		t.Errorf("%v, %+v", err, agents)
	}
	add("shop", "second", "node-5", func(*corev1.Pod) {})
	if _, err := k.Agents(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "2 namespaces have agents (candor-system, shop); use --agent-namespace") {
		t.Errorf("%v, want both namespaces", err)
	}
	if agents, err := k.Agents(t.Context(), "candor-system"); err != nil || len(agents) != 2 {
		t.Errorf("%v, %+v", err, agents)
	}
}

// TestBoundedBuffer: a node that prints without end does not fill the memory.
func TestBoundedBuffer(t *testing.T) {
	over := 0
	b := &boundedBuffer{limit: 5, over: func() { over++ }}
	for _, part := range []string{"abc", "defg", "h"} {
		if n, err := b.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("%s: %d, %v", part, n, err)
		}
	}
	if b.text.String() != "abcde" || over != 2 {
		t.Errorf("%q, over %d times", b.text.String(), over)
	}
}
