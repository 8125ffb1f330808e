package apiserver

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/candor-project/candor/internal/apitest"
)

// writeLogin writes a credential plugin to dir. The plugin adds a line to the file runs and prints output.
func writeLogin(t *testing.T, dir, output string) {
	t.Helper()
	apitest.Write(t, dir, "output", output)
	file := apitest.Write(t, dir, "login", "#!/bin/sh\ncd \"$(dirname \"$0\")\"\necho \"$1 $PLACE $KUBERNETES_EXEC_INFO\" >>runs\ncat output\n")
	if err := os.Chmod(file, 0o700); err != nil {
		t.Fatal(err)
	}
}

// runs returns the lines that the plugin has written, one for each run.
func runs(t *testing.T, dir string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "runs"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// execCredential returns the output of a credential plugin.
func execCredential(status string) string {
	return fmt.Sprintf(`{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","metadata":{},"spec":{"interactive":false},"status":{%s}}`, status)
}

const execUser = "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./login, args: [me], env: [{name: PLACE, value: here}], interactiveMode: Never}"

// TestExec: the client runs the credential plugin once if the credential stays valid, and before each call if
// it has expired. A plugin can return a token or a certificate.
func TestExec(t *testing.T) {
	s := newEcho(t)
	dir := t.TempDir()
	writeLogin(t, dir, execCredential(`"token":"one","expirationTimestamp":"2999-01-01T00:00:00Z"`))
	c := newClient(t, dir, apitest.Kubeconfig(s.URL, apitest.Trust(s.Server), execUser))
	for range 2 {
		if user, err := s.call(t, c); err != nil || user != "Bearer one" {
			t.Fatalf("got user %q, %v; want Bearer one", user, err)
		}
	}
	if has := runs(t, dir); len(has) != 1 || has[0] != `me here {"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false}}` {
		t.Errorf("runs of the plugin: got %q, want a single run with its argument and environment", has)
	}
	writeLogin(t, dir, execCredential(`"token":"two","expirationTimestamp":"2001-01-01T00:00:00Z"`))
	c = newClient(t, dir, apitest.Kubeconfig(s.URL, apitest.Trust(s.Server), execUser))
	for range 2 {
		if user, err := s.call(t, c); err != nil || user != "Bearer two" {
			t.Fatalf("got user %q, %v; want Bearer two", user, err)
		}
	}
	if has := runs(t, dir); len(has) != 3 {
		t.Errorf("runs of the plugin: got %q, want a run for each call", has)
	}
	certificate, key := apitest.KeyPair(t, "robot")
	writeLogin(t, dir, execCredential(fmt.Sprintf(`"clientCertificateData":%q,"clientKeyData":%q`, certificate, key)))
	c = newClient(t, dir, apitest.Kubeconfig(s.URL, apitest.Trust(s.Server), execUser))
	if user, err := s.call(t, c); err != nil || user != "robot" {
		t.Errorf("got user %q, %v; want robot", user, err)
	}
}

// TestExecRenewsRefusedToken: if the server refuses a token, the client runs the plugin once more and repeats
// the call.
func TestExecRenewsRefusedToken(t *testing.T) {
	dir := t.TempDir()
	good := "Bearer one"
	s := apitest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if apitest.Caller(r) != good {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprint(w, `{}`)
	})
	writeLogin(t, dir, execCredential(`"token":"one"`))
	c := newClient(t, dir, apitest.Kubeconfig(s.URL, apitest.Trust(s), execUser))
	call := func() error { return c.Get(t.Context(), "/version", &struct{}{}) }
	if err := call(); err != nil {
		t.Fatal(err)
	}
	good = "Bearer two"
	writeLogin(t, dir, execCredential(`"token":"two"`))
	if err := call(); err != nil {
		t.Error(err)
	}
	good = "Bearer three"
	if err := call(); err == nil || len(runs(t, dir)) != 3 {
		t.Errorf("got error %v after %d runs, want an error after 3", err, len(runs(t, dir)))
	}
}

// TestExecFailures: the error of a failed plugin has the reason and contains no secret, and the client sends
// no request.
func TestExecFailures(t *testing.T) {
	s := newEcho(t)
	certificate, _ := apitest.KeyPair(t, "robot")
	for want, text := range map[string]string{
		"not print an ExecCredential in JSON": "secret",
		"did not print an ExecCredential":     strings.Replace(execCredential(`"token":"secret"`), "ExecCredential", "Secret", 1),
		"of another version":                  strings.Replace(execCredential(`"token":"secret"`), "/v1", "/v2", 1),
		"neither a token nor a certificate":   execCredential(`"clientKeyData":"secret"`),
		"not a pair in PEM":                   execCredential(fmt.Sprintf(`"clientCertificateData":%q,"clientKeyData":"secret"`, certificate)),
		"the token has characters":            execCredential(`"token":"secret\nHost: b"`),
		"printed more than 1048576 bytes":     execCredential(`"token":"` + strings.Repeat("secret", maxFile) + `"`),
	} {
		dir := t.TempDir()
		writeLogin(t, dir, text)
		c := newClient(t, dir, apitest.Kubeconfig(s.URL, apitest.Trust(s.Server), execUser))
		if _, err := s.call(t, c); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") || s.last != nil {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	c := newClient(t, t.TempDir(), apitest.Kubeconfig(s.URL, apitest.Trust(s.Server),
		"exec: {apiVersion: client.authentication.k8s.io/v1, command: candor-no-such-program, interactiveMode: Never, installHint: \"get\\n it\"}"))
	if _, err := s.call(t, c); err == nil || !strings.Contains(err.Error(), "not found in $PATH: get it") {
		t.Error(err)
	}
}

// TestExecWithBackgroundChild: a login succeeds although a background child of the plugin keeps the output
// open.
func TestExecWithBackgroundChild(t *testing.T) {
	s := newEcho(t)
	dir := t.TempDir()
	writeLogin(t, dir, execCredential(`"token":"one"`))
	background := "#!/bin/sh\ncd \"$(dirname \"$0\")\"\nsleep 600 2>/dev/null &\necho $! >child.pid\ncat output\n"
	apitest.Write(t, dir, "login", background)
	t.Cleanup(func() {
		text, _ := os.ReadFile(filepath.Join(dir, "child.pid"))
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	c := newClient(t, dir, apitest.Kubeconfig(s.URL, apitest.Trust(s.Server), execUser))
	if user, err := s.call(t, c); err != nil || user != "Bearer one" {
		t.Errorf("got user %q, %v; want Bearer one", user, err)
	}
}

func FuzzExecCredential(f *testing.F) {
	f.Add(execCredential(`"token":"one","expirationTimestamp":"2999-01-01T00:00:00Z"`))
	f.Add(execCredential(`"clientCertificateData":"a","clientKeyData":"b"`))
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCredential([]byte(text), execVersions[0])
		if err == nil && c.token == "" && c.certificate == nil {
			t.Errorf("%q: accepted without credentials", text)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("error of more than one line: %q", err)
		}
	})
}
