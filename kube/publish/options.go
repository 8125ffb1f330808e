package publish

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/candor-project/candor/kube/apiserver"
	"github.com/candor-project/candor/kube/events"
)

// ErrBadOptions is the error for invalid options.
var ErrBadOptions = errors.New("publish")

// callTimeout is the timeout of a call to the API server.
const callTimeout = 10 * time.Second

// Options select the node and the API server, and receive results.
type Options struct {
	Node       string // the node's name in the cluster
	Kubeconfig string // kubeconfig file; "": the service account of this pod
	Version    string // version of candor, for the API server's logs
	Log        *slog.Logger
	OnReport   Listener
}

// New returns a publisher. It does not call the API server. Every error wraps ErrBadOptions.
func New(o Options) (*Publisher, error) {
	if o.Node == "" {
		return nil, fmt.Errorf("%w: no node: use --node-name, or NODE_NAME in the environment", ErrBadOptions)
	}
	if wrong := validation.IsDNS1123Subdomain(o.Node); wrong != nil {
		return nil, fmt.Errorf("%w: node name %.60q: must be a name as kubectl get nodes shows it", ErrBadOptions, o.Node)
	}
	api, err := apiserver.New(apiserver.Options{Kubeconfig: o.Kubeconfig, Product: "candor/" + o.Version, Patience: callTimeout})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadOptions, err)
	}
	return &Publisher{
		api: &client{api, o.Node}, events: events.New(api, o.Node, o.Log, o.OnReport),
		log: o.Log, listener: o.OnReport, changed: make(chan struct{}, 1),
	}, nil
}
