package deploy

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/candor-project/candor/kube/v1alpha1"
)

// TestObjects: the CRDs and the Go types have the same fields. The API server silently drops a field that is
// only in the Go type.
func TestObjects(t *testing.T) {
	for name, object := range map[string]any{"nodecpu": v1alpha1.NodeCPU{}, "cpuprofile": v1alpha1.CPUProfile{}} {
		crd := read[document](t, filepath.Join(chart, "crds", "candor.dev_"+name+"s.yaml"))
		version := crd["spec"].(document)["versions"].([]any)[0].(document)
		if version["name"] != v1alpha1.GroupVersion.Version || crd["spec"].(document)["group"] != v1alpha1.GroupVersion.Group {
			t.Errorf("%s: got version %v of group %v", name, version["name"], crd["spec"].(document)["group"])
		}
		schema := version["schema"].(document)["openAPIV3Schema"].(document)
		compareFields(t, name, reflect.TypeOf(object), schema)
	}
}

// compareFields compares the fields of a type, and all nested fields, with a schema.
func compareFields(t *testing.T, path string, of reflect.Type, schema document) {
	t.Helper()
	known, _ := schema["properties"].(document)
	fields := map[string]reflect.Type{}
	for f := range of.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "" && strings.Contains(options, "inline"):
			fields["apiVersion"], fields["kind"] = reflect.TypeFor[string](), reflect.TypeFor[string]()
		case name != "-":
			fields[name] = f.Type
		}
	}
	for name, of := range fields {
		below, ok := known[name].(document)
		if !ok {
			t.Errorf("%s.%s: not in the schema", path, name)
			continue
		}
		compareField(t, path+"."+name, of, below)
	}
	for name := range known {
		if fields[name] == nil {
			t.Errorf("%s.%s: in the schema, but not in Go", path, name)
		}
	}
}

// compareField compares the type of a field with its schema.
func compareField(t *testing.T, path string, of reflect.Type, schema document) {
	t.Helper()
	switch of.Kind() {
	case reflect.Pointer:
		compareField(t, path, of.Elem(), schema)
	case reflect.Slice:
		if items, ok := schema["items"].(document); ok && schema["type"] == "array" {
			compareField(t, path+"[]", of.Elem(), items)
			return
		}
		t.Errorf("%s: %v in the schema, but %v in Go", path, schema["type"], of)
	case reflect.Struct:
		if strings.HasSuffix(path, ".metadata") || of.Name() == "Time" {
			return // a type of Kubernetes
		}
		compareFields(t, path, of, schema)
	default:
		want := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Int32: "integer", reflect.Int64: "integer", reflect.Map: "object"}
		if schema["type"] != want[of.Kind()] {
			t.Errorf("%s: %v in the schema, but %v in Go", path, schema["type"], of)
		}
	}
}
