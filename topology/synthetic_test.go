package topology

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
)

func TestParseExample(t *testing.T) {
	m, err := Parse("pack:2 numa:2 l3:2 core:4 pu:2")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	// Linux numbers the first threads of all 32 cores, then the second threads.
	if got, want := showSockets(m), "0:0-15,32-47 1:16-31,48-63"; got != want {
		t.Errorf("sockets %s, want %s", got, want)
	}
	if got, want := showNodes(m), "0:0-7,32-39 1:8-15,40-47 2:16-23,48-55 3:24-31,56-63"; got != want {
		t.Errorf("nodes %s, want %s", got, want)
	}
	if got, want := show(m.L3s[:3]), "0:0-3,32-35 1:4-7,36-39 2:8-11,40-43"; got != want || len(m.L3s) != 8 {
		t.Errorf("L3s %s …, want %s …", got, want)
	}
	if got, want := show(m.Cores[15:18]), "15:15,47 0:16,48 1:17,49"; got != want || len(m.Cores) != 32 {
		t.Errorf("cores … %s …, want … %s …", got, want)
	}
	want := [][]int{{10, 12, 21, 21}, {12, 10, 21, 21}, {21, 21, 10, 12}, {21, 21, 12, 10}}
	for i, n := range m.Nodes {
		if !reflect.DeepEqual(n.Distances, want[i]) {
			t.Errorf("distances from node %d: %v, want %v", i, n.Distances, want[i])
		}
	}
	if m.Online != cpuset.Range(0, 63) || !m.Offline.IsEmpty() || !m.Isolated.IsEmpty() || !m.HasL3 {
		t.Errorf("online %v, offline %v, isolated %v, has L3 %v", m.Online, m.Offline, m.Isolated, m.HasL3)
	}
}

// TestParseSpellings: different descriptions of a machine give the same machine.
func TestParseSpellings(t *testing.T) {
	tests := map[string][]string{
		"pack:2 numa:1 l3:1 core:4 pu:2": {
			"Package:2 NUMANode:1 L3Cache:1 Core:4 PU:2", "socket:2 node:1 l3:1 core:4 pu:2",
			"pa:2 nu:1 l3:1 co:4 pu:2", "pack:2 [numa] l3:1 core:4 pu:2", "pack:2 [NUMANode(memory=16GB)] l3:1 core:4 pu:2",
			"numa:2 pack:1 l3:1 core:4 pu:2", "pack:2 l3:1 numa:1 core:4 pu:2", "  pack:2\tnuma:1\nl3:1 core:4  pu:2 ",
			"(memory=1GB) pack:2(memory=1GB) numa:1 l3:1(size=8MB memory=1) core:4 pu:2", "pack:2[numa]l3:1 core:4 pu:2",
			"pack:2 numa:1 l3u:1 l2:2 l1d:1 l1icache:2 core:1 pu:2", "machine:1 group:1 group0:2 pack:1 die:1 numa:1 l3:1 core:4 pu:2",
			"pack:2 numa:1 l3:1 core:4 l1:2 pu:1", "pack:002 numa:1 l3:1 core:4 pu:2",
		},
		"pack:1 numa:1 core:4 pu:1": {"core:4", "pu:4", "core:4 pu:1", "[numa] core:4", "pack:1 pu:4", "l2:2 core:2", "die:2 core:2"},
		"numa:1 pack:2 core:2 pu:1": {"pack:2 core:2", "[numa] pack:2 core:2"},
	}
	for canonical, spellings := range tests {
		want, err := Parse(canonical)
		if err != nil {
			t.Fatal(err)
		}
		if got := want.Description(); got != canonical {
			t.Errorf("%q describes itself as %q", canonical, got)
		}
		for _, s := range spellings {
			got, err := Parse(s)
			if err != nil {
				t.Error(err)
			} else if !reflect.DeepEqual(got, want) {
				t.Errorf("%q is not %q but %q", s, canonical, got.Description())
			}
		}
	}
}

