package metrics

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/golden"
	"github.com/candor-project/candor/spec"
)

// TestRecordedMetrics compares the metrics with the record: names, types, labels, label values from fixed
// lists, and buckets. Dashboards and alerts depend on them. go test -update adds new metrics.
func TestRecordedMetrics(t *testing.T) {
	c := newCounting(t, HistogramWindows[0])
	c.degraded = nil
	c.snapshot.Grants[0].View = spec.ViewFull
	for _, setting := range []host.Setting{host.SettingCPUs, host.SettingMems, host.SettingQuota, host.SettingBurst, host.SettingWeight, host.SettingView, host.SettingLive, host.SettingGroup} {
		c.degraded = append(c.degraded, host.Degraded{Container: "log", Setting: setting})
	}
	c.updateContainers(0)
	families, err := c.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	hasAnyValue := map[string]bool{"namespace": true, "pod": true, "container": true, "version": true, "goversion": true}
	var text strings.Builder
	for _, f := range families {
		lines := map[string]bool{fmt.Sprintln(f.GetName(), f.GetType()): true}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if name := l.GetName(); hasAnyValue[name] {
					lines[fmt.Sprintf("%s{%s}\n", f.GetName(), name)] = true
				} else {
					lines[fmt.Sprintf("%s{%s=%q}\n", f.GetName(), name, l.GetValue())] = true
				}
			}
			if h := m.GetHistogram(); h != nil {
				var bounds []string
				for _, b := range h.GetBucket() {
					bounds = append(bounds, fmt.Sprint(b.GetUpperBound()))
				}
				lines[fmt.Sprintln(f.GetName(), "buckets", strings.Join(bounds, " "))] = true
			}
		}
		text.WriteString(strings.Join(slices.Sorted(maps.Keys(lines)), ""))
	}
	golden.CheckLines(t, "testdata/metrics.txt", text.String())
}
