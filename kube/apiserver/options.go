package apiserver

import (
	"errors"
	"time"
)

// ErrBadOptions is the error for options, a kubeconfig or a service account that cannot be used.
var ErrBadOptions = errors.New("API server")

// Options select the API server and the credentials.
type Options struct {
	// Kubeconfig is the name of a kubeconfig file, or a list of names in the format of $KUBECONFIG. If it is empty, the client uses the
	// service account of the pod in which it runs.
	Kubeconfig string
	// Context is the name of a context in the kubeconfig. If it is empty, the client uses the kubeconfig's current context.
	Context string
	// Attended is true if a user is present to log in and to decide which servers to trust. If it is false, exec plugins and
	// insecure-skip-tls-verify are refused.
	Attended bool
	// Product is the User-Agent of the calls, such as "candor/v1.2". It appears in the API server's logs.
	Product string
	// Patience is the timeout of a call.
	Patience time.Duration
}