// refused are invalid descriptions with a part of their error.
var refused = []struct{ description, want string }{
	{"", "no levels"},
	{"  ", "no levels"},
	{"(memory=1)", "no levels"},
	{"core", `"core" has no number`},
	{"core:", `"" is not a number of cores`},
	{"core:0", `"core" has 0: must be 1 to 1024`},
	{"core:-1", `"-1" is not a number`},
	{"core:+4", `"+4" is not a number`},
	{"core:4x", `"4x" is not a number`},
	{"core:4:2", `"4:2" is not a number`},
	{"core:1.5", `"1.5" is not a number`},
	{"core:1025", `"core" has 1025: must be 1 to 1024`},
	{"core:1000000", `"core" has 1000000: must be 1 to 1024`},
	{"core:99999999999999999999999999", "must be 1 to 1024"},
	{"pack:2 core:1024", "more than 1024 CPUs"},
	{"pack:1000 numa:1000 l3:1000 core:1000 pu:1000 l1:1000", "more than 1024 CPUs"},
	{"die:1024 die:1024 die:1024 die:1024 die:1024 die:1024 die:1024 core:1", "more than 1024 CPUs"},
	{"4", `unknown level "4"`},
	{"cores:4", `unknown level "cores"`},
	{"c:4", `unknown level "c"`},
	{"l6:2 core:4", `unknown level "l6"`},
	{"l3x:2 core:4", `unknown level "l3x"`},
	{"group1x:2 core:4", `unknown level "group1x"`},
	{"pack:2", "neither core nor pu"},
	{"pack:2 socket:2 core:4", `a second level of "socket"`},
	{"numa:2 [numa] core:4", `a second level of "[numa]"`},
	{"core:2 core:2", `a second level of "core"`},
	{"pu:2 core:4", `"core" after pu`},
	{"pu:2 l1:2", `"l1" after pu`},
	{"core:4 l3:1", `"l3" after core`},
	{"core:4 [numa] pu:2", `"[numa]" after core`},
	{"core:4 die:1", `"die" after core`},
	{"[pack] core:4", "only [numa] is valid in brackets"},
	{"[numa:2] core:4", "only [numa] is valid in brackets"},
	{"[numa core:4", "is not closed"},
	{"[numa(memory=1] core:4", "is not a NUMA node with attributes"},
	{"core:4(memory=1", "is not closed"},
	{"core:4(memory)", `"memory" is not an attribute`},
	{"core:4 (memory=1)", "unknown level"},
	{"core:4 pu:2(indexes=core:pu)", "indexes= is not supported"},
	{"[numa(Indexes=1,0)] core:4", "is not a NUMA node with attributes"},
	{"core:4\x00", "is not a number"},
	{strings.Repeat("l1:1 ", 100000), "neither core nor pu"},
	{strings.Repeat("x", 100000), "unknown level"},
	{"core:" + strings.Repeat("9", 100000), "must be 1 to 1024"},
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range refused {
		m, err := Parse(tt.description)
		if err == nil {
			t.Errorf("%q: no error, but %q", shorten(tt.description), m.Description())
			continue
		}
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Description != tt.description {
			t.Errorf("%q: error of type %T", shorten(tt.description), err)
		}
		if !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "pack:2 numa:2 l3:2 core:4 pu:2") {
			t.Errorf("%q: error %q, want %q and an example in it", shorten(tt.description), err, tt.want)
		}
		if len(err.Error()) > 400 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: not a line: %.500q", shorten(tt.description), err)
		}
	}
}

// TestParseRefusesCheaply: a description of a million CPUs is refused without creating them.
func TestParseRefusesCheaply(t *testing.T) {
	for _, description := range []string{"core:1000000", "pack:1000 core:1000"} {
		if n := testing.AllocsPerRun(10, func() { Parse(description) }); n > 20 {
			t.Errorf("Parse(%q) allocates %v times", description, n)
		}
	}
}

func TestParseSizes(t *testing.T) {
	for _, n := range []int{1, 1024} {
		for _, format := range []string{"core:%d", "pu:%d", "pack:%d core:1", "core:1 pu:%d", "numa:%d core:1"} {
			m, err := Parse(fmt.Sprintf(format, n))
			if err != nil {
				t.Fatal(err)
			}
			if m.Online.Count() != n || m.Validate() != nil {
				t.Errorf(format+": %d CPUs, %v", n, m.Online.Count(), m.Validate())
			}
		}
	}
}

func TestDescriptionOfIrregular(t *testing.T) {
	for name, m := range map[string]*Machine{
		"overlapping": {Online: cpuset.Range(0, 3), HasL3: true,
			Sockets: []Socket{{0, cpuset.Of(0, 1)}, {1, cpuset.Of(2, 3)}},
			Nodes:   []NUMANode{{ID: 0, CPUs: cpuset.Of(0, 3)}, {ID: 1, CPUs: cpuset.Of(1, 2)}},
			L3s:     []Domain{{0, cpuset.Range(0, 3)}},
			Cores:   []Domain{{0, cpuset.Of(0)}, {1, cpuset.Of(1)}, {2, cpuset.Of(2)}, {3, cpuset.Of(3)}}},
		"a core across sockets": {Online: cpuset.Range(0, 1),
			Sockets: []Socket{{0, cpuset.Of(0)}, {1, cpuset.Of(1)}},
			Nodes:   []NUMANode{{ID: 0, CPUs: cpuset.Of(0, 1)}},
			Cores:   []Domain{{0, cpuset.Of(0, 1)}}},
		"uneven": {Online: cpuset.Range(0, 2),
			Sockets: []Socket{{0, cpuset.Of(0, 1)}, {1, cpuset.Of(2)}},
			Nodes:   []NUMANode{{ID: 0, CPUs: cpuset.Of(0, 1, 2)}},
			Cores:   []Domain{{0, cpuset.Of(0)}, {1, cpuset.Of(1)}, {2, cpuset.Of(2)}}},
	} {
		if got := m.Description(); got != "" {
			t.Errorf("%s: described as %q", name, got)
		}
	}
}
