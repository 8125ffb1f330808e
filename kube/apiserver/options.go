package apiserver

import (
	"errors"
	"time"
)

// ErrBadOptions are options by which no API server can be reached.
var ErrBadOptions = errors.New("API server")

// Options select the API server and the credentials.
type Options struct {
	// Kubeconfig is a file, or several with the system's separator between, as $KUBECONFIG has them; "": a pod's own access.
	Kubeconfig string
	// Context is a context of the kubeconfig; "": the current context.
	Context string
	// Attended means that a user is present who can log in, and who decides on trust. Otherwise exec plugins, and servers without a verifiable
	// certificate, are refused.
	Attended bool
	// Product is the caller, for the API server's logs: "candor/v1.2".
	Product string
	// Patience is the timeout of a call.
	Patience time.Duration
}
