package topology

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/candor-project/candor/cpuset"
)

const (
	cpuDir  = "sys/devices/system/cpu"
	nodeDir = "sys/devices/system/node"
)

// A facts holds the information from the kernel. buildMachine derives a Machine from the facts.
type facts struct {
	online, offline, isolated cpuset.Set
	cpus                      []cpuFacts // the online CPUs, by id
	nodes                     []nodeFacts
	distanceTo                []int      // node number of each column of nodeFacts.distances; nil: unknown
	memory                    cpuset.Set // numbers of the nodes with memory; empty: unknown
	kinds                     []Kind     // kinds in the kernel's lists; nil: a single kind, or unknown
	kindsKnown                bool       // the kernel's lists determine the kinds; if false, the speeds do (KindsBySpeed)
}

// A cpuFacts is the kernel's information about an online CPU. An unknown set is empty, and an unknown number is -1.
type cpuFacts struct {
	id               int
	core, socket, l3 claim
	node             int // for a CPU that is in no node's set: the node that is named in the CPU's directory
	capacity, maxKHz int // 0: unknown
}

// A claim is a group of CPUs, such as a core, as the kernel reports the group in the directory of a single CPU.
type claim struct {
	id   int
	cpus cpuset.Set
}

// A nodeFacts is the kernel's information about a NUMA node.
type nodeFacts struct {
	id        int
	cpus      cpuset.Set
	distances []int // nil: unknown
}

// readFacts reads the kernel's information about the CPUs and the NUMA nodes. online is the content of the list of
// online CPUs. listed reports whether that list exists.
func (t *fileReader) readFacts(online []byte, listed bool) (*facts, error) {
	f := &facts{}
	present, err := t.findCPUs(f, online, listed)
	if err != nil {
		return nil, err
	}
	if f.isolated, err = t.readIsolated(present); err != nil {
		return nil, err
	}
	if err := t.readNodes(f); err != nil {
		return nil, err
	}
	f.kinds, f.kindsKnown = t.readKinds(&f.online)
	var onNodes cpuset.Set
	for i := range f.nodes {
		onNodes = onNodes.Union(f.nodes[i].cpus)
	}
	f.cpus = make([]cpuFacts, 0, f.online.Count())
	for id := range f.online.All() {
		c, err := t.readCPU(id, len(f.nodes) > 0 && !onNodes.Contains(id))
		if err != nil {
			return nil, err
		}
		f.cpus = append(f.cpus, c)
	}
	return f, nil
}

// findCPUs determines the present and the online CPUs. Kernels before 2.6.26 do not have the lists. On these kernels,
// every CPU has a directory. The directory of a CPU that can go offline has a file "online"; the directory of the boot
// CPU has no such file.
func (t *fileReader) findCPUs(f *facts, list []byte, listed bool) (present cpuset.Set, err error) {
	online, err := cpuset.Parse(string(list))
	if err != nil {
		return present, fmt.Errorf("%s/online: %w", cpuDir, err)
	}
	present, ok, err := t.readList(cpuDir + "/present")
	if err == nil && !ok {
		present, err = t.listDirectories(listed)
	}
	if err != nil {
		return present, err
	}
	if !listed {
		for id := range present.All() {
			file := cpuPath(id, "online")
			n, ok, err := t.readNumber(file)
			if err != nil {
				return present, err
			}
			if !ok || n != 0 {
				online.Add(id)
			}
		}
	}
	if online.IsEmpty() {
		return present, fmt.Errorf("%s: no online CPU found", cpuDir)
	}
	f.online, f.offline = online, present.Minus(online)
	return present.Union(online), nil
}

// listDirectories returns the CPUs that have a directory. A set cannot contain ids of cpuset.Max and above. If the list
// of online CPUs exists, such ids belong to offline CPUs, and listDirectories ignores them. Otherwise such an id is an
// error.
func (t *fileReader) listDirectories(listed bool) (s cpuset.Set, err error) {
	ids, err := t.listNumbered(cpuDir, "cpu")
	if err != nil {
		return s, err
	}
	for _, id := range ids {
		if id >= cpuset.Max && listed {
			continue
		}
		if id >= cpuset.Max {
			return s, fmt.Errorf("%s/cpu%d: CPU ids go from 0 to %d", cpuDir, id, cpuset.Max-1)
		}
		s.Add(id)
	}
	return s, nil
}

// readIsolated reads the CPUs that isolcpus= isolates from the scheduler.
func (t *fileReader) readIsolated(present cpuset.Set) (cpuset.Set, error) {
	s, ok, err := t.readList(cpuDir + "/isolated")
	if err != nil || ok {
		return s.Intersect(present), err
	}
	cmdline, _, err := t.read("proc/cmdline")
	if err != nil {
		return s, err
	}
	return parseIsolcpus(string(cmdline), present), nil
}

