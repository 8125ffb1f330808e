package kube

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/candor-project/candor/spec"
)

// Domain is the domain of all annotation names.
const Domain = "candor.dev"

// PodKey returns the name of the annotation that sets a setting for all containers of a pod.
func PodKey(setting string) string { return Domain + "/" + setting }

// ContainerKey returns the name of the annotation that sets a setting for a single container.
func ContainerKey(setting, container string) string {
	return setting + "." + Domain + "/" + container
}

// Annotations are the parsed annotations of a pod.
type Annotations struct {
	Pod        Settings
	Containers map[string]Settings // by the container's name
}

// maxSize bounds the total size of a pod's Candor annotations, names and values, in bytes. The API server bounds all annotations of an
// object to 256 KiB, but a client that calls the container runtime directly has no bound. Candor parses the annotations again for each
// container of the pod.
const maxSize = 64 << 10

// Parse parses a pod's annotations. It ignores annotations of other domains and the scheduler's hint. An unknown setting, an invalid value,
// or more than 64 KiB of Candor annotations is an error. For an unknown setting or an invalid value, the error names the annotation. The
// error has a bounded length, and is always the same for the same annotations.
func Parse(annotations map[string]string) (Annotations, error) {
	var a Annotations
	var keys []string
	size := 0
	for key, value := range annotations {
		if IsSetting(key) {
			keys = append(keys, key)
			size += len(key) + len(value)
		}
	}
	if size > maxSize {
		return a, fmt.Errorf("%d annotations of %s have %d bytes: the maximum is %d", len(keys), Domain, size, maxSize)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if err := a.add(key, annotations[key]); err != nil {
			return Annotations{}, fmt.Errorf("annotation %s: %w", printable(key), err)
		}
	}
	return a, nil
}

// IsSetting reports whether an annotation's name has the form of a setting: candor.dev/NAME or NAME.candor.dev/CONTAINER.
func IsSetting(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return key != HintKey && (prefix == Domain || strings.HasSuffix(prefix, "."+Domain))
}

// printable returns a key that is safe to print on a line: quoted if it has special characters, and cut to a maximum length.
func printable(key string) string {
	if quoted := strconv.Quote(key); quoted != `"`+key+`"` {
		key = quoted
	}
	return shorten(key)
}

func (a *Annotations) add(key, value string) error {
	prefix, name, _ := strings.Cut(key, "/")
	setting, forOne := strings.CutSuffix(prefix, "."+Domain)
	switch {
	case !forOne:
		return a.Pod.Set(name, value)
	case name == "":
		return fmt.Errorf("no container name: must be %s", printable(ContainerKey(setting, "NAME")))
	}
	s := a.Containers[name]
	if err := s.Set(setting, value); err != nil {
		return err
	}
	if a.Containers == nil {
		a.Containers = map[string]Settings{}
	}
	a.Containers[name] = s
	return nil
}

// For returns the settings of a container. Annotations for the container take precedence over annotations for the whole pod.
func (a *Annotations) For(container string) Settings {
	return a.Containers[container].Over(a.Pod)
}

// Resolve merges the settings of a container from all sources. In order of precedence, the sources are the annotations for the container,
// the annotations for the whole pod, the namespace's settings and the node's defaults. The level of helper accounting is the highest of
// the annotations, the namespace and the node: a pod can choose a higher level than its node, never a lower level.
func Resolve(a Annotations, container string, namespace, node Settings) Settings {
	own := a.For(container)
	s := own.Over(namespace).Over(node)
	s.Helpers = highest(own.Helpers, namespace.Helpers, node.Helpers)
	return s
}

// highest returns the highest of the levels that are not nil, or nil if all are nil.
func highest(levels ...*spec.Helpers) (most *spec.Helpers) {
	for _, level := range levels {
		if level != nil && (most == nil || *level > *most) {
			most = level
		}
	}
	return most
}
