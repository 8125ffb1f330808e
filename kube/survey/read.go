package survey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/internal/seencpus"
	"github.com/candor-project/candor/kube/apiserver"
	"github.com/candor-project/candor/kube/cluster"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/podcpu"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// ErrNoDefinitions is the error for a cluster without Candor's CustomResourceDefinitions.
var ErrNoDefinitions = errors.New("the cluster does not know NodeCPUs: install Candor's definitions: kubectl apply --server-side -f deploy/helm/candor/crds")

// A Survey is the state of a cluster at the time of a call of Read.
type Survey struct {
	Nodes []Node // by name

	cluster      *cluster.Cluster
	pods         []podcpu.Pod
	nominated    int // number of pods nominated for a node; the resources of these pods are not counted
	antiAffinity int // number of running pods with anti-affinity
}

// A Node is a node of the cluster.
type Node struct {
	Name    string
	CPUs    *hybrid.Node // from the node's report; nil if there is no valid report
	Problem string       // reason why CPUs is nil
	// SeenCPUs has the CPUs that a container sees, by container ID. It lacks the containers that see the default number of CPUs of
	// their class.
	SeenCPUs map[string]seencpus.Summary

	uid               types.UID
	spec              nodeSpec
	labels            map[string]string
	allocatable, free podcpu.List // allocatable and free resources
	missing           bool        // there is a report, but no Node with that name
}

// A listedNode has the fields of Kubernetes' Node that Read uses.
type listedNode struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              nodeSpec `json:"spec"`
	Status            struct {
		Allocatable podcpu.List `json:"allocatable"`
	} `json:"status"`
}

type nodeSpec struct {
	Unschedulable bool    `json:"unschedulable"`
	Taints        []taint `json:"taints"`
}

type taint struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Effect string `json:"effect"`
}

// nodeCPUsPath is the path of the reports in the API.
var nodeCPUsPath = "/apis/" + v1alpha1.GroupVersion.String() + "/" + v1alpha1.NodeCPUs

// Read reads the reports, the nodes and the pods. It reads the reports before the pods. So the list of pods contains each pod
// that is bound after the reports were read, and Read adds such a pod to its node.
func Read(ctx context.Context, c apiserver.Reader) (*Survey, error) {
	reports, err := apiserver.List[v1alpha1.NodeCPU](ctx, c, nodeCPUsPath)
	if apierrors.IsNotFound(err) {
		return nil, ErrNoDefinitions
	}
	if err != nil {
		return nil, err
	}
	nodes, err := apiserver.List[listedNode](ctx, c, "/api/v1/nodes")
	if err != nil {
		return nil, err
	}
	pods, err := apiserver.List[podcpu.Pod](ctx, c, "/api/v1/pods")
	if err != nil {
		return nil, err
	}
	return newSurvey(reports, nodes, pods), nil
}

