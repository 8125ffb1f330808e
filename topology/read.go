package topology

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrUnsteady is returned by Read when CPUs go online and offline faster than
// they can be read.
var ErrUnsteady = errors.New("CPUs go online and offline while they are read")

// attempts bounds how often Read begins anew when a CPU comes or goes.
const attempts = 5

// ReadHost reads the topology of the machine that the program runs on.
func ReadHost() (*Machine, error) { return Read(os.DirFS("/")) }

// Read reads a machine's topology from a file system whose root is the
// machine's "/": sys/devices/system/cpu, sys/devices/system/node, and
// proc/cmdline where the kernel is too old for cpu/isolated.
//
// What the kernel does not tell is filled in so that a Machine always is
// complete: a CPU without a core file is a core of its own, CPUs without a
// package number are one socket, CPUs without a memory node are node 0 (or the
// node that their own directory names), and CPUs without an L3 share an L3
// domain with the others of their node that have none. A NUMA node without
// online CPUs is left out.
//
// It is an error when files contradict each other (a CPU in two nodes, a core
// that two CPUs describe differently), cannot be parsed, are longer than any
// kernel writes them, or if a CPU that a cpuset.Set cannot hold is online.
// Errors name the file.
func Read(fsys fs.FS) (*Machine, error) {
	for range attempts {
		m, steady, err := readOnce(fsys)
		if steady {
			return m, err
		}
	}
	return nil, fmt.Errorf("%s/online: %w", cpuDir, ErrUnsteady)
}

// readOnce reads the machine; steady tells whether the same CPUs were online
// before and after.
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
