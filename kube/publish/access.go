package publish

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// An access is how the API server is reached, and by whom. client-go can do this too, for every login that people have; an agent
// needs three of them, and would pay for the rest with 3 MB on each node.
type access struct {
	url       string
	tls       *tls.Config
	token     string // "": another way
	tokenFile string // read for each call: it is renewed
}

// account is where a pod finds what it needs to reach its API server.
const account = "/var/run/secrets/kubernetes.io/serviceaccount"

// accessOf reads a kubeconfig; without one it is the pod's own access.
func accessOf(kubeconfig string) (*access, error) {
	if kubeconfig != "" {
		a, err := readKubeconfig(kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig %s: %w", kubeconfig, err)
		}
		return a, nil
	}
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("this is no pod of a cluster: want --kubeconfig FILE")
	}
	authority, err := os.ReadFile(filepath.Join(account, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("the pod's service account: %w: want automountServiceAccountToken", err)
	}
	a := &access{url: "https://" + net.JoinHostPort(host, port), tls: &tls.Config{}, tokenFile: filepath.Join(account, "token")}
	return a, a.trust(authority)
}

// trust sets whose certificates are believed.
func (a *access) trust(authority []byte) error {
	a.tls.RootCAs = x509.NewCertPool()
	if !a.tls.RootCAs.AppendCertsFromPEM(authority) {
		return errors.New("no certificate in the certificate authority's text: want PEM")
	}
	return nil
}

// reach sets where the API server is. A token is not sent over a line that others can read.
func (a *access) reach(server string) error {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return fmt.Errorf("server %.200q: want https://HOST:PORT", server)
	}
	a.url = strings.TrimSuffix(u.String(), "/")
	return nil
}

// authorize adds who it is that calls.
func (a *access) authorize(r *http.Request) error {
	token := a.token
	if a.tokenFile != "" {
		text, err := os.ReadFile(a.tokenFile)
		if err != nil {
			return fmt.Errorf("token: %w", err)
		}
		token = strings.TrimSpace(string(text))
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

// certify proves who calls by a certificate. Files are read for each connection: they are renewed.
func (a *access) certify(read func() (tls.Certificate, error)) error {
	if _, err := read(); err != nil {
		return fmt.Errorf("client certificate: %w", err)
	}
	a.tls.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c, err := read()
		return &c, err
	}
	return nil
}
