package cluster

import (
	"testing"
	"time"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

const patience = 10 * time.Minute

var start = time.Unix(1000, 0)

func machine(t testing.TB, description string) *topology.Machine {
	t.Helper()
	m, err := topology.Parse(description)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// newNode returns an empty node. Tests use it as the node's agent has it, or as its report.
func newNode(t testing.TB, description string, o hybrid.Options) *hybrid.Node {
	t.Helper()
	n, err := hybrid.NewNode(machine(t, description), o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// reportOf returns a report of a node: a copy with the same grants.
func reportOf(t testing.TB, n *hybrid.Node) *hybrid.Node {
	t.Helper()
	r, err := hybrid.NewNode(n.Machine(), n.Options())
	if err == nil {
		err = r.Restore(n.Grants())
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func pod(t testing.TB, uid string, containers ...Container) *Pod {
	t.Helper()
	p, err := NewPod(uid, "default", "pod-"+uid, 1<<20, containers)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func sensitive(name string, limit hybrid.Milli) Container {
	return Container{Name: name, Request: hybrid.Request{Class: hybrid.Sensitive, Limit: limit}}
}

func flexible(name string, guarantee hybrid.Milli) Container {
	return Container{Name: name, Request: hybrid.Request{Class: hybrid.Flexible, Limit: guarantee, Guarantee: guarantee}}
}

// initContainer returns c as an init container that ends.
func initContainer(c Container) Container {
	c.RunsToCompletion = true
	return c
}

// create places the containers of a pod on a node, without init containers that end.
func create(t testing.TB, n *hybrid.Node, p *Pod) {
	t.Helper()
	for i := range p.lasting {
		if _, _, err := n.Place(&p.lasting[i].Request); err != nil {
			t.Fatalf("%s: %v", p.UID, err)
		}
	}
}

// end releases the containers of a pod on a node.
func end(t testing.TB, n *hybrid.Node, p *Pod) {
	t.Helper()
	for i := range p.containers {
		if plan, err := n.PlanRelease(p.containers[i].Request.ID); err == nil {
			if err := n.Commit(plan); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// wantRefusal checks the reason why a node refuses a pod; "" if the pod must fit.
func wantRefusal(t testing.TB, c *Cluster, node string, p *Pod, reason string) {
	t.Helper()
	switch r := c.Fits(node, p); {
	case r == nil && reason != "":
		t.Errorf("%s fits on %s, want %q", p.UID, node, reason)
	case r != nil && r.Reason != reason:
		t.Errorf("%s on %s: got refusal %q, want %q", p.UID, node, r.Reason, reason)
	}
}

func reserve(t testing.TB, c *Cluster, node string, p *Pod) []hybrid.Grant {
	t.Helper()
	grants, refusal := c.Reserve(node, p, start)
	if refusal != nil {
		t.Fatalf("%s on %s: %v", p.UID, node, refusal)
	}
	return grants
}
