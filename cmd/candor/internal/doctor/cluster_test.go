package doctor

import (
	"encoding/json"
	"os"
	"testing"

	"go.yaml.in/yaml/v3"
)

// crdOfChart returns the schema of NodeCPU in the chart as JSON.
func crdOfChart(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../../deploy/helm/candor/crds/candor.dev_nodecpus.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPI map[string]any `yaml:"openAPIV3Schema"`
				} `yaml:"schema"`
			} `yaml:"versions"`
		} `yaml:"spec"`
	}
	if err := yaml.Unmarshal(text, &crd); err != nil || len(crd.Spec.Versions) != 1 {
		t.Fatalf("%v: %d versions", err, len(crd.Spec.Versions))
	}
	schema, err := json.Marshal(crd.Spec.Versions[0].Schema.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	return string(schema)
}
