package publish

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/apiserver"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// A client is the API server, for the object of one node.
type client struct {
	*apiserver.Client
	node string
}

// objects is where NodeCPUs are.
var objects = "/apis/" + v1alpha1.GroupVersion.String() + "/" + v1alpha1.NodeCPUs

func (c *client) get(ctx context.Context) (*v1alpha1.NodeCPU, error) {
	n := &v1alpha1.NodeCPU{}
	err := c.Get(ctx, objects+"/"+c.node, n)
	if apierrors.IsNotFound(err) {
		return c.create(ctx)
	}
	return n, err
}

// create makes the object as one of the node's, so that it goes with the node.
func (c *client) create(ctx context.Context) (*v1alpha1.NodeCPU, error) {
	owner, err := c.theNode(ctx)
	if err != nil {
		return nil, err
	}
	n := c.named(&v1alpha1.NodeCPU{})
	n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: c.node, UID: owner.UID}}
	made := &v1alpha1.NodeCPU{}
	return made, c.Do(ctx, http.MethodPost, objects, n, made)
}

// A node is what of a Node is of interest here.
type node struct {
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		Allocatable struct {
			CPU resource.Quantity `json:"cpu"`
		} `json:"allocatable"`
	} `json:"status"`
}

func (c *client) theNode(ctx context.Context) (n node, err error) {
	if err := c.Get(ctx, "/api/v1/nodes/"+c.node, &n); err != nil {
		return n, fmt.Errorf("node %s: %w", c.node, err)
	}
	return n, nil
}

func (c *client) allocatable(ctx context.Context) (hybrid.Milli, error) {
	n, err := c.theNode(ctx)
	return hybrid.Milli(n.Status.Allocatable.CPU.MilliValue()), err
}

func (c *client) write(ctx context.Context, n *v1alpha1.NodeCPU) (*v1alpha1.NodeCPU, error) {
	written := &v1alpha1.NodeCPU{}
	return written, c.Do(ctx, http.MethodPut, objects+"/"+c.node+"/status", c.named(n), written)
}

// named says of an object what it is, as the API server wants to be told.
func (c *client) named(n *v1alpha1.NodeCPU) *v1alpha1.NodeCPU {
	n.APIVersion, n.Kind, n.Name = v1alpha1.GroupVersion.String(), "NodeCPU", c.node
	return n
}
