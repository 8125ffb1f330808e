package nodecpu

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/topology"
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

// TestSlowCPUsOfReports: the restored machine has the slow CPUs of the reporting machine.
func TestSlowCPUsOfReports(t *testing.T) {
	m := parse(t, "l3:2 core:3")
	m.Kinds = []topology.Kind{{Name: topology.Performance, CPUs: cpuset.Range(0, 1)}, {Name: topology.Efficiency, CPUs: cpuset.Range(2, 5)}}
	for i, mhz := range []int{4500, 4500, 3600, 2500, 2500, 2500} {
		m.CPUs[i].MaxKHz = mhz * 1000
	}
	reported := reportedMachine(m)
	restored, err := machineOf(&reported)
	if err != nil {
		t.Fatal(err)
	}
	if slow := restored.SlowCPUs(); reported.Speeds != "0-1:1024 2:512 3-5:461" || slow != cpuset.Range(3, 5) || len(restored.Kinds) != 2 {
		t.Errorf("reported as %q, slow CPUs %v, kinds %v", reported.Speeds, slow, restored.Kinds)
	}
}

// TestKindsOfReports: the restored machine has the kinds of the reporting machine. Agents of older versions report
// frequencies or capacities.
func TestKindsOfReports(t *testing.T) {
	machine := func(kinds ...string) *topology.Machine {
		m := parse(t, "l3:1 core:6")
		for _, list := range kinds {
			m.Kinds = append(m.Kinds, topology.Kind{Name: topology.Performance, CPUs: cpuset.MustParse(list)})
		}
		return m
	}
	for _, test := range []struct {
		kinds  []string
		older  string // speeds in the report of an older agent
		speeds string // speeds in the report
	}{
		{nil, "", ""},
		{nil, "0-1:5700000 2-5:5500000", ""},
		{[]string{"0-1", "2-5"}, "0-1:5500000 2-5:4200000", "0-1:1024 2-5:512"},
		{[]string{"4-5", "0-3"}, "0-3:446 4:1024 5:997", "4-5:1024 0-3:512"},
		{[]string{"0", "1-4", "5"}, "0:1024 1-4:512 5:256", "0:1024 1-4:512 5:256"},
	} {
		m := machine(test.kinds...)
		reported := reportedMachine(m)
		if reported.Speeds != test.speeds {
			t.Errorf("%v: reported as %q, want %q", test.kinds, reported.Speeds, test.speeds)
		}
		for _, speeds := range []string{test.speeds, test.older} {
			reported.Speeds = speeds
			restored, err := machineOf(&reported)
			if err != nil {
				t.Errorf("%q: %v", speeds, err)
				continue
			}
			for i := range 6 {
				if restored.KindOf(i) != m.KindOf(i) {
					t.Errorf("%q: CPU %d is of kind %d, want %d", speeds, i, restored.KindOf(i), m.KindOf(i))
				}
			}
		}
	}
}
