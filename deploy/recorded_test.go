package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/candor-project/candor/internal/golden"
)

// TestRecordedDefinitions compares the custom resource definitions with testdata: names, versions, columns,
// and the type and bounds of each field, without descriptions and messages. Objects in clusters depend on the
// definitions; -update adds new fields.
func TestRecordedDefinitions(t *testing.T) {
	for _, name := range []string{"nodecpu", "cpuprofile"} {
		crd := read[document](t, filepath.Join(chart, "crds", "candor.dev_"+name+"s.yaml"))
		spec := crd["spec"].(document)
		var text strings.Builder
		fmt.Fprintln(&text, "group", asJSON(t, spec["group"]), "scope", asJSON(t, spec["scope"]), "names", asJSON(t, spec["names"]))
		for _, v := range spec["versions"].([]any) {
			version := v.(document)
			subresources := version["subresources"]
			if empty, ok := subresources.(document); ok && len(empty) == 0 {
				subresources = nil // an empty map is equivalent to a missing field
			}
			fmt.Fprintln(&text, "version", version["name"], "served", version["served"], "storage", version["storage"], "subresources", asJSON(t, subresources))
			columns, _ := version["additionalPrinterColumns"].([]any)
			for _, c := range columns {
				column := maps.Clone(c.(document))
				delete(column, "description")
				fmt.Fprintln(&text, "column", asJSON(t, column))
			}
			writeSchema(t, &text, "", version["schema"].(document)["openAPIV3Schema"].(document))
		}
		golden.CheckLines(t, filepath.Join("testdata", name+".txt"), text.String())
	}
}

// writeSchema writes a line with the type and the bounds of a field, and a line for each nested field.
func writeSchema(t *testing.T, text *strings.Builder, path string, schema document) {
	t.Helper()
	fields := maps.Clone(schema)
	for _, name := range []string{"description", "properties", "items", "additionalProperties"} {
		delete(fields, name)
	}
	if required, ok := fields["required"].([]any); ok {
		names := []string{}
		for _, name := range required {
			names = append(names, name.(string))
		}
		slices.Sort(names)
		fields["required"] = names
	}
	if rules, ok := fields["x-kubernetes-validations"].([]any); ok {
		var expressions []any
		for _, rule := range rules {
			expressions = append(expressions, rule.(document)["rule"])
		}
		fields["x-kubernetes-validations"] = expressions
	}
	fmt.Fprintln(text, strings.TrimSpace(path+" "+asJSON(t, fields)))
	properties, _ := schema["properties"].(document)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		writeSchema(t, text, path+"."+name, properties[name].(document))
	}
	if items, ok := schema["items"].(document); ok {
		writeSchema(t, text, path+"[]", items)
	}
	if values, ok := schema["additionalProperties"].(document); ok {
		writeSchema(t, text, path+".*", values)
	}
}

// asJSON formats a value as a single line of JSON with sorted keys.
func asJSON(t *testing.T, value any) string {
	t.Helper()
	text := new(strings.Builder)
	e := json.NewEncoder(text)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(text.String())
}
