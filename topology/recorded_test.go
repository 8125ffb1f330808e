package topology

import (
	"archive/tar"
	"compress/bzip2"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/candor-project/candor/cpuset"
)

// recordedDir has trees of /sys and /proc from real machines (hwloc's test suite), each with the output of
// lstopo. They are not part of this repository.
const recordedDir = "../../shared/machines"

// differences has the machines for which lstopo's result differs on purpose. Each function changes lstopo's
// view before the comparison; the comments give the reasons.
var differences = map[string]func(v *lstopoView){
	// lstopo ran in a cgroup with the CPUs 0-5 and the memory nodes 0-5, and omits the others. Read returns the whole
	// machine; the cgroup determines the CPUs that Candor may use.
	"32amd64-4s2n4c-cgroup2": func(v *lstopoView) {
		v.sockets = append(v.sockets, Domain{3, cpuset.Range(24, 31)})
		v.nodes = append(v.nodes, Domain{6, cpuset.Range(24, 27)}, Domain{7, cpuset.Range(28, 31)})
		v.l3s = append(v.l3s, Domain{-1, cpuset.Range(24, 27)}, Domain{-1, cpuset.Range(28, 31)})
		for cpu := 6; cpu < 32; cpu++ {
			v.cores = append(v.cores, Domain{cpu % 4, cpuset.Of(cpu)})
		}
		v.cpus, v.absent = cpuset.Range(0, 31), cpuset.Set{}
	},
	// Node 0 is offline, but some of its CPUs are online. For lstopo they have no memory node. In a Machine every
	// online CPU has a node, here the node in the directories of the CPUs.
	"offline-cpu0-node0": func(v *lstopoView) {
		v.nodes = append(v.nodes, Domain{0, v.sockets[0].CPUs})
		sortDomains(v.nodes)
	},
	// The machine has no L3: L3s repeats the single node.
	"8em64t-2s4c-asymcaches": func(v *lstopoView) { v.l3s = []Domain{{-1, cpuset.Range(0, 7)}} },
	"2arm-2c":                func(v *lstopoView) { v.l3s = []Domain{{-1, cpuset.Range(0, 1)}} },
}

func TestRecordedMachines(t *testing.T) {
	trees, err := filepath.Glob(recordedDir + "/*.tar.bz2")
	if err != nil {
		t.Fatal(err)
	}
	if len(trees) == 0 {
		t.Skipf("no recorded machines in %s", recordedDir)
	}
	unused := map[string]bool{}
	for name := range differences {
		unused[name] = true
	}
	for _, tree := range trees {
		name := strings.TrimSuffix(filepath.Base(tree), ".tar.bz2")
		delete(unused, name)
		t.Run(name, func(t *testing.T) { compareRecorded(t, tree, name) })
	}
	for name := range unused {
		t.Errorf("differences has %s, which is not among the recorded machines", name)
	}
}

func compareRecorded(t *testing.T, tree, name string) {
	base := strings.TrimSuffix(tree, ".tar.bz2")
	output := base + ".lstopo.txt"
	if _, err := os.Stat(output); err != nil {
		output = base + ".xml"
	}
	want := readLstopo(t, output)
	if len(want.sockets) == 0 || len(want.nodes) == 0 || len(want.cores) == 0 || want.cpus.IsEmpty() {
		t.Fatalf("%s: not understood: %+v", output, want)
	}
	if change := differences[name]; change != nil {
		change(want)
	}
	m, err := Read(untar(t, tree))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Validate(); err != nil {
		t.Errorf("invalid: %v", err)
	}
	if m.Online != want.cpus || m.Offline != want.absent {
		t.Errorf("online %v, offline %v; lstopo: %v and %v", m.Online, m.Offline, want.cpus, want.absent)
	}
	sockets := make([]Domain, len(m.Sockets))
	for i, s := range m.Sockets {
		sockets[i] = Domain(s)
	}
	nodes := make([]Domain, len(m.Nodes))
	for i, n := range m.Nodes {
		nodes[i] = Domain{n.ID, n.CPUs}
	}
	compareDomains(t, "sockets", sockets, want.sockets)
	compareDomains(t, "NUMA nodes", nodes, want.nodes)
	compareDomains(t, "L3 domains", m.L3s, want.l3s)
	compareDomains(t, "cores", m.Cores, want.cores)
	compareDistances(t, m, want)
	compareKinds(t, m, want)
	if again := roundTripJSON(t, m); !reflect.DeepEqual(again, m) {
		t.Errorf("JSON changes the machine")
	}
}

