package containerd

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
)

// An apiServer is a kube-apiserver with an etcd of its own.
type apiServer struct {
	*lab
	base   string
	client *http.Client
	daemon *daemon
}

const apiToken = "lab"

// newAPIServer starts an API server and its etcd, and stops both at the end of the test.
func newAPIServer(l *lab) *apiServer {
	l.Helper()
	programs := map[string]string{}
	for _, name := range []string{"CANDOR_ETCD", "CANDOR_APISERVER"} {
		if programs[name] = os.Getenv(name); programs[name] == "" {
			l.Skipf("no %s: make test-kubelet builds it and runs this", name)
		}
	}
	etcd, peers, port := freePort(l.T), freePort(l.T), freePort(l.T)
	l.write("tokens.csv", apiToken+",lab,lab,system:masters\n")
	l.writeKey("sa.key")
	store := l.start(programs["CANDOR_ETCD"], "--data-dir", l.path("etcd"), "--unsafe-no-fsync", "--listen-peer-urls", peers.url("http"),
		"--initial-advertise-peer-urls", peers.url("http"), "--initial-cluster", "default="+peers.url("http"),
		"--listen-client-urls", etcd.url("http"), "--advertise-client-urls", etcd.url("http"))
	l.Cleanup(store.kill)
	a := &apiServer{lab: l, base: port.url("https"), client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
	a.daemon = l.start(programs["CANDOR_APISERVER"], "--etcd-servers", etcd.url("http"), "--cert-dir", l.path("api"), "--secure-port", string(port),
		"--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--endpoint-reconciler-type", "none",
		"--service-cluster-ip-range", "10.0.0.0/24", "--service-account-issuer", "https://localhost",
		"--service-account-key-file", l.path("sa.key"), "--service-account-signing-key-file", l.path("sa.key"),
		"--token-auth-file", l.path("tokens.csv"), "--authorization-mode", "RBAC",
		"--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition", "--kubelet-preferred-address-types", "InternalIP")
	l.Cleanup(a.daemon.kill)
	l.wait("the API server", a.daemon, func() bool {
		code, _ := a.request("GET", "/readyz", "", nil)
		return code == http.StatusOK
	})
	l.write("kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: lab, user: {token: %s}}]
contexts: [{name: lab, context: {cluster: lab, user: lab}}]
current-context: lab
`, a.base, l.path("api/apiserver.crt"), apiToken))
	return a
}

// writeKey writes the signing key of service account tokens, which the API server requires although the tests
// use no such token.
func (l *lab) writeKey(name string) {
	l.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		l.Fatal(err)
	}
	l.write(name, string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
}

// A port is a port of the loopback interface.
type port string

func (p port) url(scheme string) string { return scheme + "://127.0.0.1:" + string(p) }

// freePort returns a port without a listener.
func freePort(t *testing.T) port {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, p, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port(p)
}

// request sends a request with an object and returns the status code, or 0 if the server does not answer.
func (a *apiServer) request(method, path, contentType string, object any) (code int, body []byte) {
	a.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		a.Fatal(err)
	}
	request, err := http.NewRequest(method, a.base+path, bytes.NewReader(text))
	if err != nil {
		a.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+apiToken)
	request.Header.Set("Content-Type", contentType)
	answer, err := a.client.Do(request)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer answer.Body.Close()
	body, err = io.ReadAll(answer.Body)
	if err != nil {
		return 0, []byte(err.Error())
	}
	return answer.StatusCode, body
}

// does sends a request that must succeed.
func (a *apiServer) does(method, path, contentType string, object any) (body []byte) {
	a.Helper()
	code, body := a.request(method, path, contentType, object)
	if code < 200 || code > 299 {
		a.Fatalf("%s %s: %d %s", method, path, code, body)
	}
	return body
}
