package kube

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Domain is the domain of all annotation names.
const Domain = "candor.dev"

// PodKey returns the annotation of a setting for all containers of a pod.
func PodKey(setting string) string { return Domain + "/" + setting }

// ContainerKey returns the annotation of a setting for a single container.
func ContainerKey(setting, container string) string {
	return setting + "." + Domain + "/" + container
}

// Annotations are the parsed annotations of a pod.
type Annotations struct {
	Pod        Settings
	Containers map[string]Settings // by the container's name
}

// maxSize bounds Candor's annotations of a pod, in bytes of names and values. Kubernetes allows all annotations of an object
// 256 KiB; a client of the runtime has no such bound, and each container of the pod parses them again.
const maxSize = 64 << 10

// Parse parses a pod's annotations. It ignores other domains and the scheduler's hint. An annotation of Candor with an
// unknown name or an invalid value is an error of bounded length that names it, and so are more than 64 KiB of them.
// The same annotations always give the same error.
func Parse(annotations map[string]string) (Annotations, error) {
	var a Annotations
	var keys []string
	size := 0
	for key, value := range annotations {
		if isOurs(key) {
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
			return Annotations{}, fmt.Errorf("annotation %s: %w", plain(key), err)
		}
	}
	return a, nil
}

// isOurs reports whether an annotation is a setting of Candor: candor.dev/NAME or NAME.candor.dev/CONTAINER.
func isOurs(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return key != HintKey && (prefix == Domain || strings.HasSuffix(prefix, "."+Domain))
}

// plain returns a key in a form that is safe to print on a line.
func plain(key string) string {
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
		return fmt.Errorf("no container name: must be %s", plain(ContainerKey(setting, "NAME")))
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

// For returns the settings of a container: its own annotations take precedence over the pod's.
func (a *Annotations) For(container string) Settings {
	return a.Containers[container].Over(a.Pod)
}

// Resolve puts the places in their order: the container's annotations, the pod's, the
// defaults of the namespace, those of the node.
func Resolve(a Annotations, container string, namespace, node Settings) Settings {
	return a.For(container).Over(namespace).Over(node)
}