func compareDomains(t *testing.T, what string, got, want []Domain) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s differ\n Read:   %v\n lstopo: %v", what, got, want)
	}
}

// compareDistances compares the distances of lstopo (XML only).
func compareDistances(t *testing.T, m *Machine, want *lstopoView) {
	t.Helper()
	compared := 0
	for _, from := range m.Nodes {
		for j, got := range from.Distances {
			if d, ok := want.distances[[2]int{from.ID, m.Nodes[j].ID}]; ok {
				compared++
				if got != d {
					t.Errorf("distance from node %d to %d: %d, lstopo has %d", from.ID, m.Nodes[j].ID, got, d)
				}
			}
		}
	}
	if compared != len(want.distances) {
		t.Errorf("compared %d distances, lstopo has %d", compared, len(want.distances))
	}
}

// compareKinds compares kinds, frequencies and capacities. lstopo puts CPUs with small differences into one kind with
// the lowest value. It orders the kinds by ascending efficiency; Kinds is in descending order of speed.
func compareKinds(t *testing.T, m *Machine, want *lstopoView) {
	t.Helper()
	if len(want.kinds) > 1 {
		var got, kinds []cpuset.Set
		for _, k := range m.Kinds {
			got = append(got, k.CPUs)
		}
		for _, k := range slices.Backward(want.kinds) {
			kinds = append(kinds, k.cpus)
		}
		if !slices.Equal(got, kinds) {
			t.Errorf("kinds %v, lstopo has %v", got, kinds)
		}
	} else if len(m.Kinds) > 0 {
		t.Errorf("kinds %v, lstopo has a single kind", m.Kinds)
	}
	for _, kind := range want.kinds {
		lowest := lstopoKind{cpus: kind.cpus}
		for id := range kind.cpus.All() {
			c := m.CPU(id)
			if mhz := c.MaxKHz / 1000; lowest.maxMHz == 0 || mhz < lowest.maxMHz {
				lowest.maxMHz = mhz
			}
			if lowest.capacity == 0 || c.Capacity < lowest.capacity {
				lowest.capacity = c.Capacity
			}
		}
		if kind.maxMHz != 0 && lowest.maxMHz != kind.maxMHz || kind.capacity != 0 && lowest.capacity != kind.capacity {
			t.Errorf("CPUs %v: at least %d MHz and capacity %d, lstopo has %d and %d",
				kind.cpus, lowest.maxMHz, lowest.capacity, kind.maxMHz, kind.capacity)
		}
	}
}

// untar extracts the files that Read needs from a recorded tree. MapFS resolves the symbolic links.
func untar(t testing.TB, name string) fs.FS {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tree := fstest.MapFS{}
	for r := tar.NewReader(bzip2.NewReader(f)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return tree
		}
		if err != nil {
			t.Fatal(err)
		}
		_, path, _ := strings.Cut(strings.TrimSuffix(h.Name, "/"), "/") // below the top directory of the tree
		isKinds := slices.ContainsFunc(kindLists[:], func(list struct{ file, name string }) bool { return path == list.file })
		if !strings.HasPrefix(path, cpuDir) && !strings.HasPrefix(path, nodeDir) && path != "proc/cmdline" && !isKinds {
			continue
		}
		file := &fstest.MapFile{Mode: h.FileInfo().Mode(), Data: []byte(h.Linkname)}
		if h.Typeflag == tar.TypeReg {
			if file.Data, err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
		tree[path] = file
	}
}
