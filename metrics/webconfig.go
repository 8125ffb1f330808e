package metrics

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v3"
	"golang.org/x/time/rate"

	"github.com/candor-project/candor/internal/fileio"
)

// A WebConfig is a web configuration file of Prometheus exporters (github.com/prometheus/exporter-toolkit): TLS, client
// certificates, basic auth, headers and a rate limit. nil means no configuration. The toolkit parses the TLS part. The toolkit's own
// handler is not used. It would ask the kubelet's health checks for a password, read the file at each request, and refuse all requests
// while the file has an error.
type WebConfig struct {
	tls        *tls.Config // nil: plain HTTP
	clientCert bool        // a client needs a certificate
	headers    map[string]string
	limiter    *rate.Limiter // nil: no limit
	auth       *basicAuth    // nil: no password
}

const maxWebFile = 1 << 20 // bytes, also of a certificate or key file

// LoadWebConfig reads a web configuration file and the files that it names.
func LoadWebConfig(file string) (*WebConfig, error) {
	c, err := loadWebConfig(file)
	if err != nil {
		return nil, fmt.Errorf("cannot use the web configuration %s: %s", file, strings.Join(strings.Fields(err.Error()), " "))
	}
	return c, nil
}

func loadWebConfig(file string) (*WebConfig, error) {
	parsed, err := parseWebConfig(file)
	if err != nil {
		return nil, err
	}
	c := &WebConfig{headers: parsed.HTTPConfig.Header}
	if limit := parsed.RateLimiterConfig; limit.Interval != 0 {
		c.limiter = rate.NewLimiter(rate.Every(limit.Interval), limit.Burst)
	}
	if c.auth, err = newBasicAuth(parsed.Users); err != nil {
		return nil, err
	}
	if err := c.setTLS(&parsed.TLSConfig); err != nil {
		return nil, err
	}
	return c, web.Validate(file) // also checks the headers, and refuses unknown fields
}

// parseWebConfig reads a file with the defaults of the toolkit, and paths relative to the file.
func parseWebConfig(file string) (*web.Config, error) {
	text, err := fileio.Read(file, maxWebFile)
	if err != nil {
		return nil, err
	}
	c := &web.Config{TLSConfig: web.TLSConfig{MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13}}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	c.TLSConfig.SetDirectory(filepath.Dir(file))
	for _, name := range []string{c.TLSConfig.TLSCertPath, c.TLSConfig.TLSKeyPath, c.TLSConfig.ClientCAs} {
		if name == "" {
			continue
		}
		if _, err := fileio.Read(name, maxWebFile); err != nil { // a pipe would block the toolkit forever
			return nil, err
		}
	}
	return c, nil
}

// setTLS sets the TLS configuration. The server checks client certificates for each page, not in the handshake,
// because the kubelet, which has none, checks the health on the same port.
func (c *WebConfig) setTLS(from *web.TLSConfig) (err error) {
	if !from.IsEnabled() {
		if from.ClientAllowedSans != nil || from.CipherSuites != nil || from.CurvePreferences != nil {
			return errors.New("tls_server_config has no certificate; set cert_file and key_file")
		}
		return nil
	}
	if c.tls, err = web.ConfigToTLSConfig(from); err != nil {
		return err
	}
	switch c.tls.ClientAuth {
	case tls.RequireAndVerifyClientCert:
		c.clientCert, c.tls.ClientAuth = true, tls.VerifyClientCertIfGiven
	case tls.RequireAnyClientCert:
		c.clientCert, c.tls.ClientAuth = true, tls.RequestClientCert
	}
	if c.tls.ClientCAs != nil && c.tls.ClientCAs.Equal(x509.NewCertPool()) {
		return errors.New("client_ca_file or client_ca has no PEM certificate")
	}
	if from.ClientAllowedSans == nil {
		return nil
	}
	if !c.clientCert {
		return errors.New("client_allowed_sans has no effect; set client_auth_type: RequireAndVerifyClientCert")
	}
	//nolint:gosec // the allowed SANs do not change while a session can be resumed: the configuration is read once
	c.tls.VerifyPeerCertificate = func(raw [][]byte, chains [][]*x509.Certificate) error {
		if len(raw) == 0 {
			return nil // crypto/tls calls it for clients without a certificate too
		}
		return from.VerifyPeerCertificate(raw, chains)
	}
	return nil
}

func (c *WebConfig) hasTLS() bool { return c != nil && c.tls != nil }

// guard returns a handler that calls next only if the rate limit, the client certificate and the password allow the
// request.
func (c *WebConfig) guard(next http.Handler) http.Handler {
	if c == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case c.limiter != nil && !c.limiter.Allow():
			http.Error(w, "too many requests: rate_limit of the web configuration", http.StatusTooManyRequests)
		case c.clientCert && len(r.TLS.PeerCertificates) == 0:
			http.Error(w, "this page needs a client certificate", http.StatusForbidden)
		case c.auth != nil:
			c.auth.guard(w, r, next)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// addHeaders returns a handler that adds the configured headers to each answer.
func (c *WebConfig) addHeaders(next http.Handler) http.Handler {
	if c == nil || len(c.headers) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range c.headers {
			w.Header().Set(name, value)
		}
		next.ServeHTTP(w, r)
	})
}
