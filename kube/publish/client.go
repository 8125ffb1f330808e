package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/candor-project/candor/kube/v1alpha1"
)

// ErrBadOptions are options with which nothing can be published.
var ErrBadOptions = errors.New("publish")

// patience is how long the API server may take for an answer.
const patience = 10 * time.Second

// Options say who publishes what, and where.
type Options struct {
	Node       string // the node's name in the cluster
	Kubeconfig string // "": that of the pod that this is
	Version    string // of candor, for the API server's logs
	Log        *slog.Logger
	Listener   Listener
}

// New returns a publisher that has not begun. It asks nobody yet; the error is ErrBadOptions.
func New(o Options) (*Publisher, error) {
	if o.Node == "" {
		return nil, fmt.Errorf("%w: no node: want --node-name, or NODE_NAME in the environment", ErrBadOptions)
	}
	if wrong := validation.IsDNS1123Subdomain(o.Node); wrong != nil {
		return nil, fmt.Errorf("%w: node name %.60q: want one as kubectl get nodes shows it", ErrBadOptions, o.Node)
	}
	config, err := configOf(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent, config.Timeout = "candor/"+o.Version, patience
	c, err := newClient(config, o.Node)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadOptions, err)
	}
	return &Publisher{api: c, log: o.Log, listener: o.Listener, changed: make(chan struct{}, 1)}, nil
}

// configOf says how the API server is reached.
func configOf(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, fmt.Errorf("%w: this is no pod of a cluster: want --kubeconfig FILE", ErrBadOptions)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: the pod's service account: %w", ErrBadOptions, err)
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("%w: --kubeconfig %s: %s", ErrBadOptions, kubeconfig, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return config, nil
}

// A client is the API server, for the object of one node.
type client struct {
	rest *rest.RESTClient
	node string
}

func newClient(config *rest.Config, node string) (*client, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, metav1.Unversioned) // the API server's own answers
	config.GroupVersion, config.APIPath = &v1alpha1.GroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c, err := rest.RESTClientFor(config)
	return &client{c, node}, err
}

func (c *client) get(ctx context.Context) (*v1alpha1.NodeCPU, error) {
	n := &v1alpha1.NodeCPU{}
	err := c.rest.Get().Resource(v1alpha1.NodeCPUs).Name(c.node).Do(ctx).Into(n)
	if apierrors.IsNotFound(err) {
		return c.create(ctx)
	}
	return n, err
}

// create makes the object as one of the node's, so that it goes with the node.
func (c *client) create(ctx context.Context) (*v1alpha1.NodeCPU, error) {
	text, err := c.rest.Get().AbsPath("/api/v1/nodes", c.node).Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", c.node, err)
	}
	var owner metav1.PartialObjectMetadata
	if err := json.Unmarshal(text, &owner); err != nil {
		return nil, fmt.Errorf("node %s: %w", c.node, err)
	}
	n := &v1alpha1.NodeCPU{ObjectMeta: metav1.ObjectMeta{
		Name:            c.node,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: c.node, UID: owner.UID}},
	}}
	made := &v1alpha1.NodeCPU{}
	return made, c.rest.Post().Resource(v1alpha1.NodeCPUs).Body(n).Do(ctx).Into(made)
}

func (c *client) write(ctx context.Context, n *v1alpha1.NodeCPU) (*v1alpha1.NodeCPU, error) {
	n.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeCPU"))
	written := &v1alpha1.NodeCPU{}
	return written, c.rest.Put().Resource(v1alpha1.NodeCPUs).Name(c.node).SubResource("status").Body(n).Do(ctx).Into(written)
}
