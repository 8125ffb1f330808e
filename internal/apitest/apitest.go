// Package apitest replaces an API server in tests: a TLS server, kubeconfigs for it, and the identity of its callers.
package apitest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Serve starts a TLS server. The server calls the function answer for each request, and asks the client for a certificate. The
// server stops when the test ends.
func Serve(t testing.TB, answer http.HandlerFunc) *httptest.Server {
	s := httptest.NewUnstartedServer(answer)
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // no log of failed handshakes
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// Authority returns the certificate of a server in PEM.
func Authority(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// Trust returns the field certificate-authority-data, with the certificate of a server, for the cluster of a kubeconfig.
func Trust(s *httptest.Server) string {
	return "certificate-authority-data: " + base64.StdEncoding.EncodeToString(Authority(s))
}

// Kubeconfig returns a kubeconfig for a server. cluster and user are fields in YAML, separated by commas.
func Kubeconfig(server, cluster, user string) string {
	return fmt.Sprintf("current-context: c\ncontexts: [{name: other}, {name: c, context: {cluster: k, user: u}}]\n"+
		"clusters: [{name: k, cluster: {server: %q, %s}}]\nusers: [{name: u, user: {%s}}]\n", server, cluster, user)
}

// Write writes a file in a directory and returns its path.
func Write(t testing.TB, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// KeyPair creates a certificate for a name and returns the certificate and its key in PEM.
func KeyPair(t testing.TB, name string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	template.Subject.CommonName = name
	raw, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, of []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: of}))
	}
	return block("CERTIFICATE", raw), block("EC PRIVATE KEY", der)
}

// Caller returns the identity of a request: the name in the client certificate or, without a certificate, the Authorization header.
func Caller(r *http.Request) string {
	if len(r.TLS.PeerCertificates) > 0 {
		return r.TLS.PeerCertificates[0].Subject.CommonName
	}
	return r.Header.Get("Authorization")
}

// Objects returns a server that answers each path with its object as JSON, and other paths with the API server's "not found".
func Objects(t testing.TB, at map[string]any) *httptest.Server {
	return Serve(t, func(w http.ResponseWriter, r *http.Request) {
		object, isFound := at[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !isFound {
			w.WriteHeader(http.StatusNotFound)
			object = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": r.URL.Path + " not found"}
		}
		if err := json.NewEncoder(w).Encode(object); err != nil {
			t.Error(err)
		}
	})
}

// List returns the items as a Kubernetes List.
func List[T any](items ...T) map[string]any {
	return map[string]any{"metadata": map[string]any{}, "items": append([]T{}, items...)}
}
