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
	url           string
	tls           *tls.Config
	proxy         *url.URL    // nil: the proxy of the environment
	token         string      // "" if the caller uses other credentials
	tokenFile     string      // read for each call, because the token is renewed
	impersonation http.Header // headers that impersonate another user
}

// accountDir is the directory in which a pod has the files of its service account.
const accountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// maxFile bounds the size of a kubeconfig, token or certificate file, in bytes.
const maxFile = 1 << 20

// accessOf returns the access from the kubeconfig, or without a kubeconfig from the pod's service account.
func accessOf(o Options) (*access, error) {
	if o.Kubeconfig != "" {
		return readKubeconfig(o)
	}
	return podAccess()
}

// podAccess returns the access of this pod from its service account.
func podAccess() (*access, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("not in a pod of a cluster: use --kubeconfig FILE")
	}
	authority, err := fileio.Read(filepath.Join(accountDir, "ca.crt"), maxFile)
	if err != nil {
		return nil, fmt.Errorf("the pod's service account: %w: automountServiceAccountToken is required", err)
	}
	a := &access{url: "https://" + net.JoinHostPort(host, port), tls: &tls.Config{}, tokenFile: filepath.Join(accountDir, "token")}
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

// setServer sets the address of the API server. The address must be https, so that a token is never sent over an unencrypted
// connection.
func (a *access) setServer(server string) error {
	u, err := url.Parse(server)
	switch {
	case err != nil || u.User != nil: // do not print the text, which can contain a password
		return errors.New("server: must be https://HOST:PORT")
	case u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("server %.200q: must be https://HOST:PORT", server)
	}
	a.url = strings.TrimSuffix(u.String(), "/")
	return nil
}

// proxyFor returns the proxy of a call. An error does not contain the address of the proxy, because the address can contain a password.
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

// authorize adds the caller's token and the impersonation headers to a request.
func (a *access) authorize(r *http.Request) error {
	maps.Copy(r.Header, a.impersonation)
	token, err := a.bearer()
	if err != nil || token == "" {
		return err
	}
	if strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return errors.New("the token has characters that no token has")
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return nil
}

// bearer returns the caller's token, or "" if the caller only has a certificate.
func (a *access) bearer() (string, error) {
	if a.tokenFile == "" {
		return a.token, nil
	}
	text, err := fileio.Read(a.tokenFile, maxFile)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// setCertificate sets the client certificate. The certificate is read again for each connection, because its files can be renewed.
func (a *access) setCertificate(read func() (tls.Certificate, error)) error {
	if _, err := read(); err != nil {
		return fmt.Errorf("client certificate: %w", err)
	}
	a.tls.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c, err := read()
		return &c, err
	}
	return nil
}
