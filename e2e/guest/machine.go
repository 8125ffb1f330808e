package guest

import (
	"fmt"
	"strings"
)

// Machine is the hardware of a guest. A socket consists of NUMA nodes, a NUMA node of cores, and a core of hardware threads, which are
// the CPUs. Each NUMA node has its own L3 cache.
type Machine struct {
	Sockets, Nodes, Cores, Threads int // Nodes per socket, Cores per node, Threads per core
	NodeMB                         int // memory of each NUMA node in MiB; 0: 512
	Memoryless                     int // number of NUMA nodes without memory, which are the nodes with the highest IDs
}

// Big has two sockets with two NUMA nodes each. A NUMA node has four cores with two threads each, so Big has 32 CPUs.
var Big = Machine{Sockets: 2, Nodes: 2, Cores: 4, Threads: 2}

// Medium has two sockets with two NUMA nodes each. A NUMA node has two cores with two threads each, so Medium has 16 CPUs.
var Medium = Machine{Sockets: 2, Nodes: 2, Cores: 2, Threads: 2}

// Small has a socket with two cores of two threads each.
var Small = Machine{Sockets: 1, Nodes: 1, Cores: 2, Threads: 2, NodeMB: 768}

// String returns a description of the machine in hwloc's notation.
func (m Machine) String() string {
	return fmt.Sprintf("pack:%d numa:%d core:%d pu:%d", m.Sockets, m.Nodes, m.Cores, m.Threads)
}

// CPUs returns the number of logical CPUs.
func (m Machine) CPUs() int { return m.Sockets * m.Nodes * m.Cores * m.Threads }

// args returns the arguments for QEMU. Each NUMA node is a die, so that it has its own L3 cache. The IDs of the CPUs of a core are
// consecutive.
func (m Machine) args() []string {
	nodes, perNode := m.Sockets*m.Nodes, m.Cores*m.Threads
	mb := m.NodeMB
	if mb == 0 {
		mb = 512
	}
	withMemory := nodes - m.Memoryless
	args := []string{"-m", fmt.Sprintf("%dM", withMemory*mb),
		"-smp", fmt.Sprintf("%d,sockets=%d,dies=%d,cores=%d,threads=%d", m.CPUs(), m.Sockets, m.Nodes, m.Cores, m.Threads)}
	for n := range nodes {
		node := fmt.Sprintf("node,nodeid=%d,cpus=%d-%d", n, n*perNode, (n+1)*perNode-1)
		if n < withMemory {
			args = append(args, "-object", fmt.Sprintf("memory-backend-ram,id=m%d,size=%dM", n, mb))
			node += fmt.Sprintf(",memdev=m%d", n)
		}
		args = append(args, "-numa", node)
	}
	for a := range nodes {
		for b := a + 1; b < nodes; b++ {
			args = append(args, "-numa", fmt.Sprintf("dist,src=%d,dst=%d,val=%d", a, b, m.distance(a, b)))
		}
	}
	return args
}

// distance returns the NUMA distance that firmware usually reports: 12 within a socket, 21 between sockets.
func (m Machine) distance(a, b int) int {
	if a/m.Nodes == b/m.Nodes {
		return 12
	}
	return 21
}

// countedKHz is the rate of the TSC of a guest whose clock counts instructions.
const countedKHz = 1_000_000

// commandLine returns the kernel's command line, which avoids two problems of the emulation. Under load, emulated clocks drift, so a
// comparison of clocks by the kernel would fail. Therefore the command line sets the rate of the TSC, and disables the test of the
// timer. QEMU before 8.1 can crash if a CPU executes an instruction while another CPU replaces it, and the kernel replaces
// instructions when it enables features at boot. Therefore only a single CPU boots, and init starts the other CPUs.
func (g *Guest) commandLine() string {
	args := []string{"console=ttyS0", "panic=-1", "quiet", "tsc=reliable", "no_timer_check", "lpj=10000000", "cryptomgr.notests", "nowatchdog", "mitigations=off", "maxcpus=1"}
	khz := uint64(countedKHz)
	if !g.Counted {
		khz = tscKHz()
	}
	if khz > 0 {
		args = append(args, fmt.Sprintf("tsc_early_khz=%d", khz))
	}
	if g.Systemd {
		args = append(args, "rdinit=/sbin/init", "systemd.unified_cgroup_hierarchy=1", "systemd.unit="+systemdUnit)
	} else {
		args = append(args, "rdinit=/init")
	}
	if g.Boot != "" {
		args = append(args, g.Boot)
	}
	return strings.Join(args, " ")
}
