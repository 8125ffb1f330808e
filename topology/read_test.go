package topology

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/candor-project/candor/cpuset"
)

// edited returns xeonSNC with changed files. An empty text removes the file.
func edited(files map[string]string) fstest.MapFS {
	tree := xeonSNC()
	for path, text := range files {
		if delete(tree, path); text != "" {
			tree[path] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return tree
}

func TestReadRefuses(t *testing.T) {
	const cpu, node = cpuDir + "/cpu5/", nodeDir + "/node1/"
	tests := []struct {
		name, file, text string
		want             string // in the error, besides the file
	}{
		{"CPU id too high", cpuDir + "/online", "0-31,1024", "CPU ids go from 0 to 1023"},
		{"garbage memory", nodeDir + "/has_memory", "all", "must be CPU ids"},
		{"nothing online", cpuDir + "/online", "\n", "no online CPU"},
		{"garbage online", cpuDir + "/online", "all of them", "must be CPU ids"},
		{"garbage isolated", cpuDir + "/isolated", "3-1", "a range must rise"},
		{"CPU in two nodes", node + "cpumap", "00000011", "CPU 0 is also in node0"},
		{"garbage node", node + "cpumap", "0x11", "must be a CPU mask"},
		{"garbage distance", node + "distance", "10 -21", `"-21" is not a distance`},
		{"distance 0", node + "distance", "0 10 10 10", `"0" is not a distance`},
		{"core that others deny", cpu + "topology/core_cpus", "00000020", "but cpu5 reports 5"},
		{"core that overlaps", cpu + "topology/core_cpus", "00000030", "its core has CPUs 4-5, but cpu4 reports 4,20"},
		{"core of others", cpu + "topology/core_cpus", "00000040", "the CPU is not in its own core, which has CPUs 6"},
		{"socket that overlaps", cpu + "topology/package_cpus", "ffffffff", "its socket has CPUs 0-31, but cpu0 reports 0-7,16-23"},
		{"L3 of others", cpu + "cache/index3/shared_cpu_map", "ff00ff00", "not in its own L3, which has CPUs 8-15,24-31"},
		{"garbage L3", cpu + "cache/index3/shared_cpu_map", "12345678,1", "must be a CPU mask"},
		{"garbage L3 id", cpu + "cache/index3/id", "zero", `"zero" is not a number`},
		{"garbage core id", cpu + "topology/core_id", "one", `"one" is not a number`},
		{"endless file", cpu + "topology/core_id", strings.Repeat("1", 1<<20), "longer than 65536 bytes"},
		{"endless line", cpuDir + "/online", strings.Repeat("1,", 1<<16), "longer than 65536 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Read(edited(map[string]string{tt.file: tt.text}))
			if err == nil {
				t.Fatalf("no error, but %v", m)
			}
			line := err.Error()
			directory := strings.TrimSuffix(filepath.Dir(strings.Replace(tt.file, "cpu5", "cpu", 1)), "/topology")
			if !strings.Contains(line, tt.want) || !strings.Contains(line, strings.TrimSuffix(directory, "/cache/index3")) {
				t.Errorf("error %q: want %q and the file %s in it", line, tt.want, tt.file)
			}
			if strings.ContainsRune(line, '\n') || len(line) > 300 {
				t.Errorf("not a line: %q", line)
			}
		})
	}
}

func TestReadEmptyTree(t *testing.T) {
	if m, err := Read(fstest.MapFS{}); err == nil || !strings.Contains(err.Error(), cpuDir) {
		t.Errorf("Read of nothing: %v, %v", m, err)
	}
	if m, err := Read(fstest.MapFS{cpuDir + "/cpu1024/online": &fstest.MapFile{}}); err == nil || !strings.Contains(err.Error(), "cpu1024: CPU ids go from 0 to 1023") {
		t.Errorf("Read of cpu1024 alone: %v, %v", m, err)
	}
}

// TestReadWithoutFiles: Read accepts missing and invalid optional files.
func TestReadWithoutFiles(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		check func(m *Machine) bool
	}{
		{"no distances", map[string]string{nodeDir + "/node0/distance": "", nodeDir + "/node1/distance": "", nodeDir + "/node2/distance": "", nodeDir + "/node3/distance": ""},
			func(m *Machine) bool { return fmt.Sprint(m.Nodes[1].Distances) == "[20 10 20 20]" }},
		{"one row of distances is short", map[string]string{nodeDir + "/node1/distance": "10 21"},
			func(m *Machine) bool { return fmt.Sprint(m.Nodes[1].Distances) == "[11 10 21 21]" }},
		{"frequency that the driver does not support", map[string]string{cpuDir + "/cpu3/cpufreq/cpuinfo_max_freq": "<unsupported>", cpuDir + "/cpu3/cpu_capacity": "-5"},
			func(m *Machine) bool { return m.CPU(3).MaxKHz == 0 && m.CPU(3).Capacity == 0 }},
		{"an instruction cache of level 3", map[string]string{cpuDir + "/cpu3/cache/index2/level": "3", cpuDir + "/cpu3/cache/index2/type": "Instruction", cpuDir + "/cpu3/cache/index2/shared_cpu_map": "8"},
			func(m *Machine) bool { return len(m.L3s) == 2 }},
		{"the L3 known to one CPU only", map[string]string{cpuDir + "/cpu3/cache/index3/level": "", cpuDir + "/cpu2/cache/index3/level": ""},
			func(m *Machine) bool { return len(m.L3s) == 2 && m.CPU(3).L3 == 0 }},
		{"other entries in the directories", map[string]string{cpuDir + "/cpufreq/boost": "1", cpuDir + "/cpu3x/online": "1", nodeDir + "/nodes": "1"},
			func(m *Machine) bool { return len(m.CPUs) == 32 && len(m.Nodes) == 4 }},
		{"isolated, as the kernel says", map[string]string{cpuDir + "/isolated": "2-3,40", "proc/cmdline": "isolcpus=7"},
			func(m *Machine) bool { return m.Isolated == cpuset.Of(2, 3) }},
		{"isolated, by the command line", map[string]string{cpuDir + "/isolated": "", "proc/cmdline": "isolcpus=domain,4-5"},
			func(m *Machine) bool { return m.Isolated == cpuset.Of(4, 5) }},
		{"offline CPU ids that a set cannot hold", map[string]string{cpuDir + "/present": "0-1151", cpuDir + "/isolated": "1,1024-1151",
			nodeDir + "/node1/cpumap": "1" + strings.Repeat(",00000000", 31) + ",00f000f0"},
			func(m *Machine) bool { return m.Offline == cpuset.Range(32, 1023) && m.Isolated == cpuset.Of(1) }},
		{"no list of the present CPUs, and the directory of one that a set cannot hold", map[string]string{cpuDir + "/present": "", cpuDir + "/cpu1151/x": "1"},
			func(m *Machine) bool { return len(m.CPUs) == 32 }},
		{"a NUL after masks and lists", map[string]string{nodeDir + "/node0/cpumap": "000f000f\n\x00", cpuDir + "/isolated": "3\n\x00", nodeDir + "/has_memory": "0-3\n\x00"},
			func(m *Machine) bool { return m.Nodes[0].CPUs.String() == "0-3,16-19" && m.Isolated == cpuset.Of(3) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Read(edited(tt.files))
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Validate(); err != nil || !tt.check(m) {
				t.Errorf("%v; %+v", err, m)
			}
		})
	}
}

