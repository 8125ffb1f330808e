package topology

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
)

// TestReadHostAgreesWithLscpu compares ReadHost with lscpu (util-linux) on this machine.
func TestReadHostAgreesWithLscpu(t *testing.T) {
	if _, err := exec.LookPath("lscpu"); err != nil {
		t.Skip("no lscpu here to compare with")
	}
	for range attempts { // CPUs may go online or offline meanwhile
		m, err := ReadHost()
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
		table, err := exec.Command("lscpu", "--parse=CPU,CORE,SOCKET,NODE").Output()
		if err != nil {
			t.Fatal(err)
		}
		cpus, cores, sockets, nodes := lscpuTable(t, string(table))
		if cpus != m.Online {
			continue
		}
		var got [3][]cpuset.Set
		for i := range m.Cores {
			got[0] = append(got[0], m.Cores[i].CPUs)
		}
		for i := range m.Sockets {
			got[1] = append(got[1], m.Sockets[i].CPUs)
		}
		for i := range m.Nodes {
			got[2] = append(got[2], m.Nodes[i].CPUs)
		}
		for i, want := range [][]cpuset.Set{cores, sockets, nodes} {
			if !slices.Equal(got[i], want) {
				t.Errorf("%s: %v, lscpu prints %v", [...]string{"cores", "sockets", "nodes"}[i], got[i], want)
			}
		}
		return
	}
	t.Fatal("the online CPUs changed between every two looks at them")
}

// TestReadGuest reads the known machine of the guests of e2e/guest: two sockets of two NUMA nodes, each with
// an L3 and four cores of two CPUs, numbered core by core.
func TestReadGuest(t *testing.T) {
	if os.Getenv("CANDOR_IN_GUEST") == "" {
		t.Skip("runs in the virtual machines of make test-guest")
	}
	m, err := ReadHost()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, got, want string }{
		{"sockets", showSockets(m), "0:0-15 1:16-31"},
		{"nodes", showNodes(m), "0:0-7 1:8-15 2:16-23 3:24-31"},
		{"first core", m.Cores[0].CPUs.String(), "0-1"},
		{"description", m.Description(), "pack:2 numa:2 l3:1 core:4 pu:2"},
		{"distances", fmt.Sprint(m.Nodes[0].Distances, m.Nodes[3].Distances), "[10 12 21 21] [21 21 12 10]"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.what, c.got, c.want)
		}
	}
}

// lscpuTable reads "0,0,0,0" lines: a CPU, its core, socket and node.
func lscpuTable(t *testing.T, table string) (cpus cpuset.Set, cores, sockets, nodes []cpuset.Set) {
	var by [3]map[string]cpuset.Set
	for i := range by {
		by[i] = map[string]cpuset.Set{}
	}
	for line := range strings.Lines(table) {
		fields := strings.Split(strings.TrimSpace(line), ",")
		if strings.HasPrefix(line, "#") || len(fields) != 4 {
			continue
		}
		cpu := atoi(t, fields[0])
		cpus.Add(cpu)
		for i, key := range fields[1:] {
			s := by[i][key]
			s.Add(cpu)
			by[i][key] = s
		}
	}
	sorted := func(sets map[string]cpuset.Set) []cpuset.Set {
		return slices.SortedFunc(maps.Values(sets), func(a, b cpuset.Set) int { return a.First() - b.First() })
	}
	return cpus, sorted(by[0]), sorted(by[1]), sorted(by[2])
}
