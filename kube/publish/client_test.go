package publish

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/internal/metrics"
)

// A gate answers as something between an agent and its API server may do.
func gate(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	s := httptest.NewUnstartedServer(answer)
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// authority is the certificate of a server.
func authority(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// write puts a file into a directory.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// config is a kubeconfig.
func config(server, clusterMore, user string) string {
	return fmt.Sprintf("current-context: c\ncontexts: [{name: other}, {name: c, context: {cluster: k, user: u}}]\n"+
		"clusters: [{name: k, cluster: {server: %q, %s}}]\nusers: [{name: u, user: {%s}}]\n", server, clusterMore, user)
}

// newTestClient is a client by a kubeconfig.
func newTestClient(t *testing.T, text, dir string) *client {
	t.Helper()
	p, err := New(Options{Node: "node", Version: "v1", Kubeconfig: write(t, dir, "kubeconfig", text), Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return p.api.(*client)
}

// keyPair makes a certificate and its key, in PEM.
func keyPair(t *testing.T, name string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	template.Subject.CommonName = name
	raw, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, bytes []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}))
	}
	return block("CERTIFICATE", raw), block("EC PRIVATE KEY", der)
}

// Each way of saying who it is reaches the server; what is renewed in files is sent anew.
func TestWaysToLogIn(t *testing.T) {
	var who string
	s := gate(t, func(w http.ResponseWriter, r *http.Request) {
		who = r.Header.Get("Authorization")
		if len(r.TLS.PeerCertificates) > 0 {
			who = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		fmt.Fprint(w, `{"metadata":{"name":"node"}}`)
	})
	dir := t.TempDir()
	write(t, dir, "ca.crt", string(authority(s)))
	certificate, key := keyPair(t, "first")
	write(t, dir, "node.crt", certificate)
	write(t, dir, "node.key", key)
	write(t, dir, "both.pem", certificate+key)
	write(t, dir, "token", "from a file\n")
	inline := "certificate-authority-data: " + base64.StdEncoding.EncodeToString(authority(s))
	in64 := base64.StdEncoding.EncodeToString
	for _, c := range []struct{ cluster, user, want string }{
		{"certificate-authority: ca.crt", "token: secret", "Bearer secret"},
		{inline, "token: secret", "Bearer secret"},
		{inline, "token: old, tokenFile: token", "Bearer from a file"},
		{inline, "client-certificate: node.crt, client-key: node.key", "first"},
		{inline, "client-certificate: both.pem", "first"},
		{inline, "client-certificate-data: " + in64([]byte(certificate)) + ", client-key-data: " + in64([]byte(key)), "first"},
	} {
		k := newTestClient(t, config(s.URL, c.cluster, c.user), dir)
		if _, err := k.get(t.Context()); err != nil || who != c.want {
			t.Errorf("%s: %q, %v; want %q", c.user, who, err, c.want)
		}
	}
	byFile := newTestClient(t, config(s.URL, inline, "tokenFile: token"), dir)
	byKey := newTestClient(t, config(s.URL, inline, "client-certificate: node.crt, client-key: node.key"), dir)
	certificate, key = keyPair(t, "second")
	write(t, dir, "node.crt", certificate)
	write(t, dir, "node.key", key)
	write(t, dir, "token", "renewed")
	for want, k := range map[string]*client{"Bearer renewed": byFile, "second": byKey} {
		if _, err := k.get(t.Context()); err != nil || who != want {
			t.Errorf("%q, %v; want %q", who, err, want)
		}
	}
}

// Whatever comes back, the reason is one that people can look up.
func TestAnswers(t *testing.T) {
	var code int
	var text string
	s := gate(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		fmt.Fprint(w, text)
	})
	k := newTestClient(t, config(s.URL, "certificate-authority-data: "+base64.StdEncoding.EncodeToString(authority(s)), "token: x"), t.TempDir())
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

func TestBadKubeconfigs(t *testing.T) {
	for want, text := range map[string]string{
		"no cluster and user for the current context":     "",
		`for the current context "x"`:                     "current-context: x",
		"yaml: ":                                          "current-context: [",
		`server "http://a": want https://HOST:PORT`:       config("http://a", "", "token: x"),
		"want https://":                                   config("https://user@a", "", "token: x"),
		"insecure-skip-tls-verify":                        config("https://a", "insecure-skip-tls-verify: true", "token: x"),
		"no certificate in the certificate authority":     config("https://a", "certificate-authority-data: eA==", "token: x"),
		"certificate-authority: illegal base64":           config("https://a", "certificate-authority-data: '?'", "token: x"),
		"certificate-authority: open":                     config("https://a", "certificate-authority: none", "token: x"),
		"no token, tokenFile or client-certificate":       config("https://a", "", "exec: {command: login}"),
		"client certificate: open":                        config("https://a", "", "client-certificate: none"),
		"client certificate: tls: failed to find any PEM": config("https://a", "", "client-certificate-data: eA==, client-key-data: eA=="),
	} {
		_, err := parseKubeconfig([]byte(text), t.TempDir())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

func FuzzKubeconfig(f *testing.F) {
	f.Add(config("https://a:6443", "tls-server-name: b", "token: x"))
	f.Add(config("https://a", "certificate-authority-data: eA==", "client-certificate-data: eA=="))
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseKubeconfig([]byte(text), "/none")
		switch {
		case err != nil && strings.ContainsAny(err.Error(), "\n\r"):
			t.Errorf("more than one line: %q", err)
		case err == nil && !strings.HasPrefix(a.url, "https://"):
			t.Errorf("%q: a token would go to %q", text, a.url)
		case err == nil && a.token == "" && a.tokenFile == "" && a.tls.GetClientCertificate == nil:
			t.Errorf("%q: nobody in particular", text)
		}
	})
}
