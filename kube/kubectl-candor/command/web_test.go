package command

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/candor-project/candor/internal/apitest"
)

// TestWeb: the command prints an address with a one-time token, which starts a session. Then it prints the next address. It ends
// without an error.
func TestWeb(t *testing.T) {
	api := apitest.Objects(t, testCluster(t))
	t.Setenv("KUBECONFIG", apitest.Write(t, t.TempDir(), "kubeconfig", apitest.Kubeconfig(api.URL, apitest.Trust(api), "token: secret")))
	t.Setenv("SSH_CONNECTION", "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errOut, in := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"web"}, nil, io.Discard, in)
		_ = in.Close()
	}()
	lines := bufio.NewScanner(errOut)
	next := func() (address, token string) {
		t.Helper()
		if !lines.Scan() {
			t.Fatal("no line")
		}
		_, text, _ := strings.Cut(lines.Text(), "pen ")
		address, token, isFound := strings.Cut(text, "/#token=")
		if !isFound || !strings.HasPrefix(address, "http://127.0.0.1:") || token == "" {
			t.Fatalf("%q, want an address with a token", lines.Text())
		}
		return address, token
	}
	address, token := next()
	answers := make(chan *http.Response, 1)
	go func() { // the command prints the next address before it answers
		r, err := http.Post(address+"/api/session", "application/json", strings.NewReader(fmt.Sprintf(`{"token":%q}`, token)))
		if err != nil {
			t.Error(err)
		}
		answers <- r
	}()
	if again, second := next(); again != address || second == token {
		t.Errorf("%s, token %s; want %s and another token", again, second, address)
	}
	if r := <-answers; r == nil || r.StatusCode != http.StatusOK {
		t.Errorf("%+v", r)
	}
	cancel()
	go func() { _, _ = io.Copy(io.Discard, errOut) }()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestWebBadInput: bad input exits with code 2, and a cluster without definitions with code 1, both with an error of a single
// line.
func TestWebBadInput(t *testing.T) {
	objects := testCluster(t)
	without := maps.Clone(objects)
	delete(without, "/apis/candor.dev/v1alpha1/nodecpus")
	for _, c := range []struct {
		objects map[string]any
		line    string
		code    int
		want    string
	}{
		{objects, "web now", 2, `argument "now": the command takes no arguments`},
		{objects, "web --address localhost", 2, `--address "localhost": must be an IP address`},
		{objects, "web --port 65536", 2, "--port 65536: must be 0 to 65535"},
		{objects, "web --port x", 2, `--port "x": must be a whole number`},
		{objects, "web --prometheus prometheus:9090", 2, "--prometheus: must be http://HOST:PORT"},
		{objects, "web --address 192.0.2.1", 1, "--address 192.0.2.1 --port 0: listen tcp"},
		{without, "web", 1, "install Candor's definitions"},
	} {
		code, out, errOut := inCluster(t, c.objects, "", strings.Fields(c.line)...)
		if code != c.code || out != "" || !strings.Contains(errOut, c.want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%s: %d, %s%s; want %d, %s", c.line, code, out, errOut, c.code, c.want)
		}
	}
}
