// Package ocibundle reads facts about a container from the config.json of its bundle (opencontainers/runtime-spec), as container
// engines write it.
package ocibundle

import (
	"encoding/json"
	"path/filepath"
	"regexp"
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
		// Docker stores this file beside the container's config.v2.json, in a directory with the ID of the container. A user can mount
		// another file.
		if dir := filepath.Dir(m.Source); m.Destination == "/etc/hostname" && containerID.MatchString(filepath.Base(dir)) {
			return dockerName(root, dir)
		}
	}
	return ""
}

const maxDockerConfig = 4 << 20 // bytes

var containerID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// dockerName returns the name in the config.v2.json of a container of Docker, or "". dir is the directory of the container.
func dockerName(root, dir string) string {
	text, err := fileio.ReadInRoot(root, filepath.Join(dir, "config.v2.json"), maxDockerConfig)
	if err != nil {
		return ""
	}
	var is struct{ ID, Name string }
	if json.Unmarshal(text, &is) != nil || is.ID != filepath.Base(dir) {
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
