package topology

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrUnsteady is returned by Read if CPUs go online and offline faster than Read can read them.
var ErrUnsteady = errors.New("CPUs go online and offline while they are read")

// attempts bounds the retries of Read when a CPU goes online or offline.
const attempts = 5

// ReadHost reads the topology of the machine that runs the program.
func ReadHost() (*Machine, error) { return Read(os.DirFS("/")) }

// Read reads a machine's topology from a file system whose root is the machine's "/". It reads
// sys/devices/system/cpu, sys/devices/system/node and, on kernels without cpu/isolated, proc/cmdline.
//
// Read completes missing information, so that a Machine is always complete:
//
//   - A CPU without a core file is a core.
//   - CPUs without a package number are a socket.
//   - CPUs without a memory node are in node 0, or in the node that their own directory names.
//   - CPUs without an L3 share an L3 domain with the other such CPUs of their node.
//   - A NUMA node without online CPUs is omitted.
//
// It is an error if files contradict each other (a CPU in two nodes, two CPUs that describe a core
// differently), if a file is malformed or longer than any kernel writes it, or if an online CPU
// exceeds the range of cpuset.Set. Errors name the file.
func Read(fsys fs.FS) (*Machine, error) {
	for range attempts {
		m, steady, err := readOnce(fsys)
		if steady {
			return m, err
		}
	}
	return nil, fmt.Errorf("%s/online: %w", cpuDir, ErrUnsteady)
}

// readOnce reads the machine. steady reports whether the same CPUs were online before and after.
func readOnce(fsys fs.FS) (m *Machine, steady bool, err error) {
	t := &tree{fsys: fsys}
	before, listed, err := t.read(cpuDir + "/online")
	if err != nil {
		return nil, true, err
	}
	before = bytes.Clone(before)
	f, err := t.facts(before, listed)
	if err == nil {
		m, err = f.machine()
	}
	after, _, againErr := t.read(cpuDir + "/online")
	if againErr != nil {
		return nil, true, againErr
	}
	return m, bytes.Equal(before, after), err
}
