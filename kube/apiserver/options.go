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
	//
	// The client uses the current context. It is for programs without a user: it supports tokens and certificates, and refuses
	// exec plugins and insecure-skip-tls-verify.
	Kubeconfig string
	// Product is the User-Agent of the calls, such as "candor/v1.2". It appears in the API server's logs.
	Product string
	// Patience is the timeout of a call.
	Patience time.Duration
}
