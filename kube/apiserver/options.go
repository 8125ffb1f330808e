package apiserver

import (
	"errors"
	"time"
)

// ErrBadOptions are options by which no API server can be reached.
var ErrBadOptions = errors.New("API server")

// Options say which API server is meant, and who asks it.
type Options struct {
	// Kubeconfig is a file, or several with the system's separator between, as $KUBECONFIG has them; "": a pod's own access.
	Kubeconfig string
	// Context is that of the kubeconfig; "": the current one.
	Context string
	// Attended: somebody is there who can log in, and who decides whom to trust. Else a program that logs in, and a server that shows
	// no certificate which can be checked, are refused.
	Attended bool
	// Product is the caller, for the API server's logs: "candor/v1.2".
	Product string
	// Patience is how long one call may take.
	Patience time.Duration
}
