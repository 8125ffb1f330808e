package scheduler

import (
	"maps"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/topology"
)

// An agent simulates Candor on a node: tests create and end containers, and write reports.
type agent struct {
	t      testing.TB
	p      *plane
	name   string
	node   *hybrid.Node
	object *v1alpha1.NodeCPU
	clock  time.Duration                 // offset of the node's clock
	edit   func(*v1alpha1.NodeCPUStatus) // changes each report, if non-nil
	more   map[string]any                // additional fields of each report, as in a later version of the CRD
}

// addAgent adds a node with Candor and writes its first report.
func (p *plane) addAgent(t testing.TB, name, machine string) *agent {
	t.Helper()
	m, err := topology.Parse(machine)
	if err != nil {
		t.Fatal(err)
	}
	n, err := hybrid.NewNode(m, hybrid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.addNode(t, name, m.Online.Count())
	a := &agent{t: t, p: p, name: name, node: n, object: &v1alpha1.NodeCPU{}}
	a.object.APIVersion, a.object.Kind = v1alpha1.GroupVersion.String(), "NodeCPU"
	a.object.Name = name
	made, err := p.dynamic.Resource(nodeCPUs).Create(ctx, toUnstructured(t, &struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
	}{a.object.TypeMeta, a.object.ObjectMeta}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a.object.ResourceVersion = made.GetResourceVersion()
	a.report()
	return a
}

// report writes the report of the node.
func (a *agent) report() {
	a.t.Helper()
	counter := a.object.Status.Counter
	a.object.Status = nodecpu.Status(a.node, nodecpu.HolderOf)
	a.object.Status.Counter, a.object.Status.Reported = counter+1, metav1.NewTime(time.Now().Add(a.clock))
	if a.edit != nil {
		a.edit(&a.object.Status)
	}
	object := toUnstructured(a.t, a.object)
	maps.Copy(object.Object["status"].(map[string]any), a.more)
	made, err := a.p.dynamic.Resource(nodeCPUs).UpdateStatus(ctx, object, metav1.UpdateOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	a.object.ResourceVersion = made.GetResourceVersion()
}

// create creates the containers of a pod that is bound to the node. It fails the test if the node has too few
// free CPUs.
func (a *agent) create(pod *v1.Pod) {
	a.t.Helper()
	if pod.Spec.NodeName != a.name {
		a.t.Fatalf("%s is bound to %q, want %s", pod.Name, pod.Spec.NodeName, a.name)
	}
	r, err := requestsOf(pod)
	if err != nil {
		a.t.Fatal(err)
	}
	for i := range r {
		if _, _, err := a.node.Place(&r[i]); err != nil {
			a.t.Fatalf("%s has no room for container %s of %s: %v", a.name, r[i].ID, pod.Name, err)
		}
	}
}

// end ends the containers of a pod.
func (a *agent) end(pod *v1.Pod) {
	a.t.Helper()
	for _, g := range a.node.Grants() {
		if nodecpu.HolderOf(g.ID).Pod != string(pod.UID) {
			continue
		}
		plan, err := a.node.PlanRelease(g.ID)
		if err == nil {
			err = a.node.Commit(plan)
		}
		if err != nil {
			a.t.Fatal(err)
		}
	}
}

// put creates containers that the scheduler has not placed, such as static pods, and reports the node.
func (a *agent) put(requests ...hybrid.Request) {
	a.t.Helper()
	for i := range requests {
		if _, _, err := a.node.Place(&requests[i]); err != nil {
			a.t.Fatal(err)
		}
	}
	a.report()
}

// requestsOf returns the requests of a pod's containers and sidecars, without init containers that end.
func requestsOf(pod *v1.Pod) ([]hybrid.Request, error) {
	demand, err := boundPod(pod)
	if err != nil {
		return nil, err
	}
	return demand.Lasting(), nil
}
