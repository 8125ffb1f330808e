package oci

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"regexp"
	"strings"
)

// Name is what Candor calls the container: the first 12 digits of an engine's id, as engines show
// it themselves, else the id. Ids that people choose are theirs within one namespace of containerd only: there the
// namespace comes first, with two dashes, which no id of containerd's has.
func (c *Call) Name() string {
	if isDigits(c.ID) {
		return c.ID[:12]
	}
	namespace := c.namespace()
	if namespace == "" {
		return c.ID
	}
	return short(namespace + "--" + c.ID)
}

func isDigits(id string) bool {
	isDigit := func(r rune) bool { return r >= '0' && r <= '9' || r >= 'a' && r <= 'f' }
	return len(id) == 64 && strings.IndexFunc(id, func(r rune) bool { return !isDigit(r) }) < 0
}

// usualNamespace is what containerd's clients use unless they are told another.
const usualNamespace = "default"

// goodNamespace is what containerd takes for a name.
var goodNamespace = regexp.MustCompile(`^[A-Za-z0-9]+([._-][A-Za-z0-9]+)*$`)

// namespace is containerd's of the container, by the root that its shim gives a runtime, such as
// /run/containerd/runc/NAMESPACE; "" for the usual one, and without containerd.
func (c *Call) namespace() string {
	above, last := filepath.Split(filepath.Clean(c.Root))
	if filepath.Base(above) != "runc" || last == usualNamespace || !goodNamespace.MatchString(last) {
		return ""
	}
	return last
}

// longestName is what a group may be called.
const longestName = 64

// short is a name that a group can have, another one for each.
func short(name string) string {
	if len(name) <= longestName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:longestName-9] + "-" + hex.EncodeToString(sum[:4])
}
