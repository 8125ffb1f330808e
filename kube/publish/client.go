package publish

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/apiserver"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// A client reads and writes the NodeCPU of a node through the API server. It implements api.
type client struct {
	*apiserver.Client
	node string
}

// objectsPath is the path of the NodeCPUs in the API.
var objectsPath = "/apis/" + v1alpha1.GroupVersion.String() + "/" + v1alpha1.NodeCPUs

func (c *client) get(ctx context.Context) (*v1alpha1.NodeCPU, error) {
	owner, err := c.getOwner(ctx)
	if err != nil {
		return nil, err
	}
	n := &v1alpha1.NodeCPU{}
	err = c.Get(ctx, objectsPath+"/"+c.node, n)
	switch {
	case apierrors.IsNotFound(err):
		return c.put(ctx, http.MethodPost, objectsPath, &v1alpha1.NodeCPU{}, owner)
	case err != nil || slices.ContainsFunc(n.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == owner.UID }):
		return n, err
	default:
		// The NodeCPU belongs to a former Node with the same name. Without a new owner, the garbage collector would delete it and
		// candor-scheduler would ignore it.
		return c.put(ctx, http.MethodPut, objectsPath+"/"+c.node, n, owner)
	}
}

// put creates or replaces the NodeCPU. It sets the Node as the owner, so that the garbage collector deletes the NodeCPU after the Node.
func (c *client) put(ctx context.Context, method, path string, n *v1alpha1.NodeCPU, owner metav1.OwnerReference) (*v1alpha1.NodeCPU, error) {
	n = c.setName(n)
	n.OwnerReferences = []metav1.OwnerReference{owner}
	written := &v1alpha1.NodeCPU{}
	return written, c.Do(ctx, method, path, n, written)
}

func (c *client) getOwner(ctx context.Context) (metav1.OwnerReference, error) {
	n, err := c.getNode(ctx)
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: c.node, UID: n.UID}, err
}

// A node has the fields of Kubernetes' Node that the client reads.
type node struct {
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		Allocatable struct {
			CPU resource.Quantity `json:"cpu"`
		} `json:"allocatable"`
	} `json:"status"`
}

func (c *client) getNode(ctx context.Context) (n node, err error) {
	if err := c.Get(ctx, "/api/v1/nodes/"+c.node, &n); err != nil {
		return n, fmt.Errorf("node %s: %w", c.node, err)
	}
	return n, nil
}

func (c *client) allocatable(ctx context.Context) (hybrid.Milli, error) {
	n, err := c.getNode(ctx)
	return hybrid.Milli(n.Status.Allocatable.CPU.MilliValue()), err
}

func (c *client) write(ctx context.Context, n *v1alpha1.NodeCPU) (*v1alpha1.NodeCPU, error) {
	written := &v1alpha1.NodeCPU{}
	return written, c.Do(ctx, http.MethodPut, objectsPath+"/"+c.node+"/status", c.setName(n), written)
}

// setName sets the API version, kind and name of an object, which the API server requires.
func (c *client) setName(n *v1alpha1.NodeCPU) *v1alpha1.NodeCPU {
	n.APIVersion, n.Kind, n.Name = v1alpha1.GroupVersion.String(), "NodeCPU", c.node
	return n
}
