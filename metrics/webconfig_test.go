package metrics

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/sys/unix"
)

// pki is a directory with a certificate authority, and certificates of a server and two clients.
type pki struct {
	dir   string
	roots *x509.CertPool
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	p := &pki{t.TempDir(), x509.NewCertPool()}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	p.issue(t, "ca", authority, authority, key, key)
	p.roots.AddCert(authority)
	for i, name := range []string{"server", "prometheus", "stranger"} {
		own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		p.issue(t, name, &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 2)), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{name},
			IPAddresses: []net.IP{{127, 0, 0, 1}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}, authority, own, key)
	}
	return p
}

// issue writes the certificate to NAME.crt and its key to NAME.key.
func (p *pki) issue(t *testing.T, name string, cert, authority *x509.Certificate, own, signer *ecdsa.PrivateKey) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, authority, &own.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	if parsed, err := x509.ParseCertificate(der); err == nil {
		*cert = *parsed
	}
	private, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, name+".crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	p.write(t, name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
}

func (p *pki) write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(p.dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// load writes a web configuration and loads it.
func (p *pki) load(t *testing.T, text string) *WebConfig {
	t.Helper()
	c, err := LoadWebConfig(p.write(t, "web.yml", text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// visit is a request with credentials and its expected status code.
type visit struct {
	name           string
	path           string
	cert           string // name of the client certificate; "" for none
	user, password string
	want           int // status code; 0 if the connection fails
}

// check sends the requests to a server and compares the status codes.
func (p *pki) check(t *testing.T, s *site, scheme string, visits ...visit) {
	t.Helper()
	for _, v := range visits {
		config := &tls.Config{RootCAs: p.roots}
		if v.cert != "" {
			pair, err := tls.LoadX509KeyPair(filepath.Join(p.dir, v.cert+".crt"), filepath.Join(p.dir, v.cert+".key"))
			if err != nil {
				t.Fatal(err)
			}
			config.Certificates = []tls.Certificate{pair}
		}
		client := http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, ForceAttemptHTTP2: true}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+s.address+v.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if v.user != "" {
			request.SetBasicAuth(v.user, v.password)
		}
		code := 0
		answer, err := client.Do(request)
		if err == nil {
			code = answer.StatusCode
			answer.Body.Close()
		}
		if code != v.want {
			t.Errorf("%s: %s: code %d, %v; want %d", v.name, v.path, code, err, v.want)
		}
		if err == nil && answer.ProtoMajor != 1 {
			t.Errorf("%s: %s", v.name, answer.Proto)
		}
	}
}

func hash(t *testing.T, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

func TestTLSAndPassword(t *testing.T) {
	p := newPKI(t)
	web := p.load(t, "tls_server_config: {cert_file: server.crt, key_file: server.key}\nhttp_server_config: {headers: {X-Frame-Options: deny}}\nbasic_auth_users: {prometheus: '"+hash(t, "secret")+"'}")
	s := newSite(t, web)
	p.check(t, s, "https",
		visit{name: "password", path: "/metrics", user: "prometheus", password: "secret", want: 200},
		visit{name: "password again", path: "/metrics", user: "prometheus", password: "secret", want: 200},
		visit{name: "wrong password", path: "/metrics", user: "prometheus", password: "secret2", want: 401},
		visit{name: "empty password", path: "/metrics", user: "prometheus", want: 401},
		visit{name: "other user", path: "/metrics", user: "admin", password: "secret", want: 401},
		visit{name: "none", path: "/metrics", want: 401},
		visit{name: "none", path: "/", want: 401},
		visit{name: "kubelet", path: "/healthz", want: 200},
		visit{name: "kubelet", path: "/readyz", want: 503},
	)
	p.check(t, s, "http", visit{name: "no TLS", path: "/healthz", want: 400})
	if len(web.auth.proven) != 1 {
		t.Errorf("%d passwords are cached, want 1", len(web.auth.proven))
	}
	w := getWith(s, web, "/healthz")
	if w.Get("X-Frame-Options") != "deny" {
		t.Errorf("headers: %v", w)
	}
	// The server reads a replaced certificate at the next handshake.
	if err := os.Rename(filepath.Join(p.dir, "stranger.crt"), filepath.Join(p.dir, "server.crt")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(p.dir, "stranger.key"), filepath.Join(p.dir, "server.key")); err != nil {
		t.Fatal(err)
	}
	c, err := tls.Dial("tcp", s.address, &tls.Config{RootCAs: p.roots})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if name := c.ConnectionState().PeerCertificates[0].DNSNames[0]; name != "stranger" {
		t.Errorf("got the certificate of %s, want the replaced certificate", name)
	}
}

func TestClientCertificates(t *testing.T) {
	p := newPKI(t)
	const base = "tls_server_config: {cert_file: server.crt, key_file: server.key, client_ca_file: ca.crt, client_auth_type: "
	kubelet := []visit{{name: "kubelet", path: "/healthz", want: 200}, {name: "none", path: "/metrics", want: 403}, {name: "none", path: "/", want: 403}}
	t.Run("any", func(t *testing.T) {
		s := newSite(t, p.load(t, base+"RequireAnyClientCert}"))
		p.check(t, s, "https", append(kubelet, visit{name: "any", path: "/metrics", cert: "stranger", want: 200})...)
	})
	t.Run("of the authority", func(t *testing.T) {
		s := newSite(t, p.load(t, base+"RequireAndVerifyClientCert}"))
		p.check(t, s, "https", append(kubelet, visit{name: "known", path: "/metrics", cert: "stranger", want: 200})...)
		other := newPKI(t)
		other.roots = p.roots
		other.check(t, s, "https", visit{name: "of another authority", path: "/metrics", cert: "prometheus"}, visit{name: "of another authority", path: "/healthz", cert: "prometheus"})
	})
	t.Run("by name", func(t *testing.T) {
		s := newSite(t, p.load(t, base+"RequireAndVerifyClientCert, client_allowed_sans: [prometheus]}"))
		p.check(t, s, "https", append(kubelet, visit{name: "allowed", path: "/metrics", cert: "prometheus", want: 200}, visit{name: "not allowed", path: "/metrics", cert: "stranger"})...)
	})
}

func TestRateLimit(t *testing.T) {
	p := newPKI(t)
	s := newSite(t, p.load(t, "rate_limit: {interval: 1h, burst: 2}"))
	p.check(t, s, "http", visit{path: "/metrics", want: 200}, visit{path: "/", want: 200}, visit{path: "/metrics", want: 429}, visit{path: "/healthz", want: 200})
}

// TestStalledHandshake: a connection with a stalled TLS handshake is closed in time, and does not block other
// clients.
func TestStalledHandshake(t *testing.T) {
	p := newPKI(t)
	s := newSite(t, p.load(t, "tls_server_config: {cert_file: server.crt, key_file: server.key}"))
	for _, text := range []string{"\x16\x03\x01\x02\x00\x01", "\x16\x03\x01\x40\x00" + strings.Repeat("x", 20000), "GET / HTTP/1.1\r\n\r\n"} {
		for range 2 * maxWaiting {
			s.dial(t, text)
		}
		p.check(t, s, "https", visit{path: "/metrics", want: 200})
		closed(t, s.dial(t, text), 5*time.Second)
	}
}

// getWith returns the response headers of a page.
func getWith(s *site, web *WebConfig, path string) http.Header {
	request, _ := http.NewRequest(http.MethodGet, path, nil)
	w := &headerWriter{http.Header{}}
	s.handler(web, nil).ServeHTTP(w, request)
	return w.header
}

type headerWriter struct{ header http.Header }

func (w *headerWriter) Header() http.Header         { return w.header }
func (w *headerWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *headerWriter) WriteHeader(int)             {}

func TestBadWebConfig(t *testing.T) {
	p := newPKI(t)
	p.write(t, "empty.pem", "no certificate")
	p.write(t, "large.crt", strings.Repeat("x", maxWebFile+1))
	if err := unix.Mkfifo(filepath.Join(p.dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	const tlsConfig = "tls_server_config: {cert_file: server.crt, key_file: server.key"
	costly := "$2y$31$" + hash(t, "x")[7:]
	for text, want := range map[string]string{
		"tls_server_confg: {}":                "field tls_server_confg not found",
		"[":                                   "yaml",
		"- a":                                 "cannot unmarshal",
		"basic_auth_users: {a: b}\n---\nx: y": "",
		"basic_auth_users: {a: hunter2}":      `user "a": not a bcrypt hash`,
		"basic_auth_users: {a: '" + costly + "'}":                                                "bcrypt cost 31; must be at most 14",
		"basic_auth_users: {a: x, a: y}":                                                         "already",
		"tls_server_config: {cert_file: server.crt}":                                             "missing one of key or key_file",
		"tls_server_config: {cert_file: none.crt, key_file: none.key}":                           "none.crt: no such file",
		"tls_server_config: {cert_file: server.crt, key_file: ca.key}":                           "private key does not match",
		"tls_server_config: {cert_file: pipe, key_file: server.key}":                             "not a plain file",
		"tls_server_config: {cert_file: large.crt, key_file: x}":                                 "more than",
		"tls_server_config: {client_allowed_sans: [a]}":                                          "no certificate",
		tlsConfig + ", client_ca_file: ca.crt}":                                                  "without a Client Auth Policy",
		tlsConfig + ", client_ca_file: empty.pem, client_auth_type: RequireAndVerifyClientCert}": "no PEM certificate",
		tlsConfig + ", client_allowed_sans: [a]}":                                                "client_allowed_sans has no effect",
		tlsConfig + ", client_auth_type: Maybe}":                                                 "invalid ClientAuth: Maybe",
		tlsConfig + ", min_version: SSL3}":                                                       "unknown TLS version",
		"http_server_config: {headers: {Server: x}}":                                             `header "Server"`,
		"rate_limit: {interval: x}":                                                              "cannot unmarshal",
		strings.Repeat(" ", maxWebFile+1):                                                        "more than",
	} {
		start := time.Now()
		c, err := LoadWebConfig(p.write(t, "web.yml", text))
		if err == nil {
			t.Errorf("%.80q: %+v", text, c)
			continue
		}
		if !strings.HasPrefix(err.Error(), "cannot use the web configuration "+p.dir) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80q: %v; want %q in one line", text, err, want)
		}
		if time.Since(start) > patience {
			t.Errorf("%.80q: took %v", text, time.Since(start))
		}
	}
	for _, name := range []string{"none.yml", "pipe", "."} {
		if _, err := LoadWebConfig(filepath.Join(p.dir, name)); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if c := p.load(t, ""); c.hasTLS() || c.auth != nil {
		t.Errorf("an empty file: %+v", c)
	}
}