func TestReadMemory(t *testing.T) {
	const has, hasNormal = nodeDir + "/has_memory", nodeDir + "/has_normal_memory"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string // the order of each node
	}{
		{"not reported", nil, "[] [] [] []"},
		{"every node", map[string]string{has: "0-3"}, "[] [] [] []"},
		{"no node", map[string]string{has: "\n"}, "[] [] [] []"},
		{"node 1 has none", map[string]string{has: "0,2-3"}, "[0 2 3] [0 2 3] [2 3 0] [3 2 0]"},
		{"an old kernel", map[string]string{hasNormal: "2"}, "[2] [2] [2] [2]"},
		{"the new file counts", map[string]string{has: "3", hasNormal: "2"}, "[3] [3] [3] [3]"},
		{"a node without CPUs is nearer", map[string]string{has: "0,2-4", nodeDir + "/node4/distance": "21 12 13 13 10", nodeDir + "/node4/cpumap": "0",
			nodeDir + "/node0/distance": "10 14 21 21 21", nodeDir + "/node1/distance": "14 10 21 21 12"},
			"[0 2 3 4] [4 0 2 3] [2 4 3 0] [3 4 2 0]"},
		{"as many nodes with memory as with CPUs", map[string]string{has: "0,2-3,5"}, "[0 5 2 3] [0 5 2 3] [2 3 5 0] [3 2 5 0]"},
		{"a node without a directory", map[string]string{has: "0,5"}, "[0 5] [0 5] [5 0] [5 0]"},
	} {
		m, err := Read(edited(tt.files))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var got []string
		for i := range m.Nodes {
			got = append(got, fmt.Sprint(m.Nodes[i].Memory))
		}
		if got := strings.Join(got, " "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		if err := m.Validate(); err != nil || !reflect.DeepEqual(roundTripJSON(t, m), m) {
			t.Errorf("%s: invalid (%v), or JSON changes it", tt.name, err)
		}
	}
}

