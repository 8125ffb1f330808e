package kube

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ErrManifest is the error for a manifest that is invalid, or that does not have the form that Annotate or PodTemplate needs.
var ErrManifest = errors.New("manifest")

// podMetadata maps a kind of object to the path of its pods' metadata.
var podMetadata = map[string][]string{
	"Pod":         {"metadata"},
	"Deployment":  {"spec", "template", "metadata"},
	"StatefulSet": {"spec", "template", "metadata"},
	"DaemonSet":   {"spec", "template", "metadata"},
	"ReplicaSet":  {"spec", "template", "metadata"},
	"Job":         {"spec", "template", "metadata"},
	"CronJob":     {"spec", "jobTemplate", "spec", "template", "metadata"},
}

// Annotate sets an annotation of the pods in a manifest (YAML). It preserves the rest of the text, such as comments, order and quotes. The
// manifest must contain exactly one object with pods; other objects are ignored.
func Annotate(manifest []byte, key, value string) ([]byte, error) {
	objects, err := podObjects(manifest)
	if err != nil {
		return nil, err
	}
	if len(objects) != 1 {
		return nil, fmt.Errorf("%w: %d objects with pods: must be 1 (Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, CronJob or Pod)", ErrManifest, len(objects))
	}
	edit, err := editFor(objects[0], key, value)
	if err != nil {
		return nil, err
	}
	changed, err := edit.applyTo(manifest)
	if err != nil {
		return nil, err
	}
	return changed, checkAnnotated(manifest, changed, key, value)
}

// An object is a YAML document that describes pods, with the path to the metadata of these pods.
type object struct {
	root *yaml.Node
	path []string
}

// podObjects returns the documents of a manifest that describe pods.
func podObjects(manifest []byte) (objects []object, err error) {
	for decoder := yaml.NewDecoder(bytes.NewReader(manifest)); ; {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case err == io.EOF:
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("%w: %w", ErrManifest, err)
		}
		root := document.Content[0]
		if kind := child(root, "kind"); kind != nil && podMetadata[kind.Value] != nil {
			objects = append(objects, object{root, podMetadata[kind.Value]})
		}
	}
}

// child returns the value of a key in a mapping, or nil if n is no mapping or does not have the key.
func child(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// An edit is a change of a text: if old is not "", it replaces old within a line by lines[0]. Otherwise it inserts the new lines before the
// line.
type edit struct {
	line, column int // from 1
	old          string
	lines        []string // new lines, which applyTo indents to the column; or the single replacement for old
}

// editFor returns the edit that sets the annotation: a replacement of its present value, or an insertion of the missing mappings and keys.
func editFor(o object, key, value string) (*edit, error) {
	at := o.root
	path := append(append([]string(nil), o.path...), "annotations")
	for i, step := range path {
		next := child(at, step)
		if next == nil && i < len(o.path)-1 {
			return nil, fmt.Errorf("%w: no %s", ErrManifest, strings.Join(path[:i+1], "."))
		}
		if next == nil || next.Kind == yaml.ScalarNode && next.Tag == "!!null" && i == len(path)-1 {
			return insert(at, next, path[i:], key, value)
		}
		at = next
	}
	if old := child(at, key); old != nil {
		return replace(old, value)
	}
	return insert(at, nil, nil, key, value)
}

// insert returns an edit that inserts the annotation, nested in the missing mappings, before the first key of the node at, which must be a
// mapping in block style.
func insert(at, empty *yaml.Node, mappings []string, key, value string) (*edit, error) {
	switch {
	case empty != nil:
		return nil, fmt.Errorf("%w: line %d: annotations: is empty: remove it", ErrManifest, empty.Line)
	case at.Kind != yaml.MappingNode || at.Style&yaml.FlowStyle != 0 || len(at.Content) == 0:
		return nil, fmt.Errorf("%w: line %d: must be a block of keys, one per line, to add the annotation to", ErrManifest, at.Line)
	}
	first := at.Content[0]
	e := &edit{line: first.Line, column: first.Column}
	indent := ""
	for _, name := range mappings {
		e.lines = append(e.lines, indent+name+":")
		indent += "  "
	}
	e.lines = append(e.lines, indent+key+": "+value)
	return e, nil
}

// replace returns an edit that replaces a value. The value must be on a single line.
func replace(old *yaml.Node, value string) (*edit, error) {
	e := &edit{line: old.Line, column: old.Column, lines: []string{value}}
	switch {
	case old.Kind != yaml.ScalarNode || strings.Contains(old.Value, "\n") || old.Anchor != "" || old.Value == "":
		return nil, fmt.Errorf("%w: line %d: must be a plain value on one line", ErrManifest, old.Line)
	case old.Style&yaml.DoubleQuotedStyle != 0:
		e.old = `"` + old.Value + `"`
	case old.Style&yaml.SingleQuotedStyle != 0:
		e.old = "'" + old.Value + "'"
	default:
		e.old = old.Value
	}
	return e, nil
}

// applyTo returns the text with the edit.
func (e *edit) applyTo(text []byte) ([]byte, error) {
	lines := strings.SplitAfter(string(text), "\n")
	if e.line > len(lines) {
		return nil, fmt.Errorf("%w: line %d: not found", ErrManifest, e.line)
	}
	line := lines[e.line-1]
	before := line[:min(e.column-1, len(line))]
	if e.old != "" {
		rest, found := strings.CutPrefix(line[len(before):], e.old)
		if !found {
			return nil, fmt.Errorf("%w: line %d: must be a plain value on one line", ErrManifest, e.line)
		}
		lines[e.line-1] = before + e.lines[0] + rest
		return []byte(strings.Join(lines, "")), nil
	}
	if strings.TrimLeft(before, " ") != "" {
		return nil, fmt.Errorf("%w: line %d: each key must be on a separate line", ErrManifest, e.line)
	}
	end := "\n"
	if strings.HasSuffix(line, "\r\n") {
		end = "\r\n"
	}
	var added strings.Builder
	for _, one := range e.lines {
		added.WriteString(before + one + end)
	}
	lines[e.line-1] = added.String() + line
	return []byte(strings.Join(lines, "")), nil
}

// checkAnnotated verifies that before and after differ only in the annotation. It parses both texts, because editing the text is heuristic.
func checkAnnotated(before, after []byte, key, value string) error {
	was, err := podObjects(before)
	if err != nil {
		return err
	}
	is, err := podObjects(after)
	if err != nil {
		return fmt.Errorf("%w: it would not be YAML any more: %w", ErrManifest, err)
	}
	var old, now any
	if err := errors.Join(was[0].root.Decode(&old), is[0].root.Decode(&now)); err != nil {
		return fmt.Errorf("%w: %w", ErrManifest, err)
	}
	at, ok := old.(map[string]any)
	for _, step := range append(append([]string(nil), was[0].path...), "annotations") {
		if !ok {
			return fmt.Errorf("%w: %s: must be a mapping", ErrManifest, step)
		}
		if at[step] == nil {
			at[step] = map[string]any{}
		}
		at, ok = at[step].(map[string]any)
	}
	if !ok {
		return fmt.Errorf("%w: annotations: must be a mapping", ErrManifest)
	}
	at[key] = value
	if !reflect.DeepEqual(old, now) {
		return fmt.Errorf("%w: the annotation cannot be added without a change of something else", ErrManifest)
	}
	return nil
}
