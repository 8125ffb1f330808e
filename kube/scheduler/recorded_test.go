package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/candor-project/candor/internal/golden"
)

// TestRecordedMetrics compares the plugin's metrics with testdata/metrics.txt: names, types, labels and label
// values. Dashboards and alerts depend on them; -update adds new metrics.
func TestRecordedMetrics(t *testing.T) {
	registerMetrics()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "candor_") {
			continue // a metric of kube-scheduler
		}
		lines := map[string]bool{fmt.Sprintln(f.GetName(), f.GetType()): true}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				lines[fmt.Sprintf("%s{%s=%q}\n", f.GetName(), l.GetName(), l.GetValue())] = true
			}
		}
		text.WriteString(strings.Join(slices.Sorted(maps.Keys(lines)), ""))
	}
	golden.CheckLines(t, "testdata/metrics.txt", text.String())
}
