package publish

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ErrBadOptions are options with which nothing can be published.
var ErrBadOptions = errors.New("publish")

// patience is how long the API server may take for an answer.
const patience = 10 * time.Second

// Options say who publishes, and where.
type Options struct {
	Node       string // the node's name in the cluster
	Kubeconfig string // "": the API server is that of the pod that this is
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
	a, err := accessOf(o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadOptions, err)
	}
	// One call at a time, on one connection. HTTP/2 has nothing to offer for that, and takes memory.
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: a.tls, MaxIdleConns: 1, IdleConnTimeout: longestWait, TLSHandshakeTimeout: patience}
	c := &client{&http.Client{Transport: transport, Timeout: patience}, a, o.Node, o.Version}
	return &Publisher{api: c, log: o.Log, listener: o.Listener, changed: make(chan struct{}, 1)}, nil
}
