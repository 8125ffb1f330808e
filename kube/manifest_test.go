package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
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

// annotate sets the class sensitive.
func annotate(text, object string) (string, error) {
	out, err := Annotate([]byte(text), object, "candor.dev/class", "sensitive")
	return string(out), err
}

func TestAnnotate(t *testing.T) {
	const line = "        candor.dev/class: sensitive\n"
	withAnnotations := strings.Replace(manifest(""), "      labels", "      annotations:\n"+line+"      labels", 1)
	for _, test := range []struct{ name, before, after string }{
		{"no annotations", manifest(""), withAnnotations},
		{"other annotations", manifest("      annotations: # some\n        a: b\n"), manifest("      annotations: # some\n" + line + "        a: b\n")},
		{"another class", manifest("      annotations:\n        candor.dev/class: flexible # so far\n"), manifest("      annotations:\n        candor.dev/class: sensitive # so far\n")},
		{"double quotes", manifest("      annotations:\n        \"candor.dev/class\": \"fle\\x78ible\" # \"\n"), manifest("      annotations:\n        \"candor.dev/class\": \"sensitive\" # \"\n")},
		{"single quotes", manifest("      annotations:\n        'candor.dev/class': 'flexible'\n"), manifest("      annotations:\n        'candor.dev/class': 'sensitive'\n")},
		{"the same", manifest("      annotations:\n" + line), manifest("      annotations:\n" + line)},
		{"CRLF line ends", strings.ReplaceAll(manifest(""), "\n", "\r\n"), strings.ReplaceAll(withAnnotations, "\n", "\r\n")},
		{"comments", "kind: Pod\nmetadata:\n  # The name.\n\n  # It is short.\n  name: x # c\n",
			"kind: Pod\nmetadata:\n  annotations:\n    candor.dev/class: sensitive\n  # The name.\n\n  # It is short.\n  name: x # c\n"},
		{"empty annotations", manifest("      annotations: # none\n      # Labels.\n"), manifest("      annotations: # none\n" + line + "      # Labels.\n")},
		{"null", manifest("      annotations: null # none\n"), manifest("      annotations: {candor.dev/class: sensitive} # none\n")},
		{"tilde", manifest("      annotations: ~\n"), manifest("      annotations: {candor.dev/class: sensitive}\n")},
		{"empty flow", manifest("      annotations: {}\n"), manifest("      annotations: {candor.dev/class: sensitive}\n")},
		{"flow", manifest("      annotations: {é: ü, a: b} # c\n"), manifest("      annotations: {candor.dev/class: sensitive, é: ü, a: b} # c\n")},
		{"flow with the class", manifest("      annotations: {é: 'ü', candor.dev/class: flexible, a: b}\n"), manifest("      annotations: {é: 'ü', candor.dev/class: sensitive, a: b}\n")},
		{"pod", "kind: Pod\nmetadata:\n  name: x\n", "kind: Pod\nmetadata:\n  annotations:\n    candor.dev/class: sensitive\n  name: x\n"},
		{"flow metadata", "kind: Pod\nmetadata: {name: x} # c\n", "kind: Pod\nmetadata: {annotations: {candor.dev/class: sensitive}, name: x} # c\n"},
		{"flow template", "kind: Job\nspec: {template: {spec: {}}}\n", "kind: Job\nspec: {template: {metadata: {annotations: {candor.dev/class: sensitive}}, spec: {}}}\n"},
		{"pod without metadata", "# Ours.\nkind: Pod\nspec: {}\n", "# Ours.\nmetadata:\n  annotations:\n    candor.dev/class: sensitive\nkind: Pod\nspec: {}\n"},
		{"no metadata", "kind: Job\nspec:\n  template:\n    # c\n    spec: {}\n", "kind: Job\nspec:\n  template:\n    metadata:\n      annotations:\n        candor.dev/class: sensitive\n    # c\n    spec: {}\n"},
		{"empty metadata, no line break at the end", "kind: Pod\nmetadata:", "kind: Pod\nmetadata:\n  annotations:\n    candor.dev/class: sensitive\n"},
		{"JSON", `{"kind": "Pod", "metadata": {"name": "x"}}`, `{"kind": "Pod", "metadata": {"annotations": {"candor.dev/class": "sensitive"}, "name": "x"}}`},
		{"indented JSON", "{\n  \"kind\": \"Pod\",\n  \"metadata\": {\n    \"name\": \"x\"\n  }\n}\n",
			"{\n  \"kind\": \"Pod\",\n  \"metadata\": {\n    \"annotations\": {\"candor.dev/class\": \"sensitive\"},\n    \"name\": \"x\"\n  }\n}\n"},
		{"byte order mark", "\ufeffkind: Pod\nmetadata: {name: x}\n", "\ufeffkind: Pod\nmetadata: {annotations: {candor.dev/class: sensitive}, name: x}\n"},
		{"line separator in a value", "x: \"a\u2028b\"\nkind: Pod\nmetadata: {name: x}\n", "x: \"a\u2028b\"\nkind: Pod\nmetadata: {annotations: {candor.dev/class: sensitive}, name: x}\n"},
		{"custom resource", "kind: Rollout\nspec:\n  template:\n    spec:\n      containers: [{name: a}]\n",
			"kind: Rollout\nspec:\n  template:\n    metadata:\n      annotations:\n        candor.dev/class: sensitive\n    spec:\n      containers: [{name: a}]\n"},
		{"cron job", "kind: CronJob\nspec:\n  jobTemplate:\n    spec:\n      template:\n        metadata: {}\n",
			"kind: CronJob\nspec:\n  jobTemplate:\n    spec:\n      template:\n        metadata: {annotations: {candor.dev/class: sensitive}}\n"},
		{"list", "kind: List\nitems:\n- kind: Service # s\n- spec: {} # p\n  kind: Pod\n",
			"kind: List\nitems:\n- kind: Service # s\n- metadata:\n    annotations:\n      candor.dev/class: sensitive\n  spec: {} # p\n  kind: Pod\n"},
		{"rendered", rendered("        checksum/config: 1a2b\n"), rendered(line + "        checksum/config: 1a2b\n")},
	} {
		if got, err := annotate(test.before, ""); err != nil || got != test.after {
			t.Errorf("%s: %v\n%s\nwant\n%s", test.name, err, got, test.after)
		}
	}
}

