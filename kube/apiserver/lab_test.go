package apiserver

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/candor-project/candor/internal/apitest"
)

// newClient writes a kubeconfig to a directory and returns its client.
func newClient(t *testing.T, dir, kubeconfig string) *Client {
	t.Helper()
	c, err := New(Options{Kubeconfig: apitest.Write(t, dir, "kubeconfig", kubeconfig), Product: "candor/test", Patience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// An echo is an API server without objects that records the last request and its user.
type echo struct {
	*httptest.Server
	last *http.Request
	user string
}

func newEcho(t *testing.T) *echo {
	e := &echo{}
	e.Server = apitest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		e.last, e.user = r, apitest.Caller(r)
		fmt.Fprint(w, `{}`)
	})
	return e
}

// call sends a request and returns the user that the server received.
func (e *echo) call(t *testing.T, c *Client) (string, error) {
	t.Helper()
	e.user = ""
	err := c.Get(t.Context(), "/version", &struct{}{})
	return e.user, err
}

// readAccess returns the server and the credentials of a kubeconfig with this text in dir.
func readAccess(t *testing.T, text, dir string) (*access, error) {
	t.Helper()
	k := &kubeconfig{}
	if err := k.add([]byte(text), dir); err != nil {
		return nil, err
	}
	return k.access()
}
