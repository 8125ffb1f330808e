package topology

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
)

// described has machines with a synthetic description, and their trees.
var described = []struct{ description, want string }{
	{"pack:2 numa:2 l3:1 core:2 pu:2", `
2 sockets, 4 NUMA nodes, 4 L3 domains, 8 cores, 16 CPUs
├─ socket 0: 0-3,8-11
│  ├─ NUMA node 0, L3 0: 0-1,8-9
│  │  └─ 2 cores of 2 CPUs: 0,8 1,9
│  └─ NUMA node 1, L3 1: 2-3,10-11
│     └─ 2 cores of 2 CPUs: 2,10 3,11
└─ socket 1: 4-7,12-15
   ├─ NUMA node 2, L3 2: 4-5,12-13
   │  └─ 2 cores of 2 CPUs: 4,12 5,13
   └─ NUMA node 3, L3 3: 6-7,14-15
      └─ 2 cores of 2 CPUs: 6,14 7,15
distances between NUMA nodes:
        0    1    2    3
   0   10   12   21   21
   1   12   10   21   21
   2   21   21   10   12
   3   21   21   12   10
`},
	{"pack:2 numa:2 l3:10 core:2 pu:2", `
2 sockets, 4 NUMA nodes, 40 L3 domains, 80 cores, 160 CPUs
├─ socket 0: 0-39,80-119
│  ├─ NUMA node 0: 0-19,80-99
│  │  ├─ L3 0: 0-1,80-81
│  │  │  └─ 2 cores of 2 CPUs: 0,80 1,81
│  │  └─ 9 more alike: 2-19,82-99
│  └─ NUMA node 1: 20-39,100-119  (alike)
└─ socket 1: 40-79,120-159  (alike)
distances between NUMA nodes:
        0    1    2    3
   0   10   12   21   21
   1   12   10   21   21
   2   21   21   10   12
   3   21   21   12   10
`},
	{"numa:1 l3:1 core:32 pu:2", `
1 socket, 1 NUMA node, 1 L3 domain, 32 cores, 64 CPUs
└─ socket 0, NUMA node 0, L3 0: 0-63
   └─ 32 cores of 2 CPUs: 0-31 + 32-63
`},
}

func TestWriteTree(t *testing.T) {
	for _, tt := range described {
		m, err := Parse(tt.description)
		if err != nil {
			t.Fatal(err)
		}
		checkTree(t, tt.description, m, tt.want)
	}
}

// TestWriteTreeOfIrregularMachines: trees of machines that no synthetic description can express.
func TestWriteTreeOfIrregularMachines(t *testing.T) {
	hybrid, err := Read(meteorLake())
	if err != nil {
		t.Fatal(err)
	}
	arrow, err := Read(arrowLake())
	if err != nil {
		t.Fatal(err)
	}
	little, err := Read(bigLittle())
	if err != nil {
		t.Fatal(err)
	}
	off, err := Read(halfOff())
	if err != nil {
		t.Fatal(err)
	}
	off.Isolated = cpuset.Of(6)
	crossed, err := Parse("pack:2 core:2")
	if err != nil {
		t.Fatal(err)
	}
	crossed.Nodes = []NUMANode{
		{ID: 0, CPUs: cpuset.Of(0, 2), Distances: []int{10, 20}, Memory: []int{0}},
		{ID: 1, CPUs: cpuset.Of(1, 3), Distances: []int{20, 10}, Memory: []int{0}},
	}
	for _, tt := range []struct {
		name string
		m    *Machine
		want string
	}{
		{"hybrid", hybrid, `
1 socket, 1 NUMA node, 2 L3 domains, 6 cores (2 P, 4 E), 8 CPUs
└─ socket 0, NUMA node 0: 0-7
   ├─ L3 0: 0-5
   │  ├─ 2 P cores of 2 CPUs, max 4.8 GHz: 0-1 2-3
   │  └─ 2 E cores, max 3.8 GHz: 4-5
   └─ L3: 6-7  (2 E cores, max 2.5 GHz)
`},
		{"favored cores", arrow, `
1 socket, 1 NUMA node, 1 L3 domain, 24 cores (8 P, 16 E), 24 CPUs
└─ socket 0, NUMA node 0, L3 0: 0-23
   ├─ 8 P cores, max 5.5 to 5.7 GHz: 0-7
   └─ 16 E cores, max 4.6 GHz: 8-23
`},
		{"capacities", little, `
1 socket, 1 NUMA node, 8 cores of 2 kinds, 8 CPUs
└─ socket 0, NUMA node 0: 0-7
   ├─ 4 cores, capacity 446: 0-3
   └─ 4 cores, capacity 1024: 4-7
`},
		{"offline and isolated", off, `
2 sockets, 2 NUMA nodes, 2 L3 domains, 3 cores, 3 CPUs (and 5 offline)
├─ socket 0, NUMA node 0, L3 0: 4  (1 core)
└─ socket 1, NUMA node 2, L3 1: 6-7  (2 cores)
distances between NUMA nodes:
        0    2
   0   10   21
   2   21   10
offline: 0-3,5
isolated by isolcpus: 6
`},
		{"crossed", crossed, `
2 sockets, 2 NUMA nodes, 4 cores, 4 CPUs
├─ socket 0: 0-1
├─ socket 1: 2-3
├─ NUMA node 0: 0,2
├─ NUMA node 1: 1,3
└─ 4 cores: 0-3
distances between NUMA nodes:
        0    1
   0   10   20
   1   20   10
NUMA node 1 has no memory; node 0 is the nearest with memory
`},
	} {
		checkTree(t, tt.name, tt.m, tt.want)
	}
}

// checkTree compares the tree of a machine with want, which starts with a line break.
func checkTree(t *testing.T, name string, m *Machine, want string) {
	t.Helper()
	var b strings.Builder
	if err := m.WriteTree(&b); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != want[1:] {
		t.Errorf("%s: got\n%swant\n%s", name, got, want[1:])
	}
}

func TestDocsShowAHybridMachine(t *testing.T) {
	page, err := os.ReadFile("../docs/topology.md")
	if os.IsNotExist(err) && os.Getenv("CANDOR_IN_GUEST") != "" {
		t.Skip("the guest has no docs")
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := Read(meteorLake())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := m.WriteTree(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "\n"+b.String()) {
		t.Errorf("docs/topology.md does not show\n%s", b.String())
	}
}

// TestWriteTreeOfLargeMachines: the trees of the largest machines fit on a page.
func TestWriteTreeOfLargeMachines(t *testing.T) {
	for _, description := range []string{
		"core:1024", "pack:1024 core:1", "numa:1024 core:1", "l3:512 core:2", "pack:16 numa:4 l3:4 core:4",
		"pack:2 numa:4 l3:8 core:8 pu:2", "numa:32 pack:2 l3:2 core:2 pu:4", "pack:64 core:8 pu:2",
	} {
		m, err := Parse(description)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := m.WriteTree(&b); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(b.String(), "\n"); lines > 60 {
			t.Errorf("%s: %d lines", description, lines)
		}
		for line := range strings.Lines(b.String()) {
			if len(line) > 120 {
				t.Errorf("%s: a line of %d bytes: %s", description, len(line), line)
			}
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWriteTreeReportsErrors(t *testing.T) {
	m, err := Parse("core:1")
	if err != nil {
		t.Fatal(err)
	}
	if m.WriteTree(fullDisk{}) == nil {
		t.Error("an error of the writer is lost")
	}
}
