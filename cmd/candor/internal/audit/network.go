package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/ledger/softirq"
)

// Networks lists the running containers with their cgroups and network namespaces, a nested container before the container
// around it. It omits the pause containers of pods. It skips processes and cgroups that end meanwhile.
func Networks(tree *cgroup.Tree) ([]softirq.Container, error) {
	places, err := find(tree)
	if err != nil {
		return nil, err
	}
	var all []softirq.Container
	taken := map[int]bool{}
	for _, p := range places {
		c, err := readNetwork(tree, p, taken)
		if err != nil && !gone(err) {
			return nil, err
		}
		if err == nil && c != nil {
			all = append(all, *c)
		}
	}
	return all, nil
}

// maxParents bounds the processes of a container for which readNetwork reads the parent process, to find the monitor.
const maxParents = 64

// readNetwork reads the container of a cgroup. It returns nil for a cgroup without processes and for the pause container of a pod.
// The function read describes the parameter taken.
func readNetwork(tree *cgroup.Tree, p place, taken map[int]bool) (*softirq.Container, error) {
	pids, err := tree.EngineGroup("audit", p.path).Processes()
	if err != nil {
		return nil, err
	}
	c := &softirq.Container{ID: p.id}
	parents := map[int]int{}
	for _, pid := range pids {
		if taken[pid] {
			continue
		}
		taken[pid] = true
		if stat, err := procfs.ReadStat(pid); err == nil && len(parents) < maxParents {
			parents[pid] = stat.Parent
		}
		if namespace, err := networkNamespace(pid); err == nil && !slices.Contains(c.Namespaces, namespace) {
			c.Namespaces = append(c.Namespaces, namespace)
		}
	}
	if len(parents) == 0 || p.describe(parents).sandbox {
		return nil, nil
	}
	c.Groups, err = tree.GroupIDs(p.path)
	return c, err
}

// HostNetwork returns the inode number of the network namespace of process 1 or, without ptrace rights over process 1, of candor.
func HostNetwork() (inode uint32, err error) {
	if inode, err = networkNamespace(1); errors.Is(err, fs.ErrPermission) {
		inode, err = networkNamespace(os.Getpid())
	}
	return inode, err
}

// networkNamespace returns the inode number of a process's network namespace. Reading it requires ptrace rights.
func networkNamespace(pid int) (inode uint32, err error) {
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &st); err != nil {
		return 0, fmt.Errorf("cannot read the network namespace of process %d: %w", pid, err)
	}
	return uint32(st.Ino), nil
}
