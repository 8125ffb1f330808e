package topology

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/candor-project/candor/cpuset"
)

// A row is a core of a small tree: its CPUs and their socket, node and L3. l3 is -1 without an L3.
type row struct {
	cpus                   string
	core, socket, node, l3 int
	capacity, maxKHz       int
}

// treeOf returns the files of a Linux 6 kernel for these cores. CPUs of a row that are not in the list online
// are offline.
func treeOf(online string, distances map[int]string, rows ...row) fstest.MapFS {
	on := cpuset.MustParse(online)
	var present cpuset.Set
	sockets, nodes, l3s := map[int]cpuset.Set{}, map[int]cpuset.Set{}, map[int]cpuset.Set{}
	for _, r := range rows {
		cpus := cpuset.MustParse(r.cpus)
		present = present.Union(cpus)
		cpus = cpus.Intersect(on)
		sockets[r.socket] = sockets[r.socket].Union(cpus)
		nodes[r.node] = nodes[r.node].Union(cpus)
		l3s[r.l3] = l3s[r.l3].Union(cpus)
	}
	tree := fstest.MapFS{}
	put := func(path string, value any) { tree[path] = &fstest.MapFile{Data: fmt.Appendln(nil, value)} }
	put(cpuDir+"/online", online)
	put(cpuDir+"/present", present)
	put(cpuDir+"/isolated", "")
	for _, r := range rows {
		cpus := cpuset.MustParse(r.cpus)
		for id := range cpus.All() {
			dir := fmt.Sprintf("%s/cpu%d/", cpuDir, id)
			if !on.Contains(id) {
				put(dir+"online", 0)
				continue
			}
			put(dir+"online", 1)
			put(dir+"topology/core_cpus", maskOf(cpus.Intersect(on)))
			put(dir+"topology/package_cpus", maskOf(sockets[r.socket]))
			put(dir+"topology/core_id", r.core)
			put(dir+"topology/physical_package_id", r.socket)
			if r.l3 >= 0 {
				put(dir+"cache/index3/level", 3)
				put(dir+"cache/index3/type", "Unified")
				put(dir+"cache/index3/id", r.l3)
				put(dir+"cache/index3/shared_cpu_map", maskOf(l3s[r.l3]))
			}
			if r.capacity > 0 {
				put(dir+"cpu_capacity", r.capacity)
			}
			if r.maxKHz > 0 {
				put(dir+"cpufreq/cpuinfo_max_freq", r.maxKHz)
			}
		}
	}
	for id, cpus := range nodes {
		put(fmt.Sprintf("%s/node%d/cpumap", nodeDir, id), maskOf(cpus))
		put(fmt.Sprintf("%s/node%d/distance", nodeDir, id), distances[id])
	}
	return tree
}

// xeonSNC returns 2 sockets with sub-NUMA clusters: the L3 of a socket spans its two nodes.
func xeonSNC() fstest.MapFS {
	var rows []row
	for i := range 16 {
		rows = append(rows, row{cpus: fmt.Sprintf("%d,%d", i, i+16), core: i % 8, socket: i / 8, node: i / 4, l3: i / 8})
	}
	return treeOf("0-31", map[int]string{0: "10 11 21 21", 1: "11 10 21 21", 2: "21 21 10 11", 3: "21 21 11 10"}, rows...)
}

// epycNPS4 returns a socket with 4 nodes, each with 2 L3s (core complexes).
func epycNPS4() fstest.MapFS {
	var rows []row
	for i := range 32 {
		rows = append(rows, row{cpus: fmt.Sprintf("%d,%d", i, i+32), core: i, node: i / 8, l3: i / 4})
	}
	return treeOf("0-63", map[int]string{0: "10 12 12 12", 1: "12 10 12 12", 2: "12 12 10 12", 3: "12 12 12 10"}, rows...)
}

// withKinds adds the kernel's lists of performance and efficiency cores to a tree. An empty list is missing.
func withKinds(tree fstest.MapFS, core, atom, lowPower string) fstest.MapFS {
	for i, list := range []string{core, atom, lowPower} {
		if list != "" {
			tree[kindLists[i].file] = &fstest.MapFile{Data: []byte(list)}
		}
	}
	return tree
}

// meteorLake has P cores with two CPUs, E cores with one CPU, and the two slowest E cores outside of the L3.
func meteorLake() fstest.MapFS {
	tree := treeOf("0-7", map[int]string{0: "10"},
		row{cpus: "0-1", core: 0, maxKHz: 4800000}, row{cpus: "2-3", core: 4, maxKHz: 4800000},
		row{cpus: "4", core: 8, maxKHz: 3800000}, row{cpus: "5", core: 9, maxKHz: 3800000},
		row{cpus: "6", core: 32, l3: -1, maxKHz: 2500000}, row{cpus: "7", core: 33, l3: -1, maxKHz: 2500000})
	return withKinds(tree, "0-3", "4-7", "")
}

// arrowLake has 8 P cores, two of them favored, and 16 E cores, whose frequency is more than 80 % of that of the
// P cores. Each core has one CPU.
func arrowLake() fstest.MapFS {
	var rows []row
	for i := range 24 {
		khz := 4600000
		switch {
		case i == 4 || i == 5:
			khz = 5700000
		case i < 8:
			khz = 5500000
		}
		rows = append(rows, row{cpus: fmt.Sprint(i), core: i, maxKHz: khz})
	}
	return withKinds(treeOf("0-23", map[int]string{0: "10"}, rows...), "0-7", "8-23", "")
}