// rendered returns the output of helm template: documents with comments, one of them empty.
func rendered(annotations string) string {
	return "---\n# Source: web/templates/config.yaml\napiVersion: v1\nkind: ConfigMap\ndata:\n  a: |\n    kind: Pod\n    ---\n    # no comment\n---\n# Source: web/templates/empty.yaml\n" +
		"---\n# Source: web/templates/deployment.yaml\nkind: Deployment\nmetadata:\n  name: release-name-web\nspec:\n  template:\n    metadata:\n      annotations:\n" +
		annotations + "      labels: {app: web}\n    spec:\n      containers:\n      - name: web\n        args: ['--a=\"b\"']\n"
}

// TestAnnotateObject: of several objects, the name selects one.
func TestAnnotateObject(t *testing.T) {
	document := func(name, metadata string) string {
		return "kind: Deployment\nmetadata: {name: " + name + "}\nspec: {template: {metadata: {" + metadata + "}}}\n"
	}
	const annotated = "annotations: {candor.dev/class: sensitive}"
	both := document("web", "") + "---\n" + document("db", "")
	for name, want := range map[string]string{
		"web": document("web", annotated) + "---\n" + document("db", ""), "Deployment/db": document("web", "") + "---\n" + document("db", annotated),
		"deployment/db": document("web", "") + "---\n" + document("db", annotated),
	} {
		if got, err := annotate(both, name); err != nil || got != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, want)
		}
	}
	if _, err := annotate(both, ""); !errors.Is(err, ErrSeveral) || !errors.Is(err, ErrManifest) || !strings.HasSuffix(err.Error(), ": must be one of Deployment/web, Deployment/db") {
		t.Errorf("no name: %v", err)
	}
	for name, want := range map[string]string{"StatefulSet/db": "no object StatefulSet/db: must be one of Deployment/web, Deployment/db", "x": "no object x"} {
		if _, err := annotate(both, name); !errors.Is(err, ErrManifest) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := annotate(document("web", "")+"---\n"+document("web", ""), "web"); err == nil || !strings.Contains(err.Error(), "2 objects web") {
		t.Errorf("a name twice: %v", err)
	}
}

func TestAnnotateRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no text":            "",
		"no pods":            "kind: Service\n",
		"two workloads":      manifest("") + "---\n" + manifest(""),
		"not YAML":           "kind: [",
		"a template":         "kind: Pod\nmetadata:\n  name: {{ .Values.name }}\n",
		"no template":        "kind: Deployment\nspec:\n  replicas: 1\n",
		"a list":             "kind: Pod\nmetadata:\n  annotations:\n  - a\n",
		"an alias":           "kind: Pod\nx: &a\n  b: c\nmetadata:\n  annotations: *a\n",
		"an anchor":          "kind: Pod\nmetadata: &a\n  name: b\nx: *a\n",
		"a merge key":        "kind: Pod\nx: &a\n  annotations: {b: c}\nmetadata:\n  <<: *a\n",
		"repeated key":       "kind: Pod\nmetadata:\n  annotations:\n    a: b\n    a: c\n",
		"block value":        "kind: Pod\nmetadata:\n  annotations:\n    candor.dev/class: |\n      flexible\n",
		"value on two lines": "kind: Pod\nmetadata:\n  annotations:\n    candor.dev/class: flex\n      ible\n",
		"empty flow value":   "kind: Pod\nmetadata: {annotations: , name: x}\n",
		"tagged value":       "kind: Pod\nmetadata:\n  annotations:\n    candor.dev/class: !!str flexible\n",
		"metadata is a list": "kind: Pod\nmetadata:\n  - name: x\n",
		"explicit key":       "kind: Pod\nmetadata:\n  ? name\n  : x\n",
		"not UTF-8":          "kind: Pod # \xff\nmetadata:\n  name: x\n",
	} {
		if got, err := annotate(text, ""); !errors.Is(err, ErrManifest) {
			t.Errorf("%s: %v\n%s\nwant ErrManifest", name, err, got)
		}
	}
	if _, err := annotate("kind: Pod\nmetadata:\n  name: {{ .Values.name }}\n", ""); err == nil || !strings.Contains(err.Error(), "render it first") {
		t.Errorf("a template: %v", err)
	}
}

// decoded returns the documents of a manifest as values.
func decoded(t *testing.T, text string) (list []any) {
	documents, err := documents([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents {
		var value any
		if d != nil && d.Decode(&value) != nil {
			value = nil // for example a repeated key
		}
		list = append(list, value)
	}
	return list
}

// withoutClass removes the class and the mappings that are then empty.
func withoutClass(value any) any {
	switch value := value.(type) {
	case map[string]any:
		delete(value, "candor.dev/class")
		for key, v := range value {
			v = withoutClass(v)
			if m, isMap := v.(map[string]any); v == nil || isMap && len(m) == 0 {
				delete(value, key)
			} else {
				value[key] = v
			}
		}
	case []any:
		for i := range value {
			value[i] = withoutClass(value[i])
		}
	}
	return value
}

// FuzzAnnotate: an edited manifest has the same documents except the annotation, and the same comments: a single piece of the text changes.
func FuzzAnnotate(f *testing.F) {
	f.Add(manifest(""))
	f.Add(manifest("      annotations:\n        a: b\n"))
	f.Add("kind: Pod\nmetadata:\n  name: x\n")
	f.Add(rendered(""))
	f.Add("kind: List\nitems:\n- kind: Service # s\n- spec: {} # p\n  kind: Pod\n")
	f.Add(`{"kind": "Pod", "metadata": {"annotations": {"candor.dev/class": "flexible"}}}`)
	f.Add("\ufeffkind: Pod\r\nmetadata: {é: {}, annotations: ~}\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		once, err := annotate(text, "")
		if err != nil {
			return
		}
		if twice, err := annotate(once, ""); err != nil || twice != once {
			t.Errorf("annotated once %q, annotated twice %q, %v; want equal texts", once, twice, err)
		}
		before, after := decoded(t, text), decoded(t, once)
		if len(before) != len(after) {
			t.Fatalf("%q: %d documents; %q: %d", text, len(before), once, len(after))
		}
		for i := range before {
			if was, is := withoutClass(before[i]), withoutClass(after[i]); !reflect.DeepEqual(was, is) {
				t.Errorf("%q: document %d of %q is %v, was %v", text, i, once, is, was)
			}
		}
		start := commonPrefix(text, once)
		end := commonPrefix(reversed(text[start:]), reversed(once[start:]))
		if removed := text[start : len(text)-end]; strings.ContainsAny(removed, "\r\n") {
			t.Errorf("%q: %q is missing in %q", text, removed, once)
		}
	})
}

// commonPrefix returns the number of bytes at the start that two texts have in common.
func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func reversed(text string) string {
	all := bytes.Clone([]byte(text))
	for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
		all[i], all[j] = all[j], all[i]
	}
	return string(all)
}

// TestAnnotateJSON: a manifest in JSON remains JSON, also if the present value is not a string.
func TestAnnotateJSON(t *testing.T) {
	for _, old := range []string{"null", "true", "5", `"flexible"`} {
		text := `{"kind": "Pod", "metadata": {"name": "web", "annotations": {"candor.dev/class": ` + old + `}}, "spec": {"containers": []}}`
		out, err := annotate(text, "")
		if want := strings.Replace(text, old+"}", `"sensitive"}`, 1); err != nil || out != want || !json.Valid([]byte(out)) {
			t.Errorf("%s: %s, %v", old, out, err)
		}
	}
}
