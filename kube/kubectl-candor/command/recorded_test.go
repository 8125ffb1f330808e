package command

import (
	"path/filepath"
	"testing"

	"github.com/candor-project/candor/internal/golden"
)

// TestRecordedJSON compares the names and types of the fields in the JSON of the commands with the record. Scripts depend on
// them. go test -update adds new fields to a record, and removes none.
func TestRecordedJSON(t *testing.T) {
	objects := testCluster(t)
	const deployment = `{"kind":"Deployment","metadata":{"name":"d"},"spec":{"template":{"metadata":{"annotations":{"candor.dev/class":"sensitive"}},
		"spec":{"containers":[{"name":"app","resources":{"limits":{"cpu":"1"}}}]}}}}`
	for _, c := range []struct {
		name     string
		lines    [][]string
		mapPaths []string
	}{
		{"plan", [][]string{{"plan", "--cpu", "1500m"}, {"plan", "late"}}, nil},
		{"map", [][]string{{"map"}}, []string{"map.containers[].fractionsMilli"}},
		{"nodes", [][]string{{"nodes", "--cpu", "1"}}, nil},
		{"why", [][]string{{"why", "web"}, {"why", "late"}}, nil},
		{"fits", [][]string{{"fits", "-f", "-", "--replicas", "9"}}, nil},
	} {
		all := ""
		for _, line := range c.lines {
			_, out, errOut := inCluster(t, objects, deployment, append(line, "-o", "json")...)
			if out == "" {
				t.Errorf("%q: no output, %s", line, errOut)
			}
			all += out
		}
		golden.CheckShape(t, filepath.Join("testdata/recorded", c.name+".txt"), all, c.mapPaths...)
	}
}