// readCPU reads the information about an online CPU. stray reports whether the CPU is in no node's set of CPUs.
func (t *fileReader) readCPU(id int, stray bool) (c cpuFacts, err error) {
	c.id = id
	if c.core, err = t.readClaim(id, "topology/core_cpus", "topology/thread_siblings", "topology/core_id"); err != nil {
		return c, err
	}
	if c.socket, err = t.readClaim(id, "topology/package_cpus", "topology/core_siblings", "topology/physical_package_id"); err != nil {
		return c, err
	}
	if c.l3, err = t.readL3(id); err != nil {
		return c, err
	}
	c.node = -1
	if stray {
		linked, err := t.listNumbered(cpuPath(id, ""), "node")
		if err != nil {
			return c, err
		}
		if len(linked) > 0 {
			c.node = linked[0]
		}
	}
	c.capacity = t.readOptionalNumber(cpuPath(id, "cpu_capacity"))
	c.maxKHz = t.readOptionalNumber(cpuPath(id, "cpufreq/cpuinfo_max_freq"))
	return c, nil
}

// readClaim reads a group of CPUs from the directory of a CPU. Linux before 5.3 has only oldFile; later versions have both
// files with the same content. number is the file with the group's number.
func (t *fileReader) readClaim(id int, file, oldFile, number string) (c claim, err error) {
	cpus, ok, err := t.readSet(cpuPath(id, file), cpuPath(id, file+"_list"))
	if err == nil && !ok {
		cpus, _, err = t.readSet(cpuPath(id, oldFile), cpuPath(id, oldFile+"_list"))
	}
	if err != nil {
		return c, err
	}
	c.cpus = cpus
	n, ok, err := t.readNumber(cpuPath(id, number))
	if !ok || n < -1 {
		n = -1
	}
	c.id = n
	return c, err
}

// cacheIndexes are the numbers of the cache directories, in search order. Nearly every machine numbers its caches L1d,
// L1i, L2, L3, so the L3 is usually index 3.
var cacheIndexes = [...]string{"3", "2", "4", "1", "5", "0", "6", "7", "8", "9"}

// readL3 reads the L3 cache of a CPU. The result is empty if the kernel reports no L3.
func (t *fileReader) readL3(id int) (c claim, err error) {
	c.id = -1
	for _, index := range cacheIndexes {
		dir := cpuPath(id, "cache/index"+index+"/")
		level, ok, err := t.read(dir + "level")
		if err != nil {
			return c, err
		}
		if !ok || string(level) != "3" {
			continue
		}
		kind, ok, err := t.read(dir + "type")
		if err != nil {
			return c, err
		}
		if ok && string(kind) != "Unified" {
			continue
		}
		if c.cpus, ok, err = t.readSet(dir+"shared_cpu_map", dir+"shared_cpu_list"); err != nil {
			return c, err
		}
		if !ok {
			continue
		}
		if n, ok, err := t.readNumber(dir + "id"); err != nil {
			return c, err
		} else if ok && n >= 0 {
			c.id = n
		}
		return c, nil
	}
	return c, nil
}

// readNodes reads the NUMA nodes.
func (t *fileReader) readNodes(f *facts) error {
	ids, err := t.listNumbered(nodeDir, "node")
	if err != nil {
		return err
	}
	columns := 0
	for _, id := range ids {
		dir := nodeDir + "/node" + strconv.Itoa(id) + "/"
		n := nodeFacts{id: id}
		if n.cpus, _, err = t.readSet(dir+"cpumap", dir+"cpulist"); err != nil {
			return err
		}
		if n.distances, err = t.readDistances(dir + "distance"); err != nil {
			return err
		}
		columns = max(columns, len(n.distances))
		f.nodes = append(f.nodes, n)
	}
	if f.memory, err = t.readNodesWithMemory(); err != nil {
		return err
	}
	f.distanceTo = ids
	if columns != len(ids) {
		// A row of the distance table has a column per online node. If the directories of some nodes are missing, as
		// in some recorded copies of sysfs, the list of possible nodes may still have as many nodes as there are columns.
		possible, _, err := t.readList(nodeDir + "/possible")
		if err != nil {
			return err
		}
		f.distanceTo = nil
		if possible.Count() == columns {
			f.distanceTo = possible.Slice()
		}
	}
	return nil
}

// readNodesWithMemory reads the set of NUMA nodes with memory. Linux before 4.14, if it was built without
// CONFIG_MOVABLE_NODE, has only the older file.
func (t *fileReader) readNodesWithMemory() (cpuset.Set, error) {
	nodes, ok, err := t.readList(nodeDir + "/has_memory")
	if err == nil && !ok {
		nodes, _, err = t.readList(nodeDir + "/has_normal_memory")
	}
	return nodes, err
}

// readDistances reads a row of the firmware's distance table.
func (t *fileReader) readDistances(file string) ([]int, error) {
	text, ok, err := t.read(file)
	if err != nil || !ok {
		return nil, err
	}
	var row []int
	for field := range bytes.FieldsSeq(text) {
		n, err := strconv.ParseUint(string(field), 10, 16)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("%s: %q is not a distance", file, shorten(field))
		}
		row = append(row, int(n))
	}
	return slices.Clip(row), nil
}

// cpuPath returns the path of a file in a CPU's directory, or the path of the directory if file is empty.
func cpuPath(id int, file string) string {
	path := cpuDir + "/cpu" + strconv.Itoa(id)
	if file == "" {
		return path
	}
	return path + "/" + file
}
