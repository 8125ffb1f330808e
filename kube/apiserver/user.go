package apiserver

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// A kubeUser is a user in a kubeconfig: the credentials of the caller.
type kubeUser struct {
	Token           string
	TokenFile       string `yaml:"tokenFile"`
	Certificate     string `yaml:"client-certificate"`
	CertificateData string `yaml:"client-certificate-data"`
	Key             string `yaml:"client-key"`
	KeyData         string `yaml:"client-key-data"`
	Exec            any
	As              string
	AsUID           string              `yaml:"as-uid"`
	AsGroups        []string            `yaml:"as-groups"`
	AsExtra         map[string][]string `yaml:"as-user-extra"`
	Username        string
	Password        string
	Provider        any `yaml:"auth-provider"`
	Extensions      any
}

// readUser sets the credentials from a user of the kubeconfig.
func (k *kubeconfig) readUser(a *access, name string) error {
	at, ok := k.users[name]
	if !ok {
		return errors.New("there is none of that name")
	}
	var u kubeUser
	if err := at.strict(&u); err != nil {
		return err
	}
	if u.TokenFile != "" {
		a.tokenFile = absolute(at.dir, u.TokenFile)
	}
	a.token = u.Token
	if err := a.impersonate(&u); err != nil {
		return err
	}
	isCertain := cmp.Or(u.Certificate, u.CertificateData) != ""
	switch {
	case u.Provider != nil || cmp.Or(u.Username, u.Password) != "":
		return errors.New("auth-provider, username and password: API servers no longer accept them: use a token or a client-certificate")
	case u.Exec != nil:
		return errors.New("exec: an interactive login is not possible here: use a token, tokenFile or client-certificate")
	case isCertain:
		return a.setCertificate(func() (tls.Certificate, error) { return u.keyPair(at.dir) })
	case cmp.Or(u.Token, u.TokenFile) == "":
		return errors.New("a token, tokenFile or client-certificate is required")
	}
	return nil
}

// keyPair reads the client certificate and its key.
func (u *kubeUser) keyPair(dir string) (tls.Certificate, error) {
	certificate, err := content(dir, u.Certificate, u.CertificateData)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := content(dir, cmp.Or(u.Key, u.Certificate), u.KeyData) // the kubelet's certificate file also contains the key
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certificate, key)
}

// impersonate sets the headers with which the API server runs the calls as another user.
func (a *access) impersonate(u *kubeUser) error {
	if u.As == "" {
		if u.AsUID != "" || len(u.AsGroups) > 0 || len(u.AsExtra) > 0 {
			return errors.New("as-uid, as-groups and as-user-extra: they require as")
		}
		return nil
	}
	a.impersonation = http.Header{"Impersonate-User": {u.As}}
	if u.AsUID != "" {
		a.impersonation.Set("Impersonate-Uid", u.AsUID)
	}
	if len(u.AsGroups) > 0 {
		a.impersonation["Impersonate-Group"] = u.AsGroups
	}
	for key, values := range u.AsExtra {
		// The API server unescapes the key, and ignores its case.
		a.impersonation["Impersonate-Extra-"+strings.ReplaceAll(url.QueryEscape(strings.ToLower(key)), "+", "%20")] = values
	}
	for name, values := range a.impersonation {
		for _, value := range values {
			if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c == 0x7f }) {
				return fmt.Errorf("%s: a value has characters that no name has", strings.ToLower(name))
			}
		}
	}
	return nil
}
