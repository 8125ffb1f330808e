// Package controlplane starts a real API server with etcd for tests.
package controlplane

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Tokens of users: an administrator, and two users without rights, viewer and operator.
const (
	AdminToken    = "admintoken"
	ViewerToken   = "viewtoken"
	OperatorToken = "labtoken"
)

// Start starts etcd and kube-apiserver, and returns the access of an administrator. Both end with the test. Start skips the test
// without the programs.
func Start(t testing.TB) *rest.Config {
	t.Helper()
	apiserver, etcd := os.Getenv("CANDOR_APISERVER"), os.Getenv("CANDOR_ETCD")
	if apiserver == "" || etcd == "" {
		t.Skip("needs a control plane: make e2e-kubernetes builds kube-apiserver and names it and etcd by CANDOR_APISERVER and CANDOR_ETCD")
	}
	dir := t.TempDir()
	ports := freePorts(t, 3)
	store, peers := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	StartChild(t, dir, etcd, "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", store, "--advertise-client-urls", store,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers, "--unsafe-no-fsync")
	writeSecrets(t, dir)
	StartChild(t, dir, apiserver, "--etcd-servers="+store, "--cert-dir="+dir, fmt.Sprint("--secure-port=", ports[2]),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://localhost", "--service-account-key-file="+filepath.Join(dir, "sa.pub"),
		"--service-account-signing-key-file="+filepath.Join(dir, "sa.key"), "--token-auth-file="+filepath.Join(dir, "tokens.csv"),
		"--authorization-mode=Node,RBAC", "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
	config := &rest.Config{Host: fmt.Sprintf("https://127.0.0.1:%d", ports[2]), BearerToken: AdminToken, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	client := kubernetes.NewForConfigOrDie(config)
	Until(t, "the API server is ready", func() bool {
		out, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context())
		return err == nil && string(out) == "ok"
	})
	return config
}

// Until waits for a condition, for at most a minute.
func Until(t testing.TB, condition string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", condition)
		}
	}
}

// StartChild starts a program until the end of the test, with a log in a directory, and returns its process ID. The kernel kills
// the program when the test process ends.
func StartChild(t testing.TB, dir, program string, args ...string) int {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, filepath.Base(program)+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c := exec.Command(program, args...)
	c.Stdout, c.Stderr, c.SysProcAttr = log, log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c.Process.Pid
}

// writeSecrets writes the administrator's token and the signing key of service account tokens.
func writeSecrets(t testing.TB, dir string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"sa.key":     pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
		"sa.pub":     pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
		"tokens.csv": []byte(AdminToken + `,admin,admin,"system:masters"` + "\n" + ViewerToken + ",viewer,viewer\n" + OperatorToken + ",operator,operator\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func freePorts(t testing.TB, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}
