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

// facts is what the kernel tells, as it tells it; machine() makes sense of it.
type facts struct {
	online, offline, isolated cpuset.Set
	cpus                      []cpuFacts // the online ones, by id
	nodes                     []nodeFacts
	distanceTo                []int      // node numbers that the columns of distances stand for
	memory                    cpuset.Set // numbers of the nodes with memory; empty: not reported
}

// cpuFacts is what the kernel tells of one online CPU. Sets are empty and
// numbers -1 where it does not tell.
type cpuFacts struct {
	id               int
	core, socket, l3 claim
	node             int // the node that a stray CPU's directory names
	capacity, maxKHz int // 0: not told
}

// A claim is what one CPU says of a group that it is in.
type claim struct {
	id   int
	cpus cpuset.Set
}

// nodeFacts is a NUMA node's directory.
type nodeFacts struct {
	id        int
	cpus      cpuset.Set
	distances []int // nil: not told
}

// facts reads everything but the list of online CPUs, which the caller did.
func (t *tree) facts(online []byte, listed bool) (*facts, error) {
	f := &facts{}
	present, err := t.which(f, online, listed)
	if err != nil {
		return nil, err
	}
	if f.isolated, err = t.isolated(present); err != nil {
		return nil, err
	}
	if err := t.nodes(f); err != nil {
		return nil, err
	}
	var onNodes cpuset.Set
	for i := range f.nodes {
		onNodes = onNodes.Union(f.nodes[i].cpus)
	}
	f.cpus = make([]cpuFacts, 0, f.online.Count())
	for id := range f.online.All() {
		c, err := t.cpu(id, len(f.nodes) > 0 && !onNodes.Contains(id))
		if err != nil {
			return nil, err
		}
		f.cpus = append(f.cpus, c)
	}
	return f, nil
}

// which finds out which CPUs there are and which of them are online. Kernels
// before 2.6.26 have no lists: there, every CPU has a directory, and its file
// "online" (the boot CPU has none) tells.
func (t *tree) which(f *facts, list []byte, listed bool) (present cpuset.Set, err error) {
	online, err := cpuset.Parse(string(list))
	if err != nil {
		return present, fmt.Errorf("%s/online: %w", cpuDir, err)
	}
	present, ok, err := t.list(cpuDir + "/present")
	if err == nil && !ok {
		present, err = t.directories(listed)
	}
	if err != nil {
		return present, err
	}
	if !listed {
		for id := range present.All() {
			file := cpuPath(id, "online")
			n, ok, err := t.number(file)
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

// directories returns the CPUs that have a directory. If the list of online
// CPUs is known, ids that a set cannot hold belong to offline CPUs.
func (t *tree) directories(listed bool) (s cpuset.Set, err error) {
	ids, err := t.numbered(cpuDir, "cpu")
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

// isolated reads the CPUs that isolcpus= keeps from the scheduler.
func (t *tree) isolated(present cpuset.Set) (cpuset.Set, error) {
	s, ok, err := t.list(cpuDir + "/isolated")
	if err != nil || ok {
		return s.Intersect(present), err
	}
	cmdline, _, err := t.read("proc/cmdline")
	if err != nil {
		return s, err
	}
	return parseIsolcpus(string(cmdline), present), nil
}

// cpu reads what the kernel tells of one online CPU. A stray CPU is in no
// node's own set.
func (t *tree) cpu(id int, stray bool) (c cpuFacts, err error) {
	c.id = id
	if c.core, err = t.claim(id, "topology/core_cpus", "topology/thread_siblings", "topology/core_id"); err != nil {
		return c, err
	}
	if c.socket, err = t.claim(id, "topology/package_cpus", "topology/core_siblings", "topology/physical_package_id"); err != nil {
		return c, err
	}
	if c.l3, err = t.l3(id); err != nil {
		return c, err
	}
	c.node = -1
	if stray {
		linked, err := t.numbered(cpuPath(id, ""), "node")
		if err != nil {
			return c, err
		}
		if len(linked) > 0 {
			c.node = linked[0]
		}
	}
	c.capacity = t.hint(cpuPath(id, "cpu_capacity"))
	c.maxKHz = t.hint(cpuPath(id, "cpufreq/cpuinfo_max_freq"))
	return c, nil
}

// claim reads a group of CPUs that CPU id says it is in. Linux 5.3 gave the
// files the names that say what they hold; the old ones stay.
func (t *tree) claim(id int, file, oldFile, number string) (c claim, err error) {
	cpus, ok, err := t.set(cpuPath(id, file), cpuPath(id, file+"_list"))
	if err == nil && !ok {
		cpus, _, err = t.set(cpuPath(id, oldFile), cpuPath(id, oldFile+"_list"))
	}
	if err != nil {
		return c, err
	}
	c.cpus = cpus
	n, ok, err := t.number(cpuPath(id, number))
	if !ok || n < -1 {
		n = -1
	}
	c.id = n
	return c, err
}

// cacheIndexes are the cache directories in the order in which the L3 is
// looked for: L1d, L1i, L2, L3 is how nearly every machine counts them.
var cacheIndexes = [...]string{"3", "2", "4", "1", "5", "0", "6", "7", "8", "9"}

// l3 reads the L3 cache that a CPU is in.
func (t *tree) l3(id int) (c claim, err error) {
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
		if c.cpus, ok, err = t.set(dir+"shared_cpu_map", dir+"shared_cpu_list"); err != nil {
			return c, err
		}
		if !ok {
			continue
		}
		if n, ok, err := t.number(dir + "id"); err != nil {
			return c, err
		} else if ok && n >= 0 {
			c.id = n
		}
		return c, nil
	}
	return c, nil
}

// nodes reads the NUMA nodes.
func (t *tree) nodes(f *facts) error {
	ids, err := t.numbered(nodeDir, "node")
	if err != nil {
		return err
	}
	columns := 0
	for _, id := range ids {
		dir := nodeDir + "/node" + strconv.Itoa(id) + "/"
		n := nodeFacts{id: id}
		if n.cpus, _, err = t.set(dir+"cpumap", dir+"cpulist"); err != nil {
			return err
		}
		if n.distances, err = t.distances(dir + "distance"); err != nil {
			return err
		}
		columns = max(columns, len(n.distances))
		f.nodes = append(f.nodes, n)
	}
	if f.memory, err = t.nodesWithMemory(); err != nil {
		return err
	}
	f.distanceTo = ids
	if columns != len(ids) {
		// A row has a column per online node. A tree whose other nodes' directories
		// are gone can still be told by the possible ones.
		possible, _, err := t.list(nodeDir + "/possible")
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

// nodesWithMemory reads which NUMA nodes have memory. Linux before 4.14 without
// CONFIG_MOVABLE_NODE has the older file only.
func (t *tree) nodesWithMemory() (cpuset.Set, error) {
	nodes, ok, err := t.list(nodeDir + "/has_memory")
	if err == nil && !ok {
		nodes, _, err = t.list(nodeDir + "/has_normal_memory")
	}
	return nodes, err
}

// distances reads one row of the firmware's distance table.
func (t *tree) distances(file string) ([]int, error) {
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

// cpuPath returns the path of a file in a CPU's directory; of the directory
// itself for "".
func cpuPath(id int, file string) string {
	path := cpuDir + "/cpu" + strconv.Itoa(id)
	if file == "" {
		return path
	}
	return path + "/" + file
}