// TestStrayCPUs: a CPU outside of all node sets belongs to the node in its directory.
func TestStrayCPUs(t *testing.T) {
	m, err := Read(edited(map[string]string{
		nodeDir + "/node0/cpumap": "", nodeDir + "/node0/distance": "", // CPUs 0-3 and 16-19
		cpuDir + "/cpu0/node0/x": "1", cpuDir + "/cpu1/node7/x": "1", cpuDir + "/cpu2/node1/x": "1",
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := "0:0 7:1 1:2,4-7,20-23 -1:3,16-19 2:8-11,24-27 3:12-15,28-31"
	if got := showNodes(m); got != want {
		t.Errorf("nodes %s, want %s", got, want)
	}
	if err := m.Validate(); err != nil {
		t.Error(err)
	}
}

// A changing is a file system in which a CPU goes offline after the read of the online CPUs, a number of
// times.
type changing struct {
	trees []fstest.MapFS
	opens int
	times int
}

func (c *changing) Open(name string) (fs.File, error) {
	f, err := c.trees[min(c.opens, c.times)%len(c.trees)].Open(name)
	if name == cpuDir+"/online" {
		c.opens++
	}
	return f, err
}

func TestReadWhileCPUsChange(t *testing.T) {
	before, after := xeonSNC(), maps.Clone(xeonSNC())
	after[cpuDir+"/online"] = &fstest.MapFile{Data: []byte("0-6,8-31\n")}
	for path := range after {
		if strings.HasPrefix(path, cpuDir+"/cpu7/") {
			delete(after, path)
		}
	}
	m, err := Read(&changing{trees: []fstest.MapFS{before, after}, times: 1})
	if err != nil || m.Offline != cpuset.Of(7) || m.Validate() != nil {
		t.Errorf("a CPU that goes offline: %v, %v", m, err)
	}
	_, err = Read(&changing{trees: []fstest.MapFS{before, after}, times: 1 << 30})
	if !errors.Is(err, ErrUnsteady) {
		t.Errorf("CPUs that never rest: error %v", err)
	}
}

// failing is a file system in which one file or directory cannot be read.
type failing struct {
	fstest.MapFS
	name string
}

func (f failing) Open(name string) (fs.File, error) {
	if name == f.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return f.MapFS.Open(name)
}

// TestReadReportsErrors: an unreadable file is an error and does not count as missing.
func TestReadReportsErrors(t *testing.T) {
	old, err := Parse("pack:2 l3:1 core:2")
	if err != nil {
		t.Fatal(err)
	}
	trees := map[bool]fstest.MapFS{false: xeonSNC(), true: sysfsOf(old, dialect{old: true})}
	for name, oldKernel := range map[string]bool{
		cpuDir + "/online": false, cpuDir + "/present": false, cpuDir + "/isolated": false, nodeDir: false,
		cpuDir + "/cpu2/topology/core_cpus": false, cpuDir + "/cpu2/topology/package_cpus": false,
		cpuDir + "/cpu2/topology/core_id": false, nodeDir + "/node1/cpumap": false, nodeDir + "/node1/distance": false,
		cpuDir + "/cpu2/cache/index3/level": false, cpuDir + "/cpu2/cache/index3/type": false,
		cpuDir + "/cpu2/cache/index3/shared_cpu_map": false, cpuDir + "/cpu2/cache/index3/id": false,
		cpuDir: true, cpuDir + "/cpu2/online": true, "proc/cmdline": true, cpuDir + "/cpu2/topology/thread_siblings": true,
	} {
		_, err := Read(failing{trees[oldKernel], name})
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s cannot be read: error %v", name, err)
		}
	}
}

// BenchmarkRead reads a tree of 256 CPUs from real files.
func BenchmarkRead(b *testing.B) {
	m, err := Parse("pack:2 numa:4 l3:2 core:8 pu:2")
	if err != nil {
		b.Fatal(err)
	}
	root := b.TempDir()
	for path, file := range sysfsOf(m, dialect{}) {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, file.Data, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	start := time.Now()
	for b.Loop() {
		if _, err := Read(os.DirFS(root)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(time.Since(start).Microseconds())/float64(b.N*len(m.CPUs)), "µs/CPU")
}
