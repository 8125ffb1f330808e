package apiserver

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
)

// A kubeCluster is a cluster in a kubeconfig: how to connect to the API server.
type kubeCluster struct {
	Server        string
	Authority     string `yaml:"certificate-authority"`
	AuthorityData string `yaml:"certificate-authority-data"`
	ServerName    string `yaml:"tls-server-name"`
	Insecure      bool   `yaml:"insecure-skip-tls-verify"`
	Proxy         string `yaml:"proxy-url"`
	NoCompression bool   `yaml:"disable-compression"` // ignored: Go's HTTP client decompresses responses itself
	Extensions    any
}

// readCluster sets the address, the proxy and the trusted certificates from a cluster of the kubeconfig.
func (k *kubeconfig) readCluster(a *access, name string) error {
	at, ok := k.clusters[name]
	if !ok {
		return errors.New("there is none of that name")
	}
	var c kubeCluster
	if err := at.strict(&c); err != nil {
		return err
	}
	a.tls = &tls.Config{ServerName: c.ServerName}
	if err := a.setServer(c.Server); err != nil {
		return err
	}
	if err := a.setProxy(c.Proxy); err != nil {
		return err
	}
	authority, err := content(at.dir, c.Authority, c.AuthorityData)
	if err != nil {
		return fmt.Errorf("certificate-authority: %w", err)
	}
	switch {
	case c.Insecure:
		return errors.New("insecure-skip-tls-verify: an attacker could take the node's token: use certificate-authority")
	case authority != nil: // without it, the certificate authorities of the system are trusted
		return a.trust(authority)
	}
	return nil
}

// setProxy sets the proxy of all calls; "" keeps the proxy of the environment.
func (a *access) setProxy(proxy string) error {
	if proxy == "" {
		return nil
	}
	u, err := url.Parse(proxy)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5" {
		return errors.New("proxy-url: must be http, https or socks5://HOST:PORT") // without the text, which can contain a password
	}
	a.proxy = u
	return nil
}

// decode decodes base64. The error does not contain the text, which can be secret.
func decode(data string) ([]byte, error) {
	text, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return nil, errors.New("must be base64")
	}
	return text, nil
}
