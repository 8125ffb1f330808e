package publish

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/candor-project/candor/internal/apitest"
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/metrics"
)

// newTestClient returns the client of a publisher with this kubeconfig.
func newTestClient(t *testing.T, kubeconfig string) *client {
	t.Helper()
	file := apitest.Write(t, t.TempDir(), "kubeconfig", kubeconfig)
	p, err := New(Options{Node: "node", Version: "v1", Kubeconfig: file, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return p.api.(*client)
}

// TestFailureReasons: each failed response of the server maps to a documented reason, and its error is a
// single line.
func TestFailureReasons(t *testing.T) {
	var code int
	var text string
	s := apitest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		fmt.Fprint(w, text)
	})
	k := newTestClient(t, apitest.Kubeconfig(s.URL, apitest.Trust(s), "token: x"))
	status := func(reason string) string {
		return fmt.Sprintf(`{"kind":"Status","status":"Failure","message":"no","reason":%q}`, reason)
	}
	for _, c := range []struct {
		code int
		text string
		want metrics.Reason
	}{
		{403, status("Forbidden"), metrics.Forbidden},
		{401, status("Unauthorized"), metrics.Forbidden},
		{409, status("Conflict"), metrics.Conflict},
		{422, status("Invalid"), metrics.Invalid},
		{404, status("NotFound"), metrics.Invalid}, // no such Node, or the CRD is not installed
		{404, "404 page not found\n", metrics.Invalid},
		{429, status("TooManyRequests"), metrics.Unreachable},
		{502, "<html>Bad Gateway</html>", metrics.Unreachable},
		{302, "", metrics.Unreachable},
		{200, `{"metadata":`, metrics.Unreachable},
		{200, "<html>Log in</html>", metrics.Unreachable},
	} {
		code, text = c.code, c.text
		_, err := k.get(t.Context())
		if err == nil || reasonOf(err) != c.want || strings.Contains(err.Error(), "\n") {
			t.Errorf("%d %s: got %v, want reason %v", c.code, c.text, err, c.want)
		}
	}
	s.Close()
	if _, err := k.get(t.Context()); err == nil || reasonOf(err) != metrics.Unreachable {
		t.Errorf("without a response: got %v, want reason %v", err, metrics.Unreachable)
	}
}

// TestAgentsAreUnattended: an agent refuses a kubeconfig with an interactive login, and sends its token only
// to a server with a verified certificate.
func TestAgentsAreUnattended(t *testing.T) {
	for want, text := range map[string]string{
		"an interactive login is not possible": apitest.Kubeconfig("https://a", "", "exec: {apiVersion: client.authentication.k8s.io/v1, command: login, interactiveMode: Never}"),
		"insecure-skip-tls-verify":             apitest.Kubeconfig("https://a", "insecure-skip-tls-verify: true", "token: x"),
	} {
		_, err := New(Options{Node: "node", Kubeconfig: apitest.Write(t, t.TempDir(), "kubeconfig", text)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestObjectOfFormerNode: the publisher updates the owner of an object of a former Node with the same name.
// Otherwise the garbage collector would delete the object.
func TestObjectOfFormerNode(t *testing.T) {
	node := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "node", UID: "second"}
	former := node
	former.UID = "first"
	for name, test := range map[string]struct {
		owners []metav1.OwnerReference
		writes int
	}{
		"current Node":            {[]metav1.OwnerReference{node}, 0},
		"former Node":             {[]metav1.OwnerReference{former}, 1},
		"former and current Node": {[]metav1.OwnerReference{former, node}, 0},
		"no owner":                {nil, 1},
	} {
		object := v1alpha1.NodeCPU{ObjectMeta: metav1.ObjectMeta{Name: "node", ResourceVersion: "7", UID: "object", OwnerReferences: test.owners},
			Status: v1alpha1.NodeCPUStatus{Counter: 60}}
		writes := 0
		s := apitest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
			var response any = &object
			switch {
			case r.URL.Path == "/api/v1/nodes/node":
				response = map[string]any{"metadata": map[string]any{"name": "node", "uid": node.UID}}
			case r.Method == http.MethodPut:
				writes++
				written := v1alpha1.NodeCPU{}
				if err := json.NewDecoder(r.Body).Decode(&written); err != nil || written.ResourceVersion != object.ResourceVersion || written.UID != object.UID {
					t.Errorf("%s: got %+v, %v; want the version and the UID of the read object", name, written, err)
				}
				object.OwnerReferences, object.ResourceVersion = written.OwnerReferences, "8"
			}
			if err := json.NewEncoder(w).Encode(response); err != nil {
				t.Error(err)
			}
		})
		k := newTestClient(t, apitest.Kubeconfig(s.URL, apitest.Trust(s), "token: x"))
		for range 2 { // in the second round, the current Node owns the object
			got, err := k.get(t.Context())
			if err != nil || !slices.Contains(got.OwnerReferences, node) || got.Status.Counter != 60 || writes != test.writes {
				t.Errorf("%s: got %+v, %v, %d writes; want %d", name, got, err, writes, test.writes)
			}
		}
		s.Close()
	}
}
