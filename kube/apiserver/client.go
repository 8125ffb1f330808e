package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Client calls an API server. It is safe for concurrent use.
type Client struct {
	http    *http.Client
	access  *access
	product string
}

// New returns a client. It does not call the API server. Every error wraps ErrBadOptions.
func New(o Options) (*Client, error) {
	a, err := accessOf(o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadOptions, err)
	}
	// A single idle connection suffices. A custom TLS configuration disables HTTP/2, which saves memory.
	transport := &http.Transport{
		Proxy: a.proxyFor, TLSClientConfig: a.tls, MaxIdleConns: 1, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: o.Patience,
	}
	return &Client{
		http:    &http.Client{Transport: transport, Timeout: o.Patience, CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect }},
		access:  a,
		product: o.Product,
	}, nil
}

// errRedirect ends a call that the server redirects. Following the redirection would send the caller's secrets to another server.
var errRedirect = errors.New("the server redirects the call, and candor follows no redirects: use the address of the API server itself")

// Get reads the object or list at a path of the API.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	return c.Do(ctx, http.MethodGet, path, nil, into)
}

// Do makes a call, and decodes the response into into. The body can be nil; with PATCH, it is a merge patch. If the API server
// refuses the call, the error is a StatusError of Kubernetes' package errors.
func (c *Client) Do(ctx context.Context, method, path string, body, into any) error {
	request, err := c.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return reachError(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return err
	case len(answer) > maxAnswer:
		return fmt.Errorf("%s %s: an answer of more than %d MiB", method, path, maxAnswer>>20)
	case response.StatusCode/100 != 2:
		return refusal(response, path, answer)
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%s %s: the answer is none of an API server: %w", method, path, err)
	}
	return nil
}

// maxAnswer bounds a response, in bytes. A page of the largest possible objects is smaller.
const maxAnswer = 64 << 20

// request returns a request with the caller's credentials.
func (c *Client) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.access.url+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", contentType(method))
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", c.product)
	return r, c.access.authorize(r)
}

// contentType returns the type of the body of a call. The body of a patch is a merge patch (RFC 7386).
func contentType(method string) string {
	if method == http.MethodPatch {
		return "application/merge-patch+json"
	}
	return "application/json"
}

// reachError formats the error of a call without response.
func reachError(err error) error {
	if errors.Is(err, errRedirect) {
		return errRedirect // without the target, which can contain secrets
	}
	if of, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%s %s: %w", strings.ToUpper(of.Op), of.URL, of.Err)
	}
	return err
}

// refusal returns the error of a response with an error status. A response that is no Status object comes from a proxy, and its text is not
// shown.
func refusal(response *http.Response, path string, answer []byte) error {
	var status metav1.Status
	if json.Unmarshal(answer, &status) == nil && status.Reason != "" {
		return &apierrors.StatusError{ErrStatus: status}
	}
	of := schema.GroupResource{Resource: strings.TrimPrefix(path, "/")}
	return apierrors.NewGenericServerResponse(response.StatusCode, strings.ToLower(response.Request.Method), of, "", "", 0, true)
}
