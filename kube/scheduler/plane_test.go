package scheduler

import (
	"bytes"
	"context"
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

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A plane is a control plane: etcd and kube-apiserver run as child processes. All tests share one plane.
type plane struct {
	dir       string
	scheduler string      // path of candor-scheduler
	running   []*exec.Cmd // etcd and kube-apiserver
	config    *rest.Config
	client    kubernetes.Interface
	dynamic   dynamic.Interface
}

// lab is nil if no control plane is available; wantLab then skips the test.
var lab *plane

func wantLab(t testing.TB) *plane {
	t.Helper()
	if lab == nil {
		t.Skip("needs a control plane: make e2e-kubernetes builds kube-apiserver and names it and etcd by CANDOR_APISERVER and CANDOR_ETCD")
	}
	return lab
}

func TestMain(m *testing.M) {
	apiserver, etcd := os.Getenv("CANDOR_APISERVER"), os.Getenv("CANDOR_ETCD")
	if apiserver == "" || etcd == "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "candor-scheduler-")
	if err != nil {
		panic(err)
	}
	code := func() int {
		defer os.RemoveAll(dir)
		p, stop, err := startPlane(dir, apiserver, etcd)
		defer stop()
		if err != nil {
			fmt.Fprintln(os.Stderr, "control plane:", err)
			return 1
		}
		lab = p
		return m.Run()
	}()
	os.Exit(code)
}

const token = "admintoken"

// startPlane starts a control plane with all its files in dir. stop kills its processes.
func startPlane(dir, apiserver, etcd string) (p *plane, stop func(), err error) {
	var running []*exec.Cmd
	stop = func() {
		for _, c := range running {
			kill(c)
		}
	}
	start := func(program string, args ...string) error {
		c, err := startChild(filepath.Join(dir, filepath.Base(program)+".log"), program, args...)
		if err == nil {
			running = append(running, c)
		}
		return err
	}
	p = &plane{dir: dir, scheduler: filepath.Join(dir, "candor-scheduler")}
	if out, err := exec.Command("go", "build", "-o", p.scheduler, "./cmd/candor-scheduler").CombinedOutput(); err != nil {
		return nil, stop, fmt.Errorf("%w: %s", err, out)
	}
	ports := freePorts(3)
	store, peers := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	if err := start(etcd, "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", store, "--advertise-client-urls", store,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers, "--unsafe-no-fsync"); err != nil {
		return nil, stop, err
	}
	if err := writeSecrets(dir); err != nil {
		return nil, stop, err
	}
	if err := start(apiserver, "--etcd-servers="+store, "--cert-dir="+dir, fmt.Sprint("--secure-port=", ports[2]),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://localhost", "--service-account-key-file="+filepath.Join(dir, "sa.pub"),
		"--service-account-signing-key-file="+filepath.Join(dir, "sa.key"), "--token-auth-file="+filepath.Join(dir, "tokens.csv"),
		"--authorization-mode=Node,RBAC", "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"); err != nil {
		return nil, stop, err
	}
	p.running = running
	p.config = &rest.Config{Host: fmt.Sprintf("https://127.0.0.1:%d", ports[2]), BearerToken: token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	p.client, p.dynamic = kubernetes.NewForConfigOrDie(p.config), dynamic.NewForConfigOrDie(p.config)
	if err := p.ready(); err != nil {
		return nil, stop, err
	}
	return p, stop, p.installObjects()
}

// ready waits until the API server is ready.
func (p *plane) ready() error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		out, err := p.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(context.Background())
		if err == nil && bytes.Equal(out, []byte("ok")) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready: %s %w; see its log in %s", out, err, p.dir)
		}
	}
}

// writeSecrets writes the administrator's token and the signing key of service account tokens.
func writeSecrets(dir string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		"sa.key":     pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
		"sa.pub":     pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
		"tokens.csv": []byte(token + `,admin,admin,"system:masters"` + "\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// startChild starts a program. The kernel kills it when the test process ends.
func startChild(log, program string, args ...string) (*exec.Cmd, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	c := exec.Command(program, args...)
	c.Stdout, c.Stderr = out, out
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c, c.Start()
}

func kill(c *exec.Cmd) {
	_ = c.Process.Kill() // it may have ended by itself
	_ = c.Wait()
}

func freePorts(count int) []int {
	var ports []int
	for range count {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}
