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

// login writes a credential plugin that counts its runs and prints the content of a file in the directory.
func login(t *testing.T, dir, tells string) {
	t.Helper()
	apitest.Write(t, dir, "tells", tells)
	file := apitest.Write(t, dir, "login", "#!/bin/sh\ncd \"$(dirname \"$0\")\"\necho \"$1 $PLACE $KUBERNETES_EXEC_INFO\" >>runs\ncat tells\n")
	if err := os.Chmod(file, 0o700); err != nil {
		t.Fatal(err)
	}
}

// runs are the lines that the program has left.
func runs(t *testing.T, dir string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "runs"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func tells(status string) string {
	return fmt.Sprintf(`{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","metadata":{},"spec":{"interactive":false},"status":{%s}}`, status)
}

const byProgram = "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./login, args: [me], env: [{name: PLACE, value: here}], interactiveMode: Never}"

// TestExec: the client runs the credential plugin of the kubeconfig once while its credential is valid, and again
// after the credential has expired.
func TestExec(t *testing.T) {
	s := newEcho(t)
	dir := t.TempDir()
	login(t, dir, tells(`"token":"one","expirationTimestamp":"2999-01-01T00:00:00Z"`))
	c := newClient(t, dir, apitest.Kubeconfig(s.URL, apitest.Trust(s.Server), byProgram))
	for range 2 {
		if who, err := s.call(t, c); err != nil || who != "Bearer one" {
			t.Fatalf("%q, %v", who, err)
		}
	}
	if has := runs(t, dir); len(has) != 1 || has[0] != `me here {"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false}}` {
		t.Errorf("%q", has)
	}
	login(t, dir, tells(`"token":"two","expirationTimestamp":"2001-01-01T00:00:00Z"`))
	c = newClient(t, dir, apitest.Kubeconfig(s.URL, apitest.Trust(s.Server), byProgram))
	for range 2 {
		if who, err := s.call(t, c); err != nil || who != "Bearer two" {
			t.Fatalf("%q, %v", who, err)
		}
	}
	if has := runs(t, dir); len(has) != 3 {
		t.Errorf("%q: want a run for each call", has)
	}
	certificate, key := apitest.KeyPair(t, "robot")
	login(t, dir, tells(fmt.Sprintf(`"clientCertificateData":%q,"clientKeyData":%q`, certificate, key)))
	c = newClient(t, dir, apitest.Kubeconfig(s.URL, apitest.Trust(s.Server), byProgram))
	if who, err := s.call(t, c); err != nil || who != "robot" {
		t.Errorf("%q, %v", who, err)
	}
}

// TestExecLogsInAnew: a token that the server refuses is renewed once.
func TestExecLogsInAnew(t *testing.T) {
	dir := t.TempDir()
	good := "Bearer one"
	s := apitest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if apitest.Caller(r) != good {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprint(w, `{}`)
	})
	login(t, dir, tells(`"token":"one"`))
	c := newClient(t, dir, apitest.Kubeconfig(s.URL, apitest.Trust(s), byProgram))
	call := func() error { return c.Get(t.Context(), "/version", &struct{}{}) }
	if err := call(); err != nil {
		t.Fatal(err)
	}
	good = "Bearer two"
	login(t, dir, tells(`"token":"two"`))
	if err := call(); err != nil {
		t.Error(err)
	}
	good = "Bearer three"
	if err := call(); err == nil || len(runs(t, dir)) != 3 {
		t.Errorf("%v after %d runs, want 3", err, len(runs(t, dir)))
	}
}

// TestExecThatFails: the error of a failed login has the reason and no secret.
func TestExecThatFails(t *testing.T) {
	s := newEcho(t)
	certificate, _ := apitest.KeyPair(t, "robot")
	for want, text := range map[string]string{
		"not print an ExecCredential in JSON": "secret",
		"did not print an ExecCredential":     strings.Replace(tells(`"token":"secret"`), "ExecCredential", "Secret", 1),
		"of another version":                  strings.Replace(tells(`"token":"secret"`), "/v1", "/v2", 1),
		"neither a token nor a certificate":   tells(`"clientKeyData":"secret"`),
		"not a pair in PEM":                   tells(fmt.Sprintf(`"clientCertificateData":%q,"clientKeyData":"secret"`, certificate)),
		"the token has characters":            tells(`"token":"secret\nHost: b"`),
		"printed more than 1048576 bytes":     tells(`"token":"` + strings.Repeat("secret", maxFile) + `"`),
	} {
		dir := t.TempDir()
		login(t, dir, text)
		c := newClient(t, dir, apitest.Kubeconfig(s.URL, apitest.Trust(s.Server), byProgram))
		if _, err := s.call(t, c); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") || s.last != nil {
			t.Errorf("%v; want %q", err, want)
		}
	}
	c := newClient(t, t.TempDir(), apitest.Kubeconfig(s.URL, apitest.Trust(s.Server),
		"exec: {apiVersion: client.authentication.k8s.io/v1, command: candor-no-such-program, interactiveMode: Never, installHint: \"get\\n it\"}"))
	if _, err := s.call(t, c); err == nil || !strings.Contains(err.Error(), "not found in $PATH: get it") {
		t.Error(err)
	}
}

// TestExecWithBackgroundChild: a login succeeds although a child of the credential plugin holds its output open.
func TestExecWithBackgroundChild(t *testing.T) {
	s := newEcho(t)
	dir := t.TempDir()
	login(t, dir, tells(`"token":"one"`))
	background := "#!/bin/sh\ncd \"$(dirname \"$0\")\"\nsleep 600 2>/dev/null &\necho $! >behind\ncat tells\n"
	apitest.Write(t, dir, "login", background)
	t.Cleanup(func() {
		text, _ := os.ReadFile(filepath.Join(dir, "behind"))
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	c := newClient(t, dir, apitest.Kubeconfig(s.URL, apitest.Trust(s.Server), byProgram))
	if who, err := s.call(t, c); err != nil || who != "Bearer one" {
		t.Errorf("%q, %v", who, err)
	}
}

func FuzzExecCredential(f *testing.F) {
	f.Add(tells(`"token":"one","expirationTimestamp":"2999-01-01T00:00:00Z"`))
	f.Add(tells(`"clientCertificateData":"a","clientKeyData":"b"`))
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCredential([]byte(text), execVersions[0])
		if err == nil && c.token == "" && c.certificate == nil {
			t.Errorf("%q: an unnamed user", text)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("more than one line: %q", err)
		}
	})
}
