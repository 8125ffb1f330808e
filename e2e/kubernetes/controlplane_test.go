package kubernetes

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
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// patience is the timeout for operations of the control plane that usually take one or two seconds.
const patience = 60 * time.Second

const (
	adminToken         = "admin-of-the-test"
	kubeSchedulerToken = "kube-scheduler-of-the-test"
)

// A controlPlane is an API server and its etcd with a data directory of their own.
type controlPlane struct {
	dir, etcdURL, url string
	etcd, server      *exec.Cmd
	client            *http.Client
}

// plane is the control plane that all tests of the package share.
var plane *controlPlane

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	etcd, server := os.Getenv("CANDOR_ETCD"), os.Getenv("CANDOR_APISERVER")
	if etcd == "" || server == "" {
		return m.Run() // each test skips
	}
	dir, err := os.MkdirTemp("", "candor-kubernetes")
	if err == nil {
		defer os.RemoveAll(dir)
		plane = &controlPlane{dir: dir}
		defer plane.stop()
		err = plane.start(etcd, server)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "control plane:", err)
		return 1
	}
	return m.Run()
}

// needPlane returns the control plane, or skips the test if its programs are missing.
func needPlane(t *testing.T) *controlPlane {
	t.Helper()
	if plane == nil {
		t.Skip("CANDOR_APISERVER and CANDOR_ETCD name no programs: make e2e-kubernetes builds them")
	}
	return plane
}