// newSurvey builds a Survey from the objects.
func newSurvey(reports []v1alpha1.NodeCPU, nodes []listedNode, pods []podcpu.Pod) *Survey {
	s := &Survey{cluster: cluster.New(time.Hour), pods: pods}
	at := map[string]*Node{}
	for i := range nodes {
		n := &nodes[i]
		free := podcpu.List{}
		free.Add(n.Status.Allocatable)
		at[n.Name] = &Node{Name: n.Name, uid: n.UID, spec: n.Spec, labels: n.Labels, allocatable: n.Status.Allocatable, free: free, Problem: "no Candor on node"}
	}
	now := time.Now()
	for i := range reports {
		r := &reports[i]
		n := at[r.Name]
		if n == nil {
			n = &Node{Name: r.Name, missing: true}
			at[r.Name] = n
		}
		n.addReport(s.cluster, r, now)
	}
	s.addPods(at, now)
	for _, n := range at {
		s.Nodes = append(s.Nodes, *n)
	}
	slices.SortFunc(s.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// addReport stores the node's report, or the problem with it.
func (n *Node) addReport(c *cluster.Cluster, r *v1alpha1.NodeCPU, now time.Time) {
	node, err := nodecpu.Node(&r.Status)
	switch owner := r.NodeUID(); {
	case n.uid != "" && owner != "" && owner != n.uid:
		n.Problem = "report is of a former node"
		c.NoReport(r.Name, 1, cluster.Former)
	case errors.Is(err, nodecpu.ErrNoReport):
		n.Problem = "no report yet"
		c.NoReport(r.Name, 1, cluster.NotYet)
	case err != nil:
		n.Problem = "report of node cannot be used: " + err.Error()
		c.NoReport(r.Name, 1, cluster.Unusable)
	default:
		n.CPUs, n.Problem, n.SeenCPUs = node, "", SeenCPUs(&r.Status)
		c.Report(r.Name, 1, node, now)
	}
}

// otherFilesNote is the note on a sensitive container whose files show other CPUs than its affinity. A report does not have the
// view that the container should have, nor the mounts.
const otherFilesNote = "its /proc and /sys show other CPUs: candor inspect on the node has the reason; usually a restart mounts its view"

// SeenCPUs returns the CPUs that the containers of a report see, by the ID of the container (nodecpu.Holder.ID). It skips invalid
// texts, which no agent writes.
func SeenCPUs(s *v1alpha1.NodeCPUStatus) map[string]seencpus.Summary {
	seen := map[string]seencpus.Summary{}
	for i := range s.Grants {
		g := &s.Grants[i]
		if summary, ok := seencpus.Parse(g.Sees); ok {
			if g.Class == hybrid.Sensitive.String() && summary.Files > 0 && summary.Affinity != summary.Files {
				summary.Note = otherFilesNote
			}
			seen[nodecpu.Holder{Pod: g.Pod, Container: g.Container}.ID()] = summary
		}
	}
	return seen
}

// addPods adds the pods to their nodes.
func (s *Survey) addPods(at map[string]*Node, now time.Time) {
	for i := range s.pods {
		p := &s.pods[i]
		n := at[p.Spec.NodeName]
		switch {
		case p.HasEnded():
			continue
		case p.Spec.NodeName == "" && p.Status.Nominated != "":
			s.nominated++
			continue
		case n == nil:
			continue
		}
		if p.Spec.Affinity.AntiPod {
			s.antiAffinity++
		}
		n.addPod(p)
		if p.IsMirror() {
			continue
		}
		if asks, err := podcpu.ReadBound(p); err == nil { // an invalid request fits on no node
			s.cluster.Bound(n.Name, asks, now)
		}
	}
}

// addPod subtracts the pod's requests from the free resources of the node.
func (n *Node) addPod(p *podcpu.Pod) {
	for name, q := range p.Requests() {
		if left, is := n.free[name]; is {
			left.Sub(q)
			n.free[name] = left
		}
	}
	if left, is := n.free[podsName]; is {
		left.Sub(one)
		n.free[podsName] = left
	}
}

// Names maps the IDs of the containers of all pods (nodecpu.Holder.ID) to the names of their namespace, pod and container.
func (s *Survey) Names() map[string]podname.Name {
	names := map[string]podname.Name{}
	for i := range s.pods {
		p := &s.pods[i]
		for _, all := range [][]podcpu.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for j := range all {
				id := nodecpu.Holder{Pod: p.Metadata.UID, Container: all[j].Name}.ID()
				names[id] = podname.Name{Namespace: p.Metadata.Namespace, Pod: p.Metadata.Name, Container: all[j].Name}
			}
		}
	}
	return names
}

// Node returns the node with a name.
func (s *Survey) Node(name string) (*Node, error) {
	i := slices.IndexFunc(s.Nodes, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("no node %.253q: kubectl get nodes lists them", name)
	}
	return &s.Nodes[i], nil
}
