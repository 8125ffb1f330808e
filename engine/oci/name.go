package oci

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/candor-project/candor/internal/nodeproc"
	"github.com/candor-project/candor/internal/ocibundle"
	"github.com/candor-project/candor/internal/procfs"
)

// Name returns Candor's name of the container. For an ID that an engine has generated (64 hex digits), it is the first 12
// digits, as engines display it. An ID that a user has chosen is unique only within a namespace of containerd. Therefore Name
// puts the namespace and two dashes before such an ID, except in the default namespace or without containerd. No ID of
// containerd contains two dashes.
func (c *Call) Name() string {
	if isDigits(c.ID) {
		return c.ID[:12]
	}
	namespace := c.namespace()
	if namespace == "" {
		return c.ID
	}
	return shorten(namespace + "--" + c.ID)
}

func isDigits(id string) bool {
	isDigit := func(r rune) bool { return r >= '0' && r <= '9' || r >= 'a' && r <= 'f' }
	return len(id) == 64 && strings.IndexFunc(id, func(r rune) bool { return !isDigit(r) }) < 0
}

// usualNamespace is the default namespace of containerd's clients.
const usualNamespace = "default"

// goodNamespace matches the names of containerd's namespaces.
var goodNamespace = regexp.MustCompile(`^[A-Za-z0-9]+([._-][A-Za-z0-9]+)*$`)

// namespace returns the container's namespace in containerd, from the root directory that its shim passes to a runtime, such as
// /run/containerd/runc/NAMESPACE. It is "" for the default namespace, and without containerd.
func (c *Call) namespace() string {
	above, last := filepath.Split(filepath.Clean(c.Root))
	if filepath.Base(above) != "runc" || last == usualNamespace || !goodNamespace.MatchString(last) {
		return ""
	}
	return last
}

// longestName bounds the name of a cgroup.
const longestName = 64

// shorten shortens a name to a valid name of a cgroup. A hash of the whole name keeps it unique.
func shorten(name string) string {
	if len(name) <= longestName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:longestName-9] + "-" + hex.EncodeToString(sum[:4])
}

// engineName returns the name of the container in its engine: its name in a pod, or the name in docker ps, podman ps or nerdctl ps.
// It returns "" if the engine gives the runtime no valid name, or the same name as Candor.
func (c *Call) engineName(cfg *config) string {
	is := ocibundle.Config{Annotations: cfg.annotations}
	if cfg.all.get("mounts", &is.Mounts) != nil {
		return "" // apply refuses such a configuration
	}
	name := is.Name("/")
	if name == "" {
		name = conmonName(os.Getppid())
	}
	if name == c.Name() || len(name) > maxEngineName || !engineNames.MatchString(name) {
		return ""
	}
	return name
}

// displayName returns the name of the container in its engine, or the name in Candor.
func (c *Call) displayName(cfg *config) string { return cmp.Or(c.engineName(cfg), c.Name()) }

const maxEngineName = 512 // bytes; the parts of a name in Kubernetes have up to 253

// engineNames matches the names that engines accept (RestrictedNamePattern of Docker), and namespace/pod/container.
var engineNames = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*(/[a-zA-Z0-9][a-zA-Z0-9_.-]*/[a-zA-Z0-9][a-zA-Z0-9_.-]*)?$`)

// conmonName returns the name of the container that a conmon process starts. It returns "" for another process.
func conmonName(pid int) string {
	dir := fmt.Sprintf("/proc/%d", pid)
	if program, err := nodeproc.Program(dir); err != nil || program != "conmon" {
		return ""
	}
	words, _ := procfs.CommandLine(dir) // an empty list after an error
	return ocibundle.ConmonName(words)
}
