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
	"github.com/candor-project/candor/kube/apiserver"
	"github.com/candor-project/candor/kube/cluster"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/podcpu"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// ErrNoDefinitions is a cluster that does not know Candor's objects.
var ErrNoDefinitions = errors.New("the cluster does not know NodeCPUs: install Candor's definitions: kubectl apply --server-side -f deploy/helm/candor/crds")

// A Survey is a cluster as it was when it was read.
type Survey struct {
	Nodes []Node // by name

	cluster   *cluster.Cluster
	pods      []podcpu.Pod
	nominated int // pods that are nominated for a node; their room is not counted
	keepAway  int // pods with anti-affinity
}

// A Node is a node of the cluster.
type Node struct {
	Name    string
	CPUs    *hybrid.Node // from its report; nil: no valid report
	Problem string       // why not

	uid       types.UID
	spec      nodeSpec
	labels    map[string]string
	has, free podcpu.List // allocatable and free resources
	missing   bool        // a report without a node
}

// A listedNode has the relevant fields of a Node.
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

// nodeCPUs is where reports are.
var nodeCPUs = "/apis/" + v1alpha1.GroupVersion.String() + "/" + v1alpha1.NodeCPUs

// Read reads the nodes, their reports, and the pods. Reports come first: a pod that is bound meanwhile counts besides.
func Read(ctx context.Context, c *apiserver.Client) (*Survey, error) {
	reports, err := apiserver.List[v1alpha1.NodeCPU](ctx, c, nodeCPUs)
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

// newSurvey combines the objects.
func newSurvey(reports []v1alpha1.NodeCPU, nodes []listedNode, pods []podcpu.Pod) *Survey {
	s := &Survey{cluster: cluster.New(time.Hour), pods: pods}
	at := map[string]*Node{}
	for i := range nodes {
		n := &nodes[i]
		free := podcpu.List{}
		free.Add(n.Status.Allocatable)
		at[n.Name] = &Node{Name: n.Name, uid: n.UID, spec: n.Spec, labels: n.Labels, has: n.Status.Allocatable, free: free, Problem: "no Candor on node"}
	}
	now := time.Now()
	for i := range reports {
		r := &reports[i]
		n := at[r.Name]
		if n == nil {
			n = &Node{Name: r.Name, missing: true}
			at[r.Name] = n
		}
		n.hear(s.cluster, r, now)
	}
	s.count(at, now)
	for _, n := range at {
		s.Nodes = append(s.Nodes, *n)
	}
	slices.SortFunc(s.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// hear takes a node's report.
func (n *Node) hear(c *cluster.Cluster, r *v1alpha1.NodeCPU, now time.Time) {
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
		n.CPUs, n.Problem = node, ""
		c.Report(r.Name, 1, node, now)
	}
}

// count adds the pods to their nodes.
func (s *Survey) count(at map[string]*Node, now time.Time) {
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
			s.keepAway++
		}
		n.take(p)
		if p.IsMirror() {
			continue
		}
		if asks, err := podcpu.ReadBound(p); err == nil { // else no node has room for it
			s.cluster.Bound(n.Name, asks, now)
		}
	}
}

// take counts a pod by Kubernetes' own accounts.
func (n *Node) take(p *podcpu.Pod) {
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

// Names are the names of a node's containers, by their IDs there.
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

// Node returns the node of a name.
func (s *Survey) Node(name string) (*Node, error) {
	i := slices.IndexFunc(s.Nodes, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("no node %.253q: kubectl get nodes lists them", name)
	}
	return &s.Nodes[i], nil
}
