package guest

import (
	"fmt"
	"strings"
)

// Machine is the hardware that a guest has: sockets of NUMA nodes of cores of threads.
// Each NUMA node has an L3 cache of its own.
type Machine struct {
	Sockets, Nodes, Cores, Threads int // Nodes per socket, Cores per node, Threads per core
	NodeMB                         int // memory of each NUMA node in MiB; 0: 512
	Memoryless                     int // the last NUMA nodes that have no memory
}

// Big is two sockets of two NUMA nodes of four cores of two threads: 32 CPUs.
var Big = Machine{Sockets: 2, Nodes: 2, Cores: 4, Threads: 2}

// Small is a socket with two cores of two threads each.
var Small = Machine{Sockets: 1, Nodes: 1, Cores: 2, Threads: 2, NodeMB: 768}

// String is the machine in hwloc's notation.
func (m Machine) String() string {
	return fmt.Sprintf("pack:%d numa:%d core:%d pu:%d", m.Sockets, m.Nodes, m.Cores, m.Threads)
}

// CPUs is the number of logical CPUs.
func (m Machine) CPUs() int { return m.Sockets * m.Nodes * m.Cores * m.Threads }

// args are QEMU's arguments. A die for each NUMA node gives each its L3; CPUs are numbered thread by thread.
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

// commandLine returns the kernel's command line. Under load, emulated clocks drift if the kernel compares them with each other:
// the command line sets the TSC's rate and disables the test of the timer. QEMU before 8.1 can execute instructions that another
// CPU is replacing, as the kernel does when it enables features at boot: one CPU boots, and init starts the others.
func (g *Guest) commandLine() string {
	args := []string{"console=ttyS0", "panic=-1", "quiet", "tsc=reliable", "no_timer_check", "lpj=10000000", "cryptomgr.notests", "nowatchdog", "mitigations=off", "maxcpus=1"}
	if khz := tscKHz(); khz > 0 {
		args = append(args, fmt.Sprintf("tsc_early_khz=%d", khz))
	}
	if g.Systemd {
		args = append(args, "rdinit=/sbin/init", "systemd.unified_cgroup_hierarchy=1", "systemd.unit="+systemdUnit)
	} else {
		args = append(args, "rdinit=/init")
	}
	return strings.Join(args, " ")
}
