package apiserver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/candor-project/candor/internal/fileio"
)

// An access holds the address of an API server and the credentials of the caller.
type access struct {
	url       string
	namespace string
	tls       *tls.Config
	proxy     *url.URL // nil: from the environment
	token     string   // "": another way
	tokenFile string   // read for each call: it is renewed
	program   *program // that logs in; nil: none
	as        http.Header
}

// account is the directory of a pod's service account.
const account = "/var/run/secrets/kubernetes.io/serviceaccount"

// maxFile bounds the size of a file, in bytes.
const maxFile = 1 << 20

// accessOf reads a kubeconfig. Without a kubeconfig it uses the pod's service account.
func accessOf(o Options) (*access, error) {
	if o.Kubeconfig != "" {
		return readKubeconfig(o)
	}
	if o.Context != "" {
		return nil, fmt.Errorf("context %.60q: no kubeconfig: use --kubeconfig FILE", o.Context)
	}
	return podAccess()
}

// podAccess is that of a pod, by its service account.
func podAccess() (*access, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("not in a pod of a cluster: use --kubeconfig FILE")
	}
	authority, err := fileio.Read(filepath.Join(account, "ca.crt"), maxFile)
	if err != nil {
		return nil, fmt.Errorf("the pod's service account: %w: automountServiceAccountToken is required", err)
	}
	a := &access{url: "https://" + net.JoinHostPort(host, port), tls: &tls.Config{}, tokenFile: filepath.Join(account, "token"), namespace: "default"}
	if name, err := fileio.Read(filepath.Join(account, "namespace"), maxFile); err == nil {
		a.namespace = strings.TrimSpace(string(name))
	}
	return a, a.trust(authority)
}

// trust sets the trusted certificate authorities.
func (a *access) trust(authority []byte) error {
	a.tls.RootCAs = x509.NewCertPool()
	if !a.tls.RootCAs.AppendCertsFromPEM(authority) {
		return errors.New("no certificate in the certificate authority: must be PEM")
	}
	return nil
}

// reach sets the address of the API server. A token is never sent over an unencrypted connection.
func (a *access) reach(server string) error {
	u, err := url.Parse(server)
	switch {
	case err != nil || u.User != nil: // the text may hold a password
		return errors.New("server: must be https://HOST:PORT")
	case u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("server %.200q: must be https://HOST:PORT", server)
	}
	a.url = strings.TrimSuffix(u.String(), "/")
	return nil
}

// proxyFor returns the proxy of a call. The address in the environment or the kubeconfig can contain a password.
func (a *access) proxyFor(r *http.Request) (*url.URL, error) {
	if a.proxy != nil {
		return a.proxy, nil
	}
	proxy, err := http.ProxyFromEnvironment(r)
	if err != nil {
		return nil, errors.New("the proxy of the environment (HTTPS_PROXY) is no URL")
	}
	return proxy, nil
}

// authorize adds the caller's credentials.
func (a *access) authorize(r *http.Request) error {
	maps.Copy(r.Header, a.as)
	token, err := a.bearer(r)
	if err != nil || token == "" {
		return err
	}
	if strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return errors.New("the token has characters that no token has")
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return nil
}

// bearer is the token, "" where the caller shows a certificate.
func (a *access) bearer(r *http.Request) (string, error) {
	switch {
	case a.program != nil:
		c, err := a.program.credential(r.Context())
		if err != nil {
			return "", err
		}
		return c.token, nil
	case a.tokenFile == "":
		return a.token, nil
	}
	text, err := fileio.Read(a.tokenFile, maxFile)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// forget invalidates the credentials of an exec plugin, and reports whether there is one.
func (a *access) forget() bool { return a.program != nil && a.program.forget() }

// certify sets the client certificate. The files are read for each connection, since they are renewed.
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