// bigLittle is an arm64 phone chip: 4 + 4 cores, no L3, capacities.
func bigLittle() fstest.MapFS {
	var rows []row
	for i := range 8 {
		capacity := 446
		if i >= 4 {
			capacity = 1024
		}
		rows = append(rows, row{cpus: fmt.Sprint(i), core: i, l3: -1, capacity: capacity})
	}
	return treeOf("0-7", map[int]string{0: "10"}, rows...)
}

// halfOff has CPU 0, a whole core and the first threads of a node offline. A node with memory only is between
// the two nodes with CPUs.
func halfOff() fstest.MapFS {
	var rows []row
	for i := range 4 {
		rows = append(rows, row{cpus: fmt.Sprintf("%d,%d", i, i+4), core: i % 2, socket: i / 2, node: i / 2 * 2, l3: i / 2})
	}
	tree := treeOf("4,6-7", map[int]string{0: "10 17 21", 2: "21 28 10"}, rows...)
	tree[nodeDir+"/node1/cpumap"] = &fstest.MapFile{Data: []byte("00000000\n")}
	tree[nodeDir+"/node1/distance"] = &fstest.MapFile{Data: []byte("17 10 28\n")}
	return tree
}

// nodeOff has all CPUs of socket 0 and node 0 offline.
func nodeOff() fstest.MapFS {
	return treeOf("2-3", map[int]string{0: "10 21", 1: "21 10"},
		row{cpus: "0-1", core: 0}, row{cpus: "2-3", core: 0, socket: 1, node: 1, l3: 1})
}

// bare returns the files of some sandboxes: CPUs without any topology.
func bare() fstest.MapFS {
	return fstest.MapFS{cpuDir + "/online": &fstest.MapFile{Data: []byte("0-3\n")}}
}

func TestHandwrittenTrees(t *testing.T) {
	const fourNodes = "0:0-3,16-19 1:4-7,20-23 2:8-11,24-27 3:12-15,28-31"
	tests := []struct {
		name                      string
		tree                      fs.FS
		sockets, nodes, l3s       string // "number:CPUs …", by lowest CPU
		cores                     int
		threads, offline, desc    string // threads: the CPUs of the first core
		distances                 []int  // from the last node
		lastCapacity, lastMaxFreq int    // of the last CPU
	}{
		{"Xeon with SNC", xeonSNC(), "0:0-7,16-23 1:8-15,24-31", fourNodes, "0:0-7,16-23 1:8-15,24-31",
			16, "0,16", "", "pack:2 l3:1 numa:2 core:4 pu:2", []int{21, 21, 11, 10}, 0, 0},
		{"EPYC with NPS4", epycNPS4(), "0:0-63", "0:0-7,32-39 1:8-15,40-47 2:16-23,48-55 3:24-31,56-63",
			"0:0-3,32-35 1:4-7,36-39 2:8-11,40-43 3:12-15,44-47 4:16-19,48-51 5:20-23,52-55 6:24-27,56-59 7:28-31,60-63",
			32, "0,32", "", "pack:1 numa:4 l3:2 core:4 pu:2", []int{12, 12, 12, 10}, 0, 0},
		{"hybrid, some without L3", meteorLake(), "0:0-7", "0:0-7", "0:0-5 -1:6-7", 6, "0-1", "", "", []int{10}, 0, 2500000},
		{"arm64", bigLittle(), "0:0-7", "0:0-7", "-1:0-7", 8, "0", "", "pack:1 numa:1 core:8 pu:1", []int{10}, 1024, 0},
		{"offline CPUs, a node of memory", halfOff(), "0:4 1:6-7", "0:4 2:6-7", "0:4 1:6-7", 3, "4", "0-3,5", "", []int{21, 10}, 0, 0},
		{"a node offline", nodeOff(), "1:2-3", "1:2-3", "1:2-3", 1, "2-3", "0-1", "pack:1 numa:1 l3:1 core:1 pu:2", []int{10}, 0, 0},
		{"bare", bare(), "-1:0-3", "0:0-3", "-1:0-3", 4, "0", "", "pack:1 numa:1 core:4 pu:1", []int{10}, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Read(tt.tree)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Validate(); err != nil {
				t.Fatal(err)
			}
			last := m.CPUs[len(m.CPUs)-1]
			for _, c := range []struct {
				what      string
				got, want any
			}{
				{"sockets", showSockets(m), tt.sockets}, {"nodes", showNodes(m), tt.nodes}, {"L3s", show(m.L3s), tt.l3s},
				{"number of cores", len(m.Cores), tt.cores}, {"first core", m.Cores[0].CPUs.String(), tt.threads},
				{"offline", m.Offline.String(), tt.offline}, {"description", m.Description(), tt.desc},
				{"distances", fmt.Sprint(m.Nodes[len(m.Nodes)-1].Distances), fmt.Sprint(tt.distances)},
				{"has L3", m.HasL3, strings.Contains(" "+tt.l3s, " 0:") || strings.Contains(" "+tt.l3s, " 1:")},
				{"last capacity", last.Capacity, tt.lastCapacity}, {"last frequency", last.MaxKHz, tt.lastMaxFreq},
			} {
				if c.got != c.want {
					t.Errorf("%s: got %v, want %v", c.what, c.got, c.want)
				}
			}
		})
	}
}
