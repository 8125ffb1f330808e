package kube

import (
	"errors"
	"strings"
	"testing"
)

const deployment = `# Ours.
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}  # keep this
spec:
  replicas: 2
  template:
    metadata:
      labels: {app: "web"}
%s    spec:
      containers:
      - name: web   # the one
        image: "web:1"
---
kind: Service
apiVersion: v1
metadata:
  name: web
`

func manifest(annotations string) string { return strings.Replace(deployment, "%s", annotations, 1) }

func TestAnnotate(t *testing.T) {
	const line = "        candor.dev/class: sensitive\n"
	for _, test := range []struct{ name, before, after string }{
		{"no annotations", manifest(""), strings.Replace(manifest(""), "      labels", "      annotations:\n"+line+"      labels", 1)},
		{"other annotations", manifest("      annotations: # some\n        a: b\n"), manifest("      annotations: # some\n" + line + "        a: b\n")},
		{"another class", manifest("      annotations:\n        candor.dev/class: flexible # so far\n"), manifest("      annotations:\n        candor.dev/class: sensitive # so far\n")},
		{"quoted", manifest("      annotations:\n        \"candor.dev/class\": \"flexible\"\n"), manifest("      annotations:\n        \"candor.dev/class\": sensitive\n")},
		{"the same", manifest("      annotations:\n" + line), manifest("      annotations:\n" + line)},
		{"CRLF line ends", strings.ReplaceAll(manifest(""), "\n", "\r\n"), strings.ReplaceAll(strings.Replace(manifest(""), "      labels", "      annotations:\n"+line+"      labels", 1), "\n", "\r\n")},
		{"pod", "kind: Pod\nmetadata:\n  name: x\n", "kind: Pod\nmetadata:\n  annotations:\n    candor.dev/class: sensitive\n  name: x\n"},
		{"no metadata", "kind: Job\nspec:\n  template:\n    spec: {}\n", "kind: Job\nspec:\n  template:\n    metadata:\n      annotations:\n        candor.dev/class: sensitive\n    spec: {}\n"},
	} {
		got, err := Annotate([]byte(test.before), "candor.dev/class", "sensitive")
		if err != nil || string(got) != test.after {
			t.Errorf("%s: %v\n%s\nwant\n%s", test.name, err, got, test.after)
		}
	}
}

func TestAnnotateRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no text":            "",
		"no pods":            "kind: Service\n",
		"two workloads":      manifest("") + "---\n" + manifest(""),
		"not YAML":           "kind: [",
		"no template":        "kind: Deployment\nspec:\n  replicas: 1\n",
		"flow mapping":       "kind: Pod\nmetadata: {name: x}\n",
		"no value":           "kind: Pod\nmetadata:\n  annotations:\n  name: x\n",
		"a list":             "kind: Pod\nmetadata:\n  annotations:\n  - a\n",
		"an alias":           "kind: Pod\nx: &a\n  b: c\nmetadata:\n  annotations: *a\n",
		"repeated key":       "kind: Pod\nmetadata:\n  annotations:\n    a: b\n    a: c\n",
		"block value":        "kind: Pod\nmetadata:\n  annotations:\n    candor.dev/class: |\n      flexible\n",
		"metadata is a list": "kind: Pod\nmetadata:\n  - name: x\n",
	} {
		if got, err := Annotate([]byte(text), "candor.dev/class", "sensitive"); !errors.Is(err, ErrManifest) {
			t.Errorf("%s: %v\n%s\nwant ErrManifest", name, err, got)
		}
	}
}

func FuzzAnnotate(f *testing.F) {
	f.Add(manifest(""))
	f.Add(manifest("      annotations:\n        a: b\n"))
	f.Add("kind: Pod\nmetadata:\n  name: x\n")
	f.Fuzz(func(t *testing.T, text string) {
		once, err := Annotate([]byte(text), "candor.dev/class", "sensitive")
		if err != nil {
			return
		}
		twice, err := Annotate(once, "candor.dev/class", "sensitive")
		if err != nil || string(twice) != string(once) {
			t.Errorf("annotated once %q, annotated twice %q, %v; want equal texts", once, twice, err)
		}
	})
}
