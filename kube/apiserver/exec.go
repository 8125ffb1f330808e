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

// A kubeExec is a program that logs in for the user.
type kubeExec struct {
	Version     string `yaml:"apiVersion"`
	Command     string
	Args        []string
	Env         []struct{ Name, Value string }
	InstallHint string `yaml:"installHint"`
	Interactive string `yaml:"interactiveMode"`
	TellCluster bool   `yaml:"provideClusterInfo"`
}

// execVersions are the supported versions of the protocol of exec plugins.
var execVersions = []string{"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"}

// A program is an exec plugin for credentials. It runs once for the validity of its credentials.
type program struct {
	kubeExec
	dir         string
	interactive bool

	mu  sync.Mutex
	has *credential // nil: none, or no more
}

// A credential is the result of an exec plugin.
type credential struct {
	token       string
	certificate *tls.Certificate
	until       time.Time // zero: for good
}

// logIn uses an exec plugin for the credentials.
func (a *access) logIn(e *kubeExec, dir string) error {
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
	case "IfAvailable", "": // v1beta1 may leave it out
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

// credential returns the valid credentials of the program, and runs it if necessary.
func (p *program) credential(ctx context.Context) (*credential, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.has != nil && (p.has.until.IsZero() || time.Now().Before(p.has.until)) {
		return p.has, nil
	}
	answer, err := p.run(ctx)
	if err == nil {
		p.has, err = parseCredential(answer, p.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("exec %.200q: %w", p.Command, err)
	}
	return p.has, nil
}

// certificate returns the client certificate of the program; empty if it returned a token.
func (p *program) certificate() *tls.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.has == nil || p.has.certificate == nil {
		return &tls.Certificate{}
	}
	return p.has.certificate
}

// forget makes the next call run the program again. It reports whether there were credentials.
func (p *program) forget() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	had := p.has != nil
	p.has = nil
	return had
}

// run runs the program.
func (p *program) run(ctx context.Context) ([]byte, error) {
	name := p.Command
	if strings.ContainsRune(name, filepath.Separator) {
		name = from(p.dir, name)
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
	c.WaitDelay = time.Second // a remaining child can hold its output open: the output so far is complete
	if err := c.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		if out.over {
			return nil, fmt.Errorf("it has told more than %d bytes", maxFile)
		}
		if p.InstallHint != "" && errors.Is(err, exec.ErrNotFound) {
			return nil, fmt.Errorf("%w: %.1000s", err, strings.Join(strings.Fields(p.InstallHint), " "))
		}
		return nil, err
	}
	return out.text.Bytes(), nil
}

// bounded stores the output of a program, up to a limit.
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

// parseCredential parses the output of an exec plugin. No error contains a part of it.
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
		return nil, errors.New("it has not told an ExecCredential in JSON")
	}
	if told.Version != version {
		return nil, fmt.Errorf("the program returned an ExecCredential of another version: must be %s", version)
	}
	s := &told.Status
	c := &credential{token: s.Token}
	if s.Until != nil {
		c.until = *s.Until
	}
	if (s.Certificate == "") != (s.Key == "") || s.Token == "" && s.Certificate == "" {
		return nil, errors.New("it has told no token, and no certificate with its key")
	}
	if s.Certificate != "" {
		pair, err := tls.X509KeyPair([]byte(s.Certificate), []byte(s.Key))
		if err != nil {
			return nil, errors.New("its certificate and key are not a pair in PEM")
		}
		c.certificate = &pair
	}
	return c, nil
}