func (p *controlPlane) start(etcd, server string) error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	p.etcdURL, p.url = "http://"+ports[0], "https://"+ports[2]
	if err := p.writeKeys(); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(ports[2])
	peers := "http://" + ports[1]
	p.etcd = p.command("etcd", etcd, "--name=test", "--data-dir="+p.path("etcd"), "--unsafe-no-fsync", "--log-level=error",
		"--listen-client-urls="+p.etcdURL, "--advertise-client-urls="+p.etcdURL,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=test="+peers)
	p.server = p.command("kube-apiserver", server, "--etcd-servers="+p.etcdURL, "--cert-dir="+p.path("pki"), "--secure-port="+port,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://localhost", "--service-account-key-file="+p.path("key"), "--service-account-signing-key-file="+p.path("key"),
		"--token-auth-file="+p.path("tokens"), "--authorization-mode=Node,RBAC", "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
	if err := p.etcd.Start(); err != nil {
		return err
	}
	return p.startServer()
}

func (p *controlPlane) path(name string) string { return filepath.Join(p.dir, name) }

// command returns a command whose output goes to a file. The command is killed at the end of the tests.
func (p *controlPlane) command(name string, words ...string) *exec.Cmd {
	c := exec.Command(words[0], words[1:]...)
	out, err := os.OpenFile(p.path(name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		c.Stdout, c.Stderr = out, out
	}
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c
}

// startServer starts the API server, and waits until it is ready.
func (p *controlPlane) startServer() error {
	p.server = p.command("kube-apiserver", p.server.Args...)
	if err := p.server.Start(); err != nil {
		return err
	}
	for begin := time.Now(); time.Since(begin) < patience; time.Sleep(50 * time.Millisecond) {
		if p.client == nil && p.trust() != nil {
			continue // it has not made its certificate yet
		}
		if code, _ := p.try("GET", "/readyz", adminToken, nil); code == http.StatusOK {
			return nil
		}
	}
	text, _ := os.ReadFile(p.path("kube-apiserver.log"))
	return fmt.Errorf("not ready after %v:\n%s", patience, text[max(0, len(text)-3000):])
}

// killServer kills the API server. startServer starts it again with the same data.
func (p *controlPlane) killServer() {
	_ = p.server.Process.Kill()
	_ = p.server.Wait()
}

func (p *controlPlane) stop() {
	for _, c := range []*exec.Cmd{p.server, p.etcd} {
		if c != nil && c.Process != nil {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
}

// writeKeys writes the key that signs the tokens of service accounts, and the administrator's token.
func (p *controlPlane) writeKeys() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(p.path("key"), text, 0o600); err != nil {
		return err
	}
	return os.WriteFile(p.path("tokens"), []byte(adminToken+",admin,admin,system:masters\n"+kubeSchedulerToken+",system:kube-scheduler,scheduler\n"), 0o600)
}

// trust returns a client that trusts the server's certificate.
func (p *controlPlane) trust() error {
	text, err := os.ReadFile(p.path("pki/apiserver.crt"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return fmt.Errorf("no certificate in %q", text)
	}
	p.client = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	return nil
}

// writeAccess writes a kubeconfig.
func (p *controlPlane) writeAccess(t *testing.T, file, token string) {
	t.Helper()
	config := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}]\n"+
		"users: [{name: u, user: {token: %q}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\n", p.url, p.path("pki/apiserver.crt"), token)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
}

// try sends a request to the API server and returns the status code, or 0 if the server does not answer.
func (p *controlPlane) try(method, path, token string, body []byte) (code int, answer string) {
	r, err := http.NewRequest(method, p.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	if method == "PATCH" {
		r.Header.Set("Content-Type", "application/apply-patch+yaml") // kubectl apply --server-side; JSON is YAML
	}
	response, err := p.client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// must sends a request as administrator, which must succeed.
func (p *controlPlane) must(t *testing.T, method, path string, body []byte) string {
	t.Helper()
	code, answer := p.try(method, path, adminToken, body)
	if code/100 != 2 {
		t.Fatalf("%s %s: %d %s", method, path, code, answer)
	}
	return answer
}

// places maps the kinds of objects that the tests create to their paths in the API, in the chart's namespace.
var places = map[string]string{
	"CustomResourceDefinition":         "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
	"ClusterRole":                      "/apis/rbac.authorization.k8s.io/v1/clusterroles",
	"ClusterRoleBinding":               "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"ValidatingAdmissionPolicy":        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
	"ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
	"Namespace":                        "/api/v1/namespaces",
	"Node":                             "/api/v1/nodes",
	"ServiceAccount":                   "/api/v1/namespaces/candor-system/serviceaccounts",
	"ConfigMap":                        "/api/v1/namespaces/candor-system/configmaps",
	"Service":                          "/api/v1/namespaces/candor-system/services",
	"Role":                             "/apis/rbac.authorization.k8s.io/v1/namespaces/candor-system/roles",
	"RoleBinding":                      "/apis/rbac.authorization.k8s.io/v1/namespaces/candor-system/rolebindings",
	"Deployment":                       "/apis/apps/v1/namespaces/candor-system/deployments",
	"PodDisruptionBudget":              "/apis/policy/v1/namespaces/candor-system/poddisruptionbudgets",
	"DaemonSet":                        "/apis/apps/v1/namespaces/candor-system/daemonsets",
}

// apply creates the objects of YAML documents whose kinds are in places. It skips other kinds, and does not change existing objects.
func (p *controlPlane) apply(t *testing.T, text string) {
	t.Helper()
	p.each(t, text, func(path, name string, body []byte) {
		if code, answer := p.try("POST", path, adminToken, body); code/100 != 2 && code != http.StatusConflict {
			t.Errorf("%s %s: %d %s", path, name, code, answer)
		}
	})
}

// each calls do for each object of YAML documents whose kind is in places, with the path of such objects.
func (p *controlPlane) each(t *testing.T, text string, do func(path, name string, body []byte)) {
	t.Helper()
	for d := yaml.NewDecoder(bytes.NewReader([]byte(text))); ; {
		var object map[string]any
		switch err := d.Decode(&object); {
		case err == io.EOF:
			return
		case err != nil:
			t.Fatal(err)
		}
		kind, _ := object["kind"].(string)
		path := places[kind]
		if path == "" {
			continue
		}
		metadata := object["metadata"].(map[string]any)
		if namespace, ok := metadata["namespace"].(string); ok {
			path = strings.Replace(path, "candor-system", namespace, 1)
		}
		body, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		do(path, metadata["name"].(string), body)
	}
}

// eventually waits until a condition holds that the control plane establishes by itself.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > patience {
			t.Fatalf("not so after %v: %s", patience, what)
		}
	}
}

// freePorts returns addresses of the loopback without a listener.
func freePorts(n int) (addresses []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}
