package kube

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Domain is the domain of all annotation names.
const Domain = "candor.dev"

// PodKey is the annotation by which a pod says a setting for all its containers.
func PodKey(setting string) string { return Domain + "/" + setting }

// ContainerKey is the annotation that says it for one container.
func ContainerKey(setting, container string) string {
	return setting + "." + Domain + "/" + container
}

// Annotations are what a pod says.
type Annotations struct {
	Pod        Settings
	Containers map[string]Settings // by the container's name
}

// Parse reads a pod's annotations. Those of other domains are left alone; one of
// Candor's with an unknown name or a value that cannot be meant is an error that names it. The same
// annotations always give the same error.
func Parse(annotations map[string]string) (Annotations, error) {
	var a Annotations
	keys := make([]string, 0, len(annotations))
	for key := range annotations {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if err := a.add(key, annotations[key]); err != nil {
			return Annotations{}, fmt.Errorf("annotation %s: %w", plain(key), err)
		}
	}
	return a, nil
}

// plain is a key for people: on one line, whatever it holds.
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
	case key == HintKey:
		return nil
	case prefix == Domain:
		return a.Pod.Set(name, value)
	case !forOne:
		return nil
	case name == "":
		return fmt.Errorf("no container's name: want %s", plain(ContainerKey(setting, "NAME")))
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

// For returns what the pod says of one container: its own annotations go before the pod's.
func (a *Annotations) For(container string) Settings {
	return a.Containers[container].Over(a.Pod)
}

// Resolve puts the places in their order: the container's annotations, the pod's, the
// defaults of the namespace, those of the node.
func Resolve(a Annotations, container string, namespace, node Settings) Settings {
	return a.For(container).Over(namespace).Over(node)
}
