package apiserver

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/internal/apitest"
)

// TestLoginMethods: the server receives the credentials of each login method. The client rereads token and
// key files that were renewed.
func TestLoginMethods(t *testing.T) {
	s := newEcho(t)
	dir := t.TempDir()
	apitest.Write(t, dir, "ca.crt", string(apitest.Authority(s.Server)))
	certificate, key := apitest.KeyPair(t, "first")
	apitest.Write(t, dir, "node.crt", certificate)
	apitest.Write(t, dir, "node.key", key)
	apitest.Write(t, dir, "both.pem", certificate+key)
	apitest.Write(t, dir, "token", "from a file\n")
	inline, in64 := apitest.Trust(s.Server), base64.StdEncoding.EncodeToString
	for _, c := range []struct{ cluster, user, want string }{
		{"certificate-authority: ca.crt", "token: secret", "Bearer secret"},
		{inline, "token: secret", "Bearer secret"},
		{inline + ", tls-server-name: example.com", "token: secret", "Bearer secret"}, // a name in the server's certificate
		{inline, "client-certificate: node.crt, client-key: node.key", "first"},
		{inline, "client-certificate: both.pem", "first"},
		{inline, "client-certificate-data: " + in64([]byte(certificate)) + ", client-key-data: " + in64([]byte(key)), "first"},
	} {
		k := newClient(t, dir, apitest.Kubeconfig(s.URL, c.cluster, c.user))
		if user, err := s.call(t, k); err != nil || user != c.want {
			t.Errorf("%s: got user %q, %v; want %q", c.user, user, err, c.want)
		}
	}
	apitest.Write(t, dir, "token", "first\n")
	byFile := newClient(t, dir, apitest.Kubeconfig(s.URL, inline, "token: old, tokenFile: token"))
	byKey := newClient(t, dir, apitest.Kubeconfig(s.URL, inline, "client-certificate: node.crt, client-key: node.key"))
	if user, err := s.call(t, byFile); err != nil || user != "Bearer first" {
		t.Errorf("got user %q, %v; want Bearer first", user, err)
	}
	certificate, key = apitest.KeyPair(t, "second")
	apitest.Write(t, dir, "node.crt", certificate)
	apitest.Write(t, dir, "node.key", key)
	apitest.Write(t, dir, "token", "renewed")
	for want, k := range map[string]*Client{"Bearer renewed": byFile, "second": byKey} {
		if user, err := s.call(t, k); err != nil || user != want {
			t.Errorf("got user %q, %v; want %q", user, err, want)
		}
	}
}

// TestImpersonation: a request has the impersonation headers of the kubeconfig.
func TestImpersonation(t *testing.T) {
	s := newEcho(t)
	c := newClient(t, t.TempDir(), apitest.Kubeconfig(s.URL, apitest.Trust(s.Server),
		`token: x, as: jane, as-uid: u1, as-groups: [dev, ops], as-user-extra: {"Acme.com/Team:1": [red, blue]}`))
	if _, err := s.call(t, c); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Impersonate-User": "jane", "Impersonate-Uid": "u1", "Impersonate-Group": "dev ops",
		"Impersonate-Extra-Acme.com%2fteam%3a1": "red blue",
	} {
		if has := strings.Join(s.last.Header.Values(name), " "); has != want {
			t.Errorf("header %s: got %q, want %q in %v", name, has, want, s.last.Header)
		}
	}
}

// TestNoRedirect: the client follows no redirect, so that it sends its credentials only to the configured
// server.
func TestNoRedirect(t *testing.T) {
	var redirected *http.Request
	other := apitest.Serve(t, func(_ http.ResponseWriter, r *http.Request) { redirected = r })
	s := apitest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/secret-place", http.StatusFound)
	})
	c := newClient(t, t.TempDir(), apitest.Kubeconfig(s.URL, apitest.Trust(s), "token: x, as: jane"))
	err := c.Get(t.Context(), "/version", &struct{}{})
	if err == nil || !strings.Contains(err.Error(), "follows no redirects") || strings.Contains(err.Error(), "secret") || redirected != nil {
		t.Errorf("got error %v, redirected request %v; want an error and no request", err, redirected)
	}
}

func TestUntrustedServer(t *testing.T) {
	s := newEcho(t)
	certificate, _ := apitest.KeyPair(t, "another")
	c := newClient(t, t.TempDir(), apitest.Kubeconfig(s.URL, "certificate-authority-data: "+base64.StdEncoding.EncodeToString([]byte(certificate)), "token: x"))
	if _, err := s.call(t, c); err == nil || !strings.Contains(err.Error(), "certificate") || s.last != nil {
		t.Errorf("got error %v, request sent: %v; want a certificate error and no request", err, s.last != nil)
	}
}

// TestProxy: calls use the proxy of the kubeconfig. No error contains the proxy's password.
func TestProxy(t *testing.T) {
	var received string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		received = r.Method + " " + r.Host
		w.WriteHeader(http.StatusForbidden)
	}))
	defer proxy.Close()
	by := strings.Replace(proxy.URL, "http://", "http://me:password@", 1)
	c := newClient(t, t.TempDir(), apitest.Kubeconfig("https://api.example:6443", "proxy-url: "+by, "token: x"))
	err := c.Get(t.Context(), "/version", &struct{}{})
	if received != "CONNECT api.example:6443" || err == nil || strings.Contains(err.Error(), "password") {
		t.Errorf("the proxy received %q, error %v; want CONNECT and an error without the password", received, err)
	}
	_, err = readAccess(t, apitest.Kubeconfig("https://a", "proxy-url: 'ftp://me:password@b'", "token: x"), "/none")
	if err == nil || strings.Contains(err.Error(), "password") || !strings.Contains(err.Error(), "proxy-url: must be") {
		t.Error(err)
	}
}

