package topology

import (
	"encoding/json"
	"io"
	"testing"
	"testing/fstest"

	"github.com/candor-project/candor/cpuset"
)

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"pack:2 numa:2 l3:2 core:4 pu:2", "[numa(memory=1GB)] group0:2 l2:2 core:2 l1d:1 pu:2", "core:1024",
		"(a=b) die:2(x=y) pu:3", "core:99999999999999999999", "pack:0 core:-1", "numa:3 pack:2 [numa", "socket:5 node:3 co:2",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := Parse(s)
		if err != nil {
			if m != nil || len(err.Error()) > 1000 {
				t.Fatalf("%q: %v, %.2000q", s, m, err)
			}
			return
		}
		checkMachine(t, m)
		if _, err := Parse(m.Description()); err != nil {
			t.Fatalf("%q describes itself as %q: %v", s, m.Description(), err)
		}
	})
}

func FuzzParseMask(f *testing.F) {
	for _, s := range []string{"00000000,0000ffff", "1", "", ",", "fc00,00000000", "0x1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		set, err := parseMask([]byte(s))
		if err != nil {
			return
		}
		if again, err := parseMask([]byte(maskOf(set))); err != nil || again != set {
			t.Fatalf("%q is %v, written again %v, %v", s, set, again, err)
		}
	})
}

func FuzzIsolcpus(f *testing.F) {
	for _, s := range []string{"isolcpus=nohz,domain,1-3", "isolcpus=0-N:2/4", `isolcpus="all" -- x`, "isolcpus=0-4000000000"} {
		f.Add(s)
	}
	possible := cpuset.MustParse("0-7,1023")
	f.Fuzz(func(t *testing.T, s string) {
		if got := parseIsolcpus(s, possible); !got.SubsetOf(&possible) {
			t.Fatalf("%q isolates %v", s, got)
		}
	})
}

// FuzzRead puts arbitrary text into one file of each kind.
func FuzzRead(f *testing.F) {
	f.Add("0-3", "0-3", "f", "1", "0", "3", "f", "0", "10 21", "isolcpus=1")
	f.Add("0,2", "", "00000005", "4", "-1", "3", "1", "x", "10", "")
	f.Add("1-1023", "0-1023", "2", "2", "0", "4", "0", "", "", "a b")
	f.Fuzz(func(t *testing.T, online, present, core, socket, socketID, level, l3, node1, distance, cmdline string) {
		tree := fstest.MapFS{}
		put := func(path, text string) {
			if text != "" {
				tree[path] = &fstest.MapFile{Data: []byte(text)}
			}
		}
		put(cpuDir+"/online", online)
		put(cpuDir+"/present", present)
		for _, cpu := range []string{"/cpu0/", "/cpu1/"} {
			put(cpuDir+cpu+"online", "1")
			put(cpuDir+cpu+"topology/core_cpus", core)
			put(cpuDir+cpu+"topology/core_siblings_list", socket)
			put(cpuDir+cpu+"topology/physical_package_id", socketID)
			put(cpuDir+cpu+"cache/index2/level", level)
			put(cpuDir+cpu+"cache/index2/shared_cpu_map", l3)
		}
		put(nodeDir+"/node0/cpulist", core)
		put(nodeDir+"/node1/cpumap", node1)
		put(nodeDir+"/node0/distance", distance)
		put("proc/cmdline", cmdline)
		if m, err := Read(tree); err == nil {
			checkMachine(t, m)
		} else if m != nil {
			t.Fatalf("%v and %v", m, err)
		}
	})
}

func FuzzUnmarshalJSON(f *testing.F) {
	for _, s := range []string{"core:1", "pack:2 numa:1 l3:2 core:1 pu:2"} {
		m, err := Parse(s)
		if err != nil {
			f.Fatal(err)
		}
		text, err := json.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m := &Machine{}
		if err := json.Unmarshal(text, m); err == nil {
			checkMachine(t, m)
		}
	})
}

// checkMachine checks that a machine is valid, and that it can be printed and encoded.
func checkMachine(t *testing.T, m *Machine) {
	t.Helper()
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	if err := m.WriteTree(io.Discard); err != nil {
		t.Fatal(err)
	}
	roundTripJSON(t, m)
}
