package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/candor-project/candor/internal/apitest"
)

// TestBadInput: bad input exits with code 2, and a program outside of a pod with code 1, both with an error of a single line.
func TestBadInput(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, c := range []struct {
		line string
		code int
		want string
	}{
		{"--port 1", 2, "unknown flag: --port; candor-web --help lists the flags"},
		{"now", 2, `argument "now": the program takes no arguments`},
		{"--listen 8080", 2, `--listen "8080": must be IP:PORT`},
		{"--listen localhost:80", 2, "must be IP:PORT"},
		{"--listen :8080", 2, "must be a loopback address without --tls-cert-file"},
		{"--listen 10.0.0.1:8080", 2, "must be a loopback address"},
		{"--tls-cert-file a", 2, "must both be set, or none"},
		{"--prometheus prometheus:9090", 2, "--prometheus: must be http://HOST:PORT"},
		{"", 1, "the pod's service account"},
	} {
		var errOut bytes.Buffer
		code := run(t.Context(), strings.Fields(c.line), &errOut)
		if text := errOut.String(); code != c.code || !strings.Contains(text, c.want) || strings.Count(text, "\n") != 1 {
			t.Errorf("%s: %d, %q; want %d, %q", c.line, code, text, c.code, c.want)
		}
	}
	var errOut bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, &errOut); code != 0 || !strings.Contains(errOut.String(), "--tls-cert-file") {
		t.Errorf("--help: %d, %q", code, errOut.String())
	}
}

// TestKeyPair: a certificate whose renewed files cannot be read stays in use.
func TestKeyPair(t *testing.T) {
	dir := t.TempDir()
	certificate, key := apitest.KeyPair(t, "web")
	p := &keyPair{cert: apitest.Write(t, dir, "tls.crt", certificate), key: apitest.Write(t, dir, "tls.key", key)}
	first, err := p.get(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.cert, []byte("half a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.at = p.at.Add(-2 * keyPairAge)
	if second, err := p.get(nil); err != nil || second != first {
		t.Errorf("%v, another certificate", err)
	}
	missing := &keyPair{cert: filepath.Join(dir, "none"), key: p.key}
	if _, err := missing.get(nil); err == nil {
		t.Error("no error for a missing file")
	}
}
