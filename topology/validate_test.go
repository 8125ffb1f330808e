package topology

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
)

// TestValidateRefuses: each violated rule has a different error.
func TestValidateRefuses(t *testing.T) {
	tests := []struct {
		name   string
		breach func(m *Machine)
		want   string
	}{
		{"nothing", func(m *Machine) { *m = Machine{} }, "no online CPU"},
		{"both states", func(m *Machine) { m.Offline.Add(3) }, "CPUs 3 are both online and offline"},
		{"isolated elsewhere", func(m *Machine) { m.Isolated.Add(99) }, "isolated CPUs 99"},
		{"CPU missing", func(m *Machine) { m.CPUs = m.CPUs[:7] }, "CPU 7 is not among the CPUs"},
		{"CPU missing in between", func(m *Machine) { m.CPUs = append(m.CPUs[:2], m.CPUs[3:]...) }, "CPU 3 is in the place of CPU 2"},
		{"CPU too many", func(m *Machine) { m.CPUs = append(m.CPUs, CPU{ID: 8}) }, "CPU 8 is neither online nor offline"},
		{"CPU offline in one place", func(m *Machine) { m.CPUs[1].Online = false }, "CPU 1 is online in one place"},
		{"negative capacity", func(m *Machine) { m.CPUs[1].Capacity = -1 }, "CPU 1 has a negative"},
		{"negative frequency", func(m *Machine) { m.CPUs[1].MaxKHz = -1 }, "CPU 1 has a negative"},
		{"offline CPU on a core", func(m *Machine) {
			m.Offline.Add(8)
			m.CPUs = append(m.CPUs, CPU{ID: 8, Core: 1, Socket: -1, Node: -1, L3: -1})
		}, "CPU 8 is offline, but"},
		{"empty socket", func(m *Machine) { m.Sockets = append(m.Sockets, Socket{}) }, "socket 2 of the list has CPUs"},
		{"foreign CPU", func(m *Machine) { m.Cores[0].CPUs.Add(9) }, "core 0 of the list has CPUs"},
		{"in two cores", func(m *Machine) { m.Cores[1].CPUs.Add(0) }, "CPUs 0 are in two cores"},
		{"in no node", func(m *Machine) { m.Nodes = m.Nodes[:1] }, "CPUs 2-3,6-7 are in no NUMA node"},
		{"out of order", func(m *Machine) { m.L3s[0], m.L3s[1] = m.L3s[1], m.L3s[0] }, "CPU 2 is in L3 domain 0"},
		{"out of order, as one", func(m *Machine) {
			m.Cores[0], m.Cores[1] = m.Cores[1], m.Cores[0]
			for i := range m.CPUs {
				if c := &m.CPUs[i]; c.Core < 2 {
					c.Core = 1 - c.Core
				}
			}
		}, "cores are not in rising order"},
		{"index of another", func(m *Machine) { m.CPUs[0].Core = 1 }, "CPU 0 is in core 0 of the list, but its own entry has 1"},
		{"one kind", func(m *Machine) { m.Kinds = []Kind{{Performance, m.Online}} }, "a single kind of cores"},
		{"kind without CPUs", func(m *Machine) { m.Kinds = []Kind{{"", m.Online}, {}} }, `kind of cores 1 of the list has CPUs ""`},
		{"kind of foreign CPUs", func(m *Machine) { m.Kinds = []Kind{{"", m.Online}, {"", cpuset.Of(9)}} }, `has CPUs "9"`},
		{"of two kinds", func(m *Machine) { m.Kinds = []Kind{{"", m.Online}, {"", cpuset.Of(2)}} }, "CPUs 2 are of two kinds"},
		{"of no kind", func(m *Machine) { m.Kinds = []Kind{{"", cpuset.Of(0)}, {"", cpuset.Range(2, 7)}} }, "CPUs 1 are of no kind"},
		{"too few distances", func(m *Machine) { m.Nodes[1].Distances = []int{10} }, "NUMA node 1 has 1 distances to 2 nodes"},
		{"distance 0", func(m *Machine) { m.Nodes[1].Distances[0] = 0 }, "NUMA node 1 has a distance of 0"},
		{"memory nowhere", func(m *Machine) { m.Nodes[1].Memory = []int{} }, "NUMA node 1: the list of nodes with memory is empty"},
		{"memory twice", func(m *Machine) { m.Nodes[1].Memory = []int{0, 1, 0} }, "NUMA node 1: memory of node 0"},
		{"memory of a node that cannot be", func(m *Machine) { m.Nodes[1].Memory = []int{1, 1024} }, "NUMA node 1: memory of node 1024"},
		{"no L3, L3s of its own", func(m *Machine) {
			m.HasL3 = false
			m.L3s = []Domain{{-1, m.Online}}
			for i := range m.CPUs {
				m.CPUs[i].L3 = 0
			}
		}, "without an L3"},
	}
	for _, tt := range tests {
		m, err := Parse("pack:2 numa:1 l3:1 core:2 pu:2")
		if err != nil {
			t.Fatal(err)
		}
		tt.breach(m)
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestJSONForm: other programs read the JSON form, so the test compares the whole text.
func TestJSONForm(t *testing.T) {
	m, err := Read(treeOf("0-2", map[int]string{0: "10 21", 2: "21 10"},
		row{cpus: "0,2", maxKHz: 3500000}, row{cpus: "1,3", core: 1, socket: 1, node: 2, l3: 1, capacity: 1024}))
	if err != nil {
		t.Fatal(err)
	}
	m.Isolated.Add(1)
	m.Nodes[1].Memory = []int{0, 3}
	m.Kinds = []Kind{{Performance, cpuset.Of(1)}, {Efficiency, cpuset.Of(0, 2)}}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"online":"0-2","offline":"3","isolated":"1","hasL3":true,` +
		`"sockets":[{"id":0,"cpus":"0,2"},{"id":1,"cpus":"1"}],` +
		`"nodes":[{"id":0,"cpus":"0,2","distances":[10,21]},{"id":2,"cpus":"1","distances":[21,10],"memory":[0,3]}],` +
		`"l3s":[{"id":0,"cpus":"0,2"},{"id":1,"cpus":"1"}],` +
		`"cores":[{"id":0,"cpus":"0,2"},{"id":1,"cpus":"1"}],` +
		`"kinds":[{"name":"performance","cpus":"1"},{"name":"efficiency","cpus":"0,2"}],` +
		`"cpus":[{"id":0,"online":true,"socket":0,"node":0,"l3":0,"core":0,"maxKHz":3500000},` +
		`{"id":1,"online":true,"socket":1,"node":1,"l3":1,"core":1,"capacity":1024},` +
		`{"id":2,"online":true,"socket":0,"node":0,"l3":0,"core":0,"maxKHz":3500000},` +
		`{"id":3,"online":false,"socket":-1,"node":-1,"l3":-1,"core":-1}]}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestJSONRefuses(t *testing.T) {
	m, err := Parse("pack:2 core:2")
	if err != nil {
		t.Fatal(err)
	}
	good, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	replace := func(old, new string) string {
		if !strings.Contains(string(good), old) {
			t.Fatalf("%q is not in %s", old, good)
		}
		return strings.Replace(string(good), old, new, 1)
	}
	tests := []struct{ text, want string }{
		{"", "EOF"},
		{"null", "no online CPU"},
		{"[]", "cannot unmarshal"},
		{"{}", "no online CPU"},
		{replace(`"online":"0-3"`, `"online":"0-3,2000"`), "CPU ids go from 0 to 1023"},
		{replace(`"online":"0-3"`, `"online":7`), "cannot unmarshal"},
		{replace(`"hasL3"`, `"hasL4"`), `unknown field "hasL4"`},
		{replace(`"kinds":[]`, `"kinds":[{"cpus":"0-3"}]`), "a single kind of cores"},
		{replace(`"cpus":"2-3"`, `"cpus":"1-3"`), "are in two sockets"},
		{replace(`"online":true`, `"online":false`), "CPU 0 is online in one place"},
		{string(good) + "{}", "more than one JSON value"},
	}
	for _, tt := range tests {
		m := Machine{Online: cpuset.Of(7)}
		err := m.UnmarshalJSON([]byte(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.80s: error %v, want %q", tt.text, err, tt.want)
		}
		if !reflect.DeepEqual(m, Machine{Online: cpuset.Of(7)}) {
			t.Errorf("%.80s: the machine was changed", tt.text)
		}
	}
}
