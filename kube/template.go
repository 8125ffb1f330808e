package kube

import (
	"fmt"
	"strings"
)

// A Template is the pod template of the object that a manifest describes.
type Template struct {
	Namespace string // "" if the manifest has no namespace
	Name      string // of the object
	Pod       any    // as in YAML: metadata, spec
}

// PodTemplate reads the pod template in a manifest (YAML or JSON). The manifest must contain exactly one object with pods.
func PodTemplate(manifest []byte) (t Template, err error) {
	objects, err := podObjects(manifest)
	if err != nil {
		return t, err
	}
	if len(objects) != 1 {
		return t, fmt.Errorf("%w: %d objects with pods: must be 1 (Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, CronJob or Pod)", ErrManifest, len(objects))
	}
	var all map[string]any
	if err := objects[0].root.Decode(&all); err != nil {
		return t, fmt.Errorf("%w: %s", ErrManifest, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	metadata, _ := all["metadata"].(map[string]any)
	t.Namespace, _ = metadata["namespace"].(string)
	t.Name, _ = metadata["name"].(string)
	at := all
	for _, step := range objects[0].path[:len(objects[0].path)-1] {
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
