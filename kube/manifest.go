package kube

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ErrManifest is the error for a manifest that is invalid, or that does not have the form that Annotate or PodTemplate needs.
var ErrManifest = errors.New("manifest")

// ErrSeveral is the error for a manifest with several objects with pods, none of which is selected. It wraps ErrManifest.
var ErrSeveral = fmt.Errorf("%w: several objects with pods", ErrManifest)

// podMetadata maps a kind of object to the path of its pods' metadata.
var podMetadata = map[string][]string{
	"Pod":                   {"metadata"},
	"PodTemplate":           {"template", "metadata"},
	"Deployment":            {"spec", "template", "metadata"},
	"StatefulSet":           {"spec", "template", "metadata"},
	"DaemonSet":             {"spec", "template", "metadata"},
	"ReplicaSet":            {"spec", "template", "metadata"},
	"ReplicationController": {"spec", "template", "metadata"},
	"Job":                   {"spec", "template", "metadata"},
	"CronJob":               {"spec", "jobTemplate", "spec", "template", "metadata"},
}

// podTemplates are the paths of pod templates in objects of other kinds, such as custom resources.
var podTemplates = [][]string{{"spec", "template"}, {"spec", "jobTemplate", "spec", "template"}, {"template"}}

// An object is a Kubernetes object that describes pods.
type object struct {
	root     *yaml.Node // mapping of the object
	path     []string   // path to the metadata of the pods, from root
	document int        // index of the YAML document
	steps    []any      // keys and indexes from the document to root; empty: root is the document
}

// name returns the kind and the name of the object, such as Deployment/web.
func (o *object) name() string {
	name := ""
	if metadata := child(o.root, "metadata"); metadata != nil {
		if n := child(metadata, "name"); n != nil {
			name = n.Value
		}
	}
	return child(o.root, "kind").Value + "/" + name
}

// hasName reports whether a name selects the object: KIND/NAME or NAME. The case of the kind does not matter.
func (o *object) hasName(name string) bool {
	kind, rest, hasKind := strings.Cut(o.name(), "/")
	wantedKind, wanted, isKind := strings.Cut(name, "/")
	if !isKind {
		return hasKind && rest == name
	}
	return strings.EqualFold(kind, wantedKind) && rest == wanted
}

// selectObject returns the object with a name; "" selects the only object.
func selectObject(objects []object, name string) (*object, error) {
	if len(objects) == 0 {
		return nil, fmt.Errorf("%w: 0 objects with pods: must be a Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, CronJob, Pod, "+
			"another object with a pod template, or a List of them", ErrManifest)
	}
	var names []string
	var found []*object
	for i := range objects {
		names = append(names, objects[i].name())
		if name == "" || objects[i].hasName(name) {
			found = append(found, &objects[i])
		}
	}
	const maxNames = 10
	if len(names) > maxNames {
		names = append(names[:maxNames], "…")
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case name == "":
		return nil, fmt.Errorf("%w: must be one of %s", ErrSeveral, strings.Join(names, ", "))
	case len(found) == 0:
		return nil, fmt.Errorf("%w: no object %.100s: must be one of %s", ErrManifest, name, strings.Join(names, ", "))
	default:
		return nil, fmt.Errorf("%w: %d objects %.100s: each must have a name of its own", ErrManifest, len(found), name)
	}
}

// documents parses the YAML documents of a manifest. An empty document is nil.
func documents(manifest []byte) (list []*yaml.Node, err error) {
	for decoder := yaml.NewDecoder(bytes.NewReader(manifest)); ; {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case err == io.EOF:
			return list, nil
		case err != nil:
			return nil, parseError(manifest, err)
		case len(document.Content) == 0:
			list = append(list, nil)
		default:
			list = append(list, document.Content[0])
		}
	}
}

// parseError returns the error of the YAML parser for a manifest, on a single line.
func parseError(manifest []byte, err error) error {
	hint := ""
	if bytes.Contains(manifest, []byte("{{")) {
		hint = "it is a template: render it first, for example with helm template: "
	}
	return fmt.Errorf("%w: %s%s", ErrManifest, hint, strings.Join(strings.Fields(err.Error()), " "))
}

// podObjects returns the objects of a manifest that describe pods, also from Lists.
func podObjects(manifest []byte) (objects []object, err error) {
	list, err := documents(manifest)
	for i, root := range list {
		if root != nil {
			objects = appendObjects(objects, object{root: root, document: i})
		}
	}
	return objects, err
}

// appendObjects appends an object if it describes pods. From a List it appends the items.
func appendObjects(objects []object, o object) []object {
	kind := child(o.root, "kind")
	if kind == nil || kind.Kind != yaml.ScalarNode {
		return objects
	}
	if o.path = metadataPath(o.root, kind.Value); o.path != nil {
		return append(objects, o)
	}
	items := child(o.root, "items")
	if !strings.HasSuffix(kind.Value, "List") || items == nil || items.Kind != yaml.SequenceNode {
		return objects
	}
	for i, item := range items.Content {
		steps := append(append([]any(nil), o.steps...), "items", i)
		objects = appendObjects(objects, object{root: item, document: o.document, steps: steps})
	}
	return objects
}

// metadataPath returns the path to the metadata of an object's pods, or nil. An object of an unknown kind has pods if it
// has a pod template with containers at one of the paths podTemplates.
func metadataPath(root *yaml.Node, kind string) []string {
	if path := podMetadata[kind]; path != nil {
		return path
	}
	for _, path := range podTemplates {
		at := root
		for _, step := range append(append([]string(nil), path...), "spec", "containers") {
			if at = child(at, step); at == nil {
				break
			}
		}
		if at != nil && at.Kind == yaml.SequenceNode {
			return append(append([]string(nil), path...), "metadata")
		}
	}
	return nil
}

// child returns the value of a key in a mapping, or nil if n is no mapping or does not have the key.
func child(n *yaml.Node, key string) *yaml.Node {
	_, value := entry(n, key)
	return value
}

// entry returns a key of a mapping with its value, or nil if n is no mapping or does not have the key.
func entry(n *yaml.Node, key string) (name, value *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Kind == yaml.ScalarNode && n.Content[i].Value == key {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}
