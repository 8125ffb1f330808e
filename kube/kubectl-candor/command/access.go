package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/candor-project/candor/kube/kubectl-candor/remote"
)

// An access connects to the cluster that the flags of kubectl select.
type access struct {
	flags *genericclioptions.ConfigFlags
}

// usualFlags are the flags of kubectl that the help shows. All flags are accepted.
var usualFlags = map[string]bool{"kubeconfig": true, "context": true, "namespace": true, "as": true, "request-timeout": true}

// newAccess adds the flags of kubectl to a command and its subcommands.
func newAccess(root *cobra.Command) *access {
	a := &access{genericclioptions.NewConfigFlags(true)}
	flags := root.PersistentFlags()
	a.flags.AddFlags(flags)
	flags.VisitAll(func(f *pflag.Flag) { f.Hidden = !usualFlags[f.Name] })
	return a
}

// namespace returns the namespace of -n or of the kubeconfig's context.
func (a *access) namespace() (string, error) {
	name, _, err := a.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", &inputError{err}
	}
	if !isObjectName(name) {
		return "", badInput("--namespace %.60q: must be the name of a namespace", name)
	}
	return name, nil
}

// config returns the address of the API server and the credentials. It sends no request.
func (a *access) config() (*rest.Config, error) {
	config, err := a.flags.ToRESTConfig()
	if err != nil {
		return nil, &inputError{err}
	}
	if config.Host == noCluster && *a.flags.APIServer == "" {
		return nil, badInput("no kubeconfig; use --kubeconfig FILE, or kubectl config use-context NAME")
	}
	// The API server divides its capacity among the users. The client's own limit would only delay large clusters.
	config.QPS, config.UserAgent = -1, "kubectl-candor/"+versionString()
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	return config, nil
}

// noCluster is the address that kubectl uses without a kubeconfig.
const noCluster = "http://localhost:8080"

// connect returns the cluster, after a call that shows that the API server accepts the credentials.
func (a *access) connect(ctx context.Context) (*cluster, error) {
	config, err := a.config()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, &inputError{err}
	}
	runner, err := remote.New(config)
	if err != nil {
		return nil, &inputError{err}
	}
	c := &cluster{Client: client, Remote: runner, rest: client.CoreV1().RESTClient()}
	return c, login(ctx, c, config)
}

// Bounds of the first call.
const (
	loginTimeout   = 30 * time.Second
	programTimeout = time.Minute // with an exec plugin, which can open a browser
)

// login calls the API server once. An exec plugin of the kubeconfig runs during this call, and client-go waits for it without a
// limit.
func login(ctx context.Context, c *cluster, config *rest.Config) error {
	limit := loginTimeout
	if config.ExecProvider != nil {
		limit = programTimeout
	}
	if config.Timeout > 0 {
		limit = config.Timeout
	}
	answered := make(chan error, 1)
	go func() {
		var version any
		answered <- c.get(ctx, "/version", &version, limit)
	}()
	late := time.NewTimer(limit + time.Second)
	defer late.Stop()
	select {
	case err := <-answered:
		switch {
		case err == nil, apierrors.IsForbidden(err):
			return nil
		case errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("the API server %s does not answer within %v; kubectl cluster-info tests the connection", config.Host, limit)
		}
		return withRights(err)
	case <-late.C:
		if config.ExecProvider != nil {
			return fmt.Errorf("the exec plugin %.200q of the kubeconfig does not answer within %v; run it by hand, or set a longer --request-timeout", config.ExecProvider.Command, limit)
		}
		return fmt.Errorf("the API server %s does not answer within %v; kubectl cluster-info tests the connection", config.Host, limit)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A cluster is a connection to a cluster. It is an apiserver.Reader.
type cluster struct {
	Client kubernetes.Interface
	Remote *remote.Cluster
	rest   rest.Interface
}

// callTimeout bounds a call of Get. The largest page of objects takes seconds.
const callTimeout = time.Minute

// Get reads the object or list at a path of the API.
func (c *cluster) Get(ctx context.Context, path string, into any) error {
	return withRights(c.get(ctx, path, into, callTimeout))
}

func (c *cluster) get(ctx context.Context, path string, into any, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	result := c.rest.Get().RequestURI(path).Do(ctx)
	if err := result.Error(); err != nil { // unlike Raw, with the API server's reason
		return err
	}
	text, err := result.Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("GET %s: the answer is none of an API server: %w", path, err)
	}
	return nil
}
