package metrics

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/golden"
)

// TestRecordedMetrics compares the metrics with the record: names, types, labels, the values of labels that have a fixed list of
// values, and buckets. Dashboards and alerts depend on them: a new metric is added to the record with -update, none may vanish.
func TestRecordedMetrics(t *testing.T) {
	c := newCounting(t, HistogramWindows[0])
	c.degraded = nil
	for _, setting := range []host.Setting{host.SettingCPUs, host.SettingMems, host.SettingQuota, host.SettingBurst, host.SettingWeight, host.SettingView, host.SettingGroup} {
		c.degraded = append(c.degraded, host.Degraded{Container: "log", Setting: setting})
	}
	c.look(0)
	families, err := c.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	isOpen := map[string]bool{"namespace": true, "pod": true, "container": true, "version": true, "goversion": true}
	var text strings.Builder
	for _, f := range families {
		labels, values := []string{}, map[string][]string{}
		buckets := ""
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				name, value := l.GetName(), l.GetValue()
				if !slices.Contains(labels, name) {
					labels = append(labels, name)
				}
				if !isOpen[name] && !slices.Contains(values[name], value) {
					values[name] = append(values[name], value)
				}
			}
			if h := m.GetHistogram(); h != nil && buckets == "" {
				for _, b := range h.GetBucket() {
					buckets += fmt.Sprint(" ", b.GetUpperBound())
				}
			}
		}
		fmt.Fprintln(&text, f.GetName(), f.GetType())
		for _, label := range labels {
			fmt.Fprintln(&text, strings.TrimRight("  label "+label+" "+strings.Join(slices.Sorted(slices.Values(values[label])), "|"), " "))
		}
		if buckets != "" {
			fmt.Fprintln(&text, "  buckets"+buckets)
		}
	}
	golden.Check(t, "testdata/metrics.txt", text.String())
}
