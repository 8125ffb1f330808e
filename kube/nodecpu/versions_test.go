package nodecpu

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// TestReportOfFirstVersion reads a report of version 0.1.0. During an upgrade of a cluster, agents can be
// older than the scheduler. Do not update the file.
func TestReportOfFirstVersion(t *testing.T) {
	text, err := os.ReadFile("testdata/report-0.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	var s v1alpha1.NodeCPUStatus
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	n, err := Node(&s)
	if err != nil {
		t.Fatal(err)
	}
	if n.Sensitive() != 2500 || n.Guaranteed() != 300 || n.Capacity() != 7000 || n.Options().MinShared != 500 {
		t.Errorf("sensitive %v, guaranteed %v, capacity %v, minShared %v", n.Sensitive(), n.Guaranteed(), n.Capacity(), n.Options().MinShared)
	}
	for id, want := range map[string]struct {
		request hybrid.Request
		cpus    string
	}{
		uid(1) + "/web":   {hybrid.Request{Class: hybrid.Sensitive, Limit: 1500, Immovable: true}, "0,4:500m"},
		uid(1) + "/log":   {hybrid.Request{Class: hybrid.Flexible, Limit: 500, Guarantee: 50}, ""},
		uid(2) + "/db":    {hybrid.Request{Class: hybrid.Sensitive, Policy: hybrid.BestEffort, Limit: 1000}, "1"},
		uid(3) + "/batch": {hybrid.Request{Class: hybrid.Flexible, Guarantee: hybrid.NoGuarantee}, ""},
		"cron":            {hybrid.Request{Class: hybrid.Flexible, Limit: 250}, ""},
	} {
		want.request.ID = id
		g, isThere := n.Grant(id)
		if !isThere || g.Request != want.request || FormatCPUs(g.Exclusive, g.Fractions) != want.cpus {
			t.Errorf("%s: got %+v, want %+v on CPUs %q", id, g, want.request, want.cpus)
		}
	}
}
