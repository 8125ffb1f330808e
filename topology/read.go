package topology

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrUnsteady is the error of Read if CPUs go online or offline during each of its attempts.
var ErrUnsteady = errors.New("CPUs go online and offline while they are read")

// attempts is the maximum number of readings. Read repeats a reading during which a CPU went online or offline.
const attempts = 5

// ReadHost reads the topology of the machine that runs the program.
func ReadHost() (*Machine, error) { return Read(os.DirFS("/")) }

// Read reads a machine's topology from a file system whose root is the machine's "/". It reads
// sys/devices/system/cpu, sys/devices/system/node, the lists of performance and efficiency cores
// (sys/devices/cpu_core/cpus, cpu_atom/cpus and cpu_lowpower/cpus) and, on kernels without cpu/isolated, proc/cmdline.
//
// The kernel may not report everything. Read then assumes:
//
//   - A CPU without a core file is a core of its own.
//   - All CPUs without a package number form a socket.
//   - A CPU that is in no NUMA node's CPU list belongs to the node that is named in the CPU's directory. If the
//     kernel reports no nodes at all, all CPUs belong to node 0.
//   - In each NUMA node, the CPUs without an L3 form an L3 domain.
//   - If the lists of performance and efficiency cores are missing, unreadable, malformed or inconsistent, the speeds
//     of the CPUs determine the kinds of cores (Machine.KindsBySpeed).
//
// Read omits NUMA nodes without online CPUs.
//
// Read returns an error if files contradict each other, such as a CPU in two nodes, or two CPUs that report different CPUs for
// their core. Other errors are a malformed file, a file that is longer than any kernel file, and an online CPU whose number is
// too large for a cpuset.Set. The error names the file. The lists of performance and efficiency cores, the capacities and the
// maximum frequencies never cause an error.
func Read(fsys fs.FS) (*Machine, error) {
	for range attempts {
		m, steady, err := readOnce(fsys)
		if steady {
			return m, err
		}
	}
	return nil, fmt.Errorf("%s/online: %w", cpuDir, ErrUnsteady)
}

// readOnce reads the machine. steady reports whether the same CPUs were online before and after the reading.
func readOnce(fsys fs.FS) (m *Machine, steady bool, err error) {
	t := &fileReader{fsys: fsys}
	before, listed, err := t.read(cpuDir + "/online")
	if err != nil {
		return nil, true, err
	}
	before = bytes.Clone(before)
	f, err := t.readFacts(before, listed)
	if err == nil {
		m, err = f.buildMachine()
	}
	after, _, againErr := t.read(cpuDir + "/online")
	if againErr != nil {
		return nil, true, againErr
	}
	return m, bytes.Equal(before, after), err
}
