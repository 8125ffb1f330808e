package kube

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Template is the pod template of the object that a manifest describes.
type Template struct {
	Namespace string // "" if the manifest has no namespace
	Name      string // of the object
	Pod       any    // as in YAML: metadata, spec
}

// PodTemplate reads the pod template in a manifest (YAML or JSON). The manifest must contain exactly one object with pods. Several objects
// are valid only if exactly one of them is not a custom resource; PodTemplate then ignores the custom resources.
func PodTemplate(manifest []byte) (t Template, err error) {
	objects, err := podObjects(manifest)
	if err != nil {
		return t, err
	}
	o, err := selectObject(objects, "")
	if errors.Is(err, ErrSeveral) {
		objects = slices.DeleteFunc(objects, isCustom)
		if len(objects) == 1 {
			o, err = &objects[0], nil
		}
	}
	if err != nil {
		return t, err
	}
	var all map[string]any
	if err := o.root.Decode(&all); err != nil {
		return t, fmt.Errorf("%w: %s", ErrManifest, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	metadata, _ := all["metadata"].(map[string]any)
	t.Namespace, _ = metadata["namespace"].(string)
	t.Name, _ = metadata["name"].(string)
	at := all
	for _, step := range o.path[:len(o.path)-1] {
		next, ok := at[step].(map[string]any)
		if !ok {
			return t, fmt.Errorf("%w: no %s", ErrManifest, step)
		}
		at = next
	}
	if at["spec"] == nil {
		return t, fmt.Errorf("%w: the pod has no spec", ErrManifest)
	}
	t.Pod = at
	return t, nil
}

// isCustom reports whether an object is a custom resource: podMetadata lists all kinds of Kubernetes itself that have pods.
func isCustom(o object) bool { return podMetadata[child(o.root, "kind").Value] == nil }
