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

// TestRecordedMetrics compares the metrics of the plugin with the record: names, types, labels and their values. Dashboards and
// alerts depend on them: a new metric is added to the record with -update, none may vanish.
func TestRecordedMetrics(t *testing.T) {
	registerMetrics()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "candor_") {
			continue // kube-scheduler's own
		}
		labels := map[string]bool{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()+"="+l.GetValue()] = true
			}
		}
		fmt.Fprintln(&text, strings.TrimRight(fmt.Sprint(f.GetName(), " ", f.GetType(), " ", strings.Join(slices.Sorted(maps.Keys(labels)), " ")), " "))
	}
	golden.Check(t, "testdata/metrics.txt", text.String())
}
