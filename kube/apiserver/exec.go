package apiserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/candor-project/candor/internal/fileio"
)

// A kubeExec is the configuration of an exec plugin in a kubeconfig: a program that prints credentials.
type kubeExec struct {
	Version     string `yaml:"apiVersion"`
	Command     string
	Args        []string
	Env         []struct{ Name, Value string }
	InstallHint string `yaml:"installHint"`
	Interactive string `yaml:"interactiveMode"`
	TellCluster bool   `yaml:"provideClusterInfo"`
}

// execVersions are the supported API versions of exec plugins.
var execVersions = []string{"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"}

// A program is an exec plugin with its cached credentials. It runs again only after the credentials have expired or were discarded.
type program struct {
	kubeExec
	dir         string // of the kubeconfig: relative paths start here
	interactive bool

	mu     sync.Mutex
	cached *credential // cached credentials; nil if there are none
}

// A credential is the token, the certificate or both that an exec plugin returned.
type credential struct {
	token       string
	certificate *tls.Certificate
	expires     time.Time // expiry; zero if the credential does not expire
}

// setProgram checks the configuration of an exec plugin, and uses the plugin for the credentials.
func (a *access) setProgram(e *kubeExec, dir string) error {
	p := &program{kubeExec: *e, dir: dir}
	switch {
	case !slices.Contains(execVersions, e.Version):
		return fmt.Errorf("exec: apiVersion %.60q: must be %s", e.Version, execVersions[0])
	case e.Command == "":
		return errors.New("exec: a command is required")
	case e.TellCluster:
		return errors.New("exec: provideClusterInfo is not supported: use a program that does not need it")
	}
	canAsk := term.IsTerminal(int(os.Stdin.Fd()))
	switch e.Interactive {
	case "Never":
	case "IfAvailable", "": // optional in v1beta1
		p.interactive = canAsk
	case "Always":
		if !canAsk {
			return errors.New("exec: the program asks for input: a terminal is required")
		}
		p.interactive = true
	default:
		return fmt.Errorf("exec: interactiveMode %.60q: must be Never, IfAvailable or Always", e.Interactive)
	}
	a.program = p
	a.tls.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return p.certificate(), nil }
	return nil
}

// credential returns valid credentials. It runs the program only if there are no valid credentials in the cache.
func (p *program) credential(ctx context.Context) (*credential, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cached != nil && (p.cached.expires.IsZero() || time.Now().Before(p.cached.expires)) {
		return p.cached, nil
	}
	answer, err := p.run(ctx)
	if err == nil {
		p.cached, err = parseCredential(answer, p.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("exec %.200q: %w", p.Command, err)
	}
	return p.cached, nil
}

// certificate returns the cached client certificate, or an empty certificate if the program only returned a token.
func (p *program) certificate() *tls.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cached == nil || p.cached.certificate == nil {
		return &tls.Certificate{}
	}
	return p.cached.certificate
}

// forget discards the cached credentials, so that the next call runs the program. It reports whether there were cached
// credentials.
func (p *program) forget() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	had := p.cached != nil
	p.cached = nil
	return had
}

// run runs the program, and returns its output.
func (p *program) run(ctx context.Context) ([]byte, error) {
	name := p.Command
	if strings.ContainsRune(name, filepath.Separator) {
		name = absolute(p.dir, name)
	}
	told, err := json.Marshal(map[string]any{"apiVersion": p.Version, "kind": execKind, "spec": map[string]bool{"interactive": p.interactive}})
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, name, p.Args...)
	c.Env = os.Environ()
	for _, e := range p.Env {
		c.Env = append(c.Env, e.Name+"="+e.Value)
	}
	c.Env = append(c.Env, "KUBERNETES_EXEC_INFO="+string(told))
	if p.interactive {
		c.Stdin = os.Stdin
	}
	out := &bounded{}
	c.Stdout, c.Stderr = out, os.Stderr
	c.WaitDelay = time.Second // a child of the program can keep the pipe open, although the output is complete
	if err := c.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		if out.over {
			return nil, fmt.Errorf("the program printed more than %d bytes", maxFile)
		}
		if p.InstallHint != "" && errors.Is(err, exec.ErrNotFound) {
			return nil, fmt.Errorf("%w: %.1000s", err, strings.Join(strings.Fields(p.InstallHint), " "))
		}
		return nil, err
	}
	return out.text.Bytes(), nil
}

// A bounded stores the output of a program. Output of more than maxFile bytes is an error.
type bounded struct {
	text bytes.Buffer
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	b.over = b.over || b.text.Len()+len(p) > maxFile
	if b.over {
		return 0, io.ErrShortWrite
	}
	return b.text.Write(p)
}

const execKind = "ExecCredential"

// parseCredential parses the output of an exec plugin. Errors contain no part of the output, which is secret.
func parseCredential(text []byte, version string) (*credential, error) {
	var told struct {
		Version  string          `json:"apiVersion"`
		Kind     string          `json:"kind"`
		Metadata json.RawMessage `json:"metadata"`
		Spec     json.RawMessage `json:"spec"`
		Status   struct {
			Until       *time.Time `json:"expirationTimestamp"`
			Token       string     `json:"token"`
			Certificate string     `json:"clientCertificateData"`
			Key         string     `json:"clientKeyData"`
		} `json:"status"`
	}
	if err := fileio.DecodeStrict(text, &told); err != nil || told.Kind != execKind {
		return nil, errors.New("the program did not print an ExecCredential in JSON")
	}
	if told.Version != version {
		return nil, fmt.Errorf("the program returned an ExecCredential of another version: must be %s", version)
	}
	s := &told.Status
	c := &credential{token: s.Token}
	if s.Until != nil {
		c.expires = *s.Until
	}
	if (s.Certificate == "") != (s.Key == "") || s.Token == "" && s.Certificate == "" {
		return nil, errors.New("the program returned neither a token nor a certificate with its key")
	}
	if s.Certificate != "" {
		pair, err := tls.X509KeyPair([]byte(s.Certificate), []byte(s.Key))
		if err != nil {
			return nil, errors.New("the certificate and the key of the program are not a pair in PEM")
		}
		c.certificate = &pair
	}
	return c, nil
}
