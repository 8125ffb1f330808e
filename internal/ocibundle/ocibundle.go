// Package ocibundle reads facts about a container from the config.json of its bundle (opencontainers/runtime-spec), as container
// engines write it.
package ocibundle

import (
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/candor-project/candor/internal/fileio"
)

// A Config has the parts of a config.json that this package uses.
type Config struct {
	Annotations map[string]string `json:"annotations"`
	Mounts      []Mount           `json:"mounts"`
}

// A Mount is a mount of a container.
type Mount struct {
	Destination string `json:"destination"`
	Source      string `json:"source"`
}

// Parse parses a config.json.
func Parse(text []byte) (c Config, err error) { return c, json.Unmarshal(text, &c) }

// IsSandbox reports whether the container only holds the namespaces of a Kubernetes pod.
func (c *Config) IsSandbox() bool {
	return c.Annotations["io.kubernetes.cri.container-type"] == "sandbox" || // containerd
		c.Annotations["io.kubernetes.cri-o.ContainerType"] == "sandbox"
}

// Name returns the name of the container in its engine, or "". For a container of a pod, the name is namespace/pod/container.
// root is the root directory in which the engine's paths are valid, such as /proc/PID/root of an engine's process. Podman does
// not write the name to the bundle; see ConmonName.
func (c *Config) Name(root string) string {
	for _, keys := range [][3]string{
		{"io.kubernetes.cri.sandbox-namespace", "io.kubernetes.cri.sandbox-name", "io.kubernetes.cri.container-name"}, // containerd
		{"io.kubernetes.pod.namespace", "io.kubernetes.pod.name", "io.kubernetes.container.name"},                     // CRI-O
	} {
		if name := c.Annotations[keys[2]]; name != "" {
			return c.Annotations[keys[0]] + "/" + c.Annotations[keys[1]] + "/" + name
		}
	}
	if name := c.Annotations["nerdctl/name"]; name != "" {
		return name
	}
	for _, m := range c.Mounts {
		if m.Destination == "/etc/hostname" { // Docker stores this file beside the container's config.v2.json
			return dockerName(root, filepath.Join(filepath.Dir(m.Source), "config.v2.json"))
		}
	}
	return ""
}

const maxDockerConfig = 4 << 20 // bytes

// dockerName returns the container name in a config.v2.json of Docker, or "".
func dockerName(root, file string) string {
	text, err := fileio.ReadInRoot(root, file, maxDockerConfig)
	if err != nil {
		return ""
	}
	var is struct{ Name string }
	if json.Unmarshal(text, &is) != nil {
		return ""
	}
	return strings.TrimPrefix(is.Name, "/")
}

// ConmonName returns the name of the container in the command line of its conmon, or "".
func ConmonName(words []string) string {
	for i, word := range words {
		if word == "-n" && i+1 < len(words) {
			return words[i+1]
		}
	}
	return ""
}
