package publish

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/candor-project/candor/internal/apitest"
	"github.com/candor-project/candor/internal/metrics"
)

// newTestClient is a client by a kubeconfig.
func newTestClient(t *testing.T, kubeconfig string) *client {
	t.Helper()
	file := apitest.Write(t, t.TempDir(), "kubeconfig", kubeconfig)
	p, err := New(Options{Node: "node", Version: "v1", Kubeconfig: file, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return p.api.(*client)
}

// Whatever comes back, the reason is one that people can look up.
func TestAnswers(t *testing.T) {
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
		{404, status("NotFound"), metrics.Invalid}, // the node is not there, or the kind of object
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
			t.Errorf("%d %s: %v", c.code, c.text, err)
		}
	}
	s.Close()
	if _, err := k.get(t.Context()); err == nil || reasonOf(err) != metrics.Unreachable {
		t.Errorf("nobody answers: %v", err)
	}
}

// An agent does not wait for somebody who logs in, and tells its token to nobody who cannot prove that he is the API server.
func TestAgentsAreUnattended(t *testing.T) {
	for want, text := range map[string]string{
		"nobody is there to log in": apitest.Kubeconfig("https://a", "", "exec: {apiVersion: client.authentication.k8s.io/v1, command: login, interactiveMode: Never}"),
		"insecure-skip-tls-verify":  apitest.Kubeconfig("https://a", "insecure-skip-tls-verify: true", "token: x"),
	} {
		_, err := New(Options{Node: "node", Kubeconfig: apitest.Write(t, t.TempDir(), "kubeconfig", text)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