// TestSeveralFiles: a list of files forms a kubeconfig. The first file that sets a value wins, paths are
// relative to their file, and missing files are skipped.
func TestSeveralFiles(t *testing.T) {
	s := newEcho(t)
	one, two := t.TempDir(), t.TempDir()
	apitest.Write(t, two, "token", "two")
	first := apitest.Write(t, one, "config", "current-context: a\ncontexts: [{name: a, context: {cluster: k, user: u, namespace: batch}}]\n"+
		"clusters: [{name: k, cluster: {server: "+s.URL+", "+apitest.Trust(s.Server)+"}}]")
	second := apitest.Write(t, two, "config", "current-context: b\ncontexts: [{name: a}, {name: b, context: {cluster: none, user: none}}]\n"+
		"clusters: [{name: k, cluster: {server: https://another}}]\nusers: [{name: u, user: {tokenFile: token}}]")
	missing := filepath.Join(one, "missing")
	files := strings.Join([]string{missing, first, second}, string(os.PathListSeparator))
	c, err := New(Options{Kubeconfig: files, Patience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if user, err := s.call(t, c); err != nil || user != "Bearer two" {
		t.Errorf("got user %q, %v; want Bearer two", user, err)
	}
	if _, err := New(Options{Kubeconfig: second}); err == nil || !strings.Contains(err.Error(), `cluster "none"`) {
		t.Error(err)
	}
	if _, err := New(Options{Kubeconfig: missing}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}

// TestInvalidKubeconfigs: the error of an invalid kubeconfig is a single line without secrets.
func TestInvalidKubeconfigs(t *testing.T) {
	k := apitest.Kubeconfig
	for _, c := range []struct{ want, text string }{
		{"no current context", ""},
		{`no context "x"`, "current-context: x"},
		{"must be a kubeconfig in YAML", "current-context: [secret"},
		{`server "http://a": must be https://HOST:PORT`, k("http://a", "", "token: secret")},
		{"server: must be https://", k("https://user:secret@a", "", "token: secret")},
		{`cluster "k": cannot parse the entry: unknown field "server-name"`, k("https://a", "server-name: x", "token: secret")},
		{`user "u": cannot parse the entry: unknown field "tokenfile"`, k("https://a", "", "tokenfile: secret")},
		{"a value is not of the kind", k("https://a", "", "token: [secret]")},
		{"insecure-skip-tls-verify: an attacker", k("https://a", "insecure-skip-tls-verify: true", "token: secret")},
		{"no certificate in the certificate authority", k("https://a", "certificate-authority-data: eA==", "token: secret")},
		{"certificate-authority: must be base64", k("https://a", "certificate-authority-data: '?secret'", "token: secret")},
		{"certificate-authority: open", k("https://a", "certificate-authority: none", "token: secret")},
		{"a token, tokenFile", k("https://a", "", "")},
		{"username and password", k("https://a", "", "username: me, password: secret")},
		{"auth-provider", k("https://a", "", "auth-provider: {name: gcp, config: {token: secret}}")},
		{"they require as", k("https://a", "", "token: secret, as-groups: [a]")},
		{"characters that no name has", k("https://a", "", `token: secret, as: "a\nb"`)},
		{"client certificate: open", k("https://a", "", "client-certificate: none")},
		{"client certificate: tls: failed to find any PEM", k("https://a", "", "client-certificate-data: eA==, client-key-data: eA==")},
		{"user \"u\": must appear once", k("https://a", "", "token: secret")},
		{"exec: an interactive login is not possible", k("https://a", "", "exec: {apiVersion: client.authentication.k8s.io/v1, command: login}")},
	} {
		if strings.Contains(c.want, "once") {
			c.text = strings.Replace(c.text, "users: [", "users: [{name: u, user: {token: secret}}, ", 1)
		}
		_, err := readAccess(t, c.text, t.TempDir())
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

func FuzzKubeconfig(f *testing.F) {
	f.Add(apitest.Kubeconfig("https://a:6443", "tls-server-name: b, proxy-url: 'socks5://c'", "token: secret, as: d, as-groups: [e]"))
	f.Add(apitest.Kubeconfig("https://a", "certificate-authority-data: eA==", "client-certificate-data: eA=="))
	f.Add(apitest.Kubeconfig("https://a", "insecure-skip-tls-verify: true", "exec: {apiVersion: client.authentication.k8s.io/v1, command: a, args: [b], env: [{name: c, value: d}], interactiveMode: Never}"))
	f.Fuzz(func(t *testing.T, text string) {
		a, err := readAccess(t, text, "/none")
		switch {
		case err != nil && strings.ContainsAny(err.Error(), "\n\r"):
			t.Errorf("error of more than one line: %q", err)
		case err != nil:
		case !strings.HasPrefix(a.url, "https://"):
			t.Errorf("%q: a token would go to %q", text, a.url)
		case a.token == "" && a.tokenFile == "" && a.tls.GetClientCertificate == nil:
			t.Errorf("%q: accepted without credentials", text)
		case a.tls.InsecureSkipVerify:
			t.Errorf("%q: skips the verification of the server", text)
		}
	})
}
