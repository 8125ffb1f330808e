package publish

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// A client is the API server, for the object of one node.
type client struct {
	http    *http.Client
	access  *access
	node    string
	version string // of candor
}

// objects is where NodeCPUs are.
var objects = "/apis/" + v1alpha1.GroupVersion.String() + "/" + v1alpha1.NodeCPUs

func (c *client) get(ctx context.Context) (*v1alpha1.NodeCPU, error) {
	n := &v1alpha1.NodeCPU{}
	err := c.ask(ctx, http.MethodGet, objects+"/"+c.node, nil, n)
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
	return made, c.ask(ctx, http.MethodPost, objects, n, made)
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
	if err := c.ask(ctx, http.MethodGet, "/api/v1/nodes/"+c.node, nil, &n); err != nil {
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
	return written, c.ask(ctx, http.MethodPut, objects+"/"+c.node+"/status", c.named(n), written)
}

// named says of an object what it is, as the API server wants to be told.
func (c *client) named(n *v1alpha1.NodeCPU) *v1alpha1.NodeCPU {
	n.APIVersion, n.Kind, n.Name = v1alpha1.GroupVersion.String(), "NodeCPU", c.node
	return n
}

// ask makes a call; what is not said to be done is an error of Kubernetes' own kinds.
func (c *client) ask(ctx context.Context, method, path string, body *v1alpha1.NodeCPU, into any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, c.access.url+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "candor/"+c.version)
	if err := c.access.authorize(request); err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return err
	case response.StatusCode/100 == 2:
		return json.Unmarshal(answer, into)
	default:
		return refusal(response, answer)
	}
}

// maxAnswer is in bytes: twice what the API server stores at most.
const maxAnswer = 3 << 20

// refusal is the error that an answer tells of. What stands between here and the API server answers in words of its own.
func refusal(response *http.Response, answer []byte) error {
	var status metav1.Status
	if json.Unmarshal(answer, &status) == nil && status.Reason != "" {
		return &apierrors.StatusError{ErrStatus: status}
	}
	of := schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: v1alpha1.NodeCPUs}
	return apierrors.NewGenericServerResponse(response.StatusCode, response.Request.Method, of, "", "", 0, true)
}
