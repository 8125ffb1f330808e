package publish

import (
	"cmp"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/candor-project/candor/internal/wholefile"
)

// A kubeconfig is what is read of one. Other fields do not say how a node's agent reaches the API server.
type kubeconfig struct {
	Current  string `yaml:"current-context"`
	Contexts []struct {
		Name    string
		Context struct{ Cluster, User string }
	}
	Clusters []struct {
		Name    string
		Cluster kubeCluster
	}
	Users []struct {
		Name string
		User kubeUser
	}
}

type kubeCluster struct {
	Server        string
	Authority     string `yaml:"certificate-authority"`
	AuthorityData string `yaml:"certificate-authority-data"`
	ServerName    string `yaml:"tls-server-name"`
	Insecure      bool   `yaml:"insecure-skip-tls-verify"`
}

type kubeUser struct {
	Token           string
	TokenFile       string `yaml:"tokenFile"`
	Certificate     string `yaml:"client-certificate"`
	CertificateData string `yaml:"client-certificate-data"`
	Key             string `yaml:"client-key"`
	KeyData         string `yaml:"client-key-data"`
}

const maxKubeconfig = 1 << 20 // bytes

// readKubeconfig reads the current context of a file. Paths in it are those from its directory.
func readKubeconfig(file string) (*access, error) {
	text, err := wholefile.Read(file, maxKubeconfig)
	if err != nil {
		return nil, err
	}
	return parseKubeconfig(text, filepath.Dir(file))
}

func parseKubeconfig(text []byte, dir string) (*access, error) {
	var k kubeconfig
	if err := yaml.Unmarshal(text, &k); err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "\n", " "))
	}
	c, u, err := k.current()
	if err != nil {
		return nil, err
	}
	a := &access{tls: &tls.Config{ServerName: c.ServerName}, token: u.Token}
	if err := a.reach(c.Server); err != nil {
		return nil, err
	}
	if c.Insecure {
		return nil, errors.New("insecure-skip-tls-verify: anybody could take the node's token: want certificate-authority")
	}
	authority, err := content(dir, c.Authority, c.AuthorityData)
	if err != nil {
		return nil, fmt.Errorf("certificate-authority: %w", err)
	}
	if authority != nil { // else those whom the machine trusts
		if err := a.trust(authority); err != nil {
			return nil, err
		}
	}
	return a, a.login(u, dir)
}

// current are the cluster and the user of the current context.
func (k *kubeconfig) current() (c *kubeCluster, u *kubeUser, err error) {
	for _, context := range k.Contexts {
		if context.Name != k.Current {
			continue
		}
		for i := range k.Clusters {
			if k.Clusters[i].Name == context.Context.Cluster {
				c = &k.Clusters[i].Cluster
			}
		}
		for i := range k.Users {
			if k.Users[i].Name == context.Context.User {
				u = &k.Users[i].User
			}
		}
	}
	if c == nil || u == nil {
		return nil, nil, fmt.Errorf("no cluster and user for the current context %.60q", k.Current)
	}
	return c, u, nil
}

// login is how the user proves who it is.
func (a *access) login(u *kubeUser, dir string) error {
	if u.TokenFile != "" {
		a.tokenFile = from(dir, u.TokenFile)
	}
	if cmp.Or(u.Certificate, u.CertificateData) != "" {
		return a.certify(func() (tls.Certificate, error) {
			certificate, err := content(dir, u.Certificate, u.CertificateData)
			if err != nil {
				return tls.Certificate{}, err
			}
			key, err := content(dir, cmp.Or(u.Key, u.Certificate), u.KeyData) // kubelet has both in one file
			if err != nil {
				return tls.Certificate{}, err
			}
			return tls.X509KeyPair(certificate, key)
		})
	}
	if cmp.Or(u.Token, u.TokenFile) == "" {
		return errors.New("the user has no token, tokenFile or client-certificate: other ways are for people")
	}
	return nil
}

// content is what stands in a file or, as base64, in the kubeconfig itself; nil for neither.
func content(dir, file, data string) ([]byte, error) {
	switch {
	case data != "":
		return base64.StdEncoding.DecodeString(data)
	case file != "":
		return wholefile.Read(from(dir, file), maxKubeconfig)
	default:
		return nil, nil
	}
}

// from is a path that is meant from a directory.
func from(dir, file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(dir, file)
}
