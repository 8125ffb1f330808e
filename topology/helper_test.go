package topology

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/candor-project/candor/cpuset"
)

func roundTripJSON(t testing.TB, m *Machine) *Machine {
	t.Helper()
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	again := &Machine{}
	if err := json.Unmarshal(text, again); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return again
}

// A dialect is the format of a kernel's files: recent kernels have masks and lists under new names, old kernels have
// fewer files.
type dialect struct {
	lists bool // CPU lists only, no masks
	old   bool // thread_siblings and core_siblings; no lists of CPUs; isolcpus= only on the command line
}

// sysfsOf returns the files that a kernel has for the machine m.
func sysfsOf(m *Machine, d dialect) fstest.MapFS {
	tree := fstest.MapFS{}
	put := func(path string, value any) { tree[path] = &fstest.MapFile{Data: fmt.Appendln(nil, value)} }
	putSet := func(path, mask, list string, s cpuset.Set) {
		if d.lists {
			put(path+list, s)
		} else {
			put(path+mask, maskOf(s))
		}
	}
	if d.old {
		put("proc/cmdline", fmt.Sprintf("root=/dev/sda1 isolcpus=%v quiet", m.Isolated))
	} else {
		put(cpuDir+"/online", m.Online)
		put(cpuDir+"/present", m.Online.Union(m.Offline))
		put(cpuDir+"/isolated", m.Isolated)
	}
	core, socket := "topology/core_cpus", "topology/package_cpus"
	if d.old {
		core, socket = "topology/thread_siblings", "topology/core_siblings"
	}
	for _, c := range m.CPUs {
		dir := fmt.Sprintf("%s/cpu%d/", cpuDir, c.ID)
		if !c.Online {
			put(dir+"online", 0)
			continue
		}
		if c.ID != 0 {
			put(dir+"online", 1)
		} else {
			put(dir+"uevent", "") // a MapFS has no empty directories
		}
		putSet(dir+core, "", "_list", m.Cores[c.Core].CPUs)
		putSet(dir+socket, "", "_list", m.Sockets[c.Socket].CPUs)
		put(dir+"topology/core_id", m.Cores[c.Core].ID)
		put(dir+"topology/physical_package_id", m.Sockets[c.Socket].ID)
		putCaches(put, putSet, dir, m, c)
		if c.Capacity > 0 {
			put(dir+"cpu_capacity", c.Capacity)
		}
		if c.MaxKHz > 0 {
			put(dir+"cpufreq/cpuinfo_max_freq", c.MaxKHz)
		}
	}
	for _, list := range kindLists {
		for _, k := range m.Kinds {
			if k.Name == list.name {
				put(list.file, k.CPUs)
			}
		}
	}
	if memory := "has_memory"; len(m.Nodes) > 0 {
		if d.old {
			memory = "has_normal_memory"
		}
		var with cpuset.Set
		for i := range m.Nodes {
			if n := &m.Nodes[i]; n.HasMemory() {
				with.Add(n.ID)
			}
		}
		put(nodeDir+"/"+memory, with)
	}
	for _, n := range m.Nodes {
		dir := fmt.Sprintf("%s/node%d/", nodeDir, n.ID)
		putSet(dir, "cpumap", "cpulist", n.CPUs)
		put(dir+"distance", strings.Trim(fmt.Sprint(distancesByNumber(m, n)), "[]"))
	}
	return tree
}

// putCaches writes the L1 of a CPU and, if the machine has an L3, the L3.
func putCaches(put func(string, any), putSet func(path, mask, list string, s cpuset.Set), dir string, m *Machine, c CPU) {
	put(dir+"cache/index0/level", 1)
	put(dir+"cache/index0/type", "Data")
	putSet(dir+"cache/index0/", "shared_cpu_map", "shared_cpu_list", cpuset.Of(c.ID))
	if m.HasL3 {
		put(dir+"cache/index3/level", 3)
		put(dir+"cache/index3/type", "Unified")
		if id := m.L3s[c.L3].ID; id >= 0 {
			put(dir+"cache/index3/id", id)
		}
		putSet(dir+"cache/index3/", "shared_cpu_map", "shared_cpu_list", m.L3s[c.L3].CPUs)
	}
}

// distancesByNumber returns a node's distances by rising node number, as the kernel orders them.
// Machine.Nodes is ordered by lowest CPU.
func distancesByNumber(m *Machine, from NUMANode) []int {
	var row []int
	for id := range 1024 {
		for i, to := range m.Nodes {
			if to.ID == id {
				row = append(row, from.Distances[i])
			}
		}
	}
	return row
}

// maskOf returns a mask of 1024 CPUs.
func maskOf(s cpuset.Set) string {
	var words []string
	for word := cpuset.Max/32 - 1; word >= 0; word-- {
		bits := 0
		for b := range 32 {
			if s.Contains(word*32 + b) {
				bits |= 1 << b
			}
		}
		words = append(words, fmt.Sprintf("%08x", bits))
	}
	return strings.Join(words, ",")
}

// show formats domains as "0:0-3 1:4-7", for tables of expectations.
func show(domains []Domain) string {
	var parts []string
	for _, d := range domains {
		parts = append(parts, strconv.Itoa(d.ID)+":"+d.CPUs.String())
	}
	return strings.Join(parts, " ")
}

func showSockets(m *Machine) string {
	var all []Domain
	for _, s := range m.Sockets {
		all = append(all, Domain(s))
	}
	return show(all)
}

func showNodes(m *Machine) string {
	var all []Domain
	for _, n := range m.Nodes {
		all = append(all, Domain{n.ID, n.CPUs})
	}
	return show(all)
}
