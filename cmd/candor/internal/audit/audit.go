// Package audit finds the containers of this machine whose CPU count differs from their limit, for every container engine. It
// asks no engine, needs no state and changes nothing: it reads cgroups and processes, and the files of runtimes for names.
package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/procfs"
)

// A Container is a running container with its values in the kernel.
type Container struct {
	Name    string // as people call it: default/web/app, web; where that is not known the id's begin
	ID      string // the runtime's; of Candor's own the name
	Runtime string // docker, containerd, cri-o, podman, candor; "" where that is not known
	Group   string // path of its group from the mount point on

	CPUs  cpuset.Set   // of its cpuset
	Sees  int          // CPUs that the widest affinity of its processes has
	Limit hybrid.Milli // the least quota of its group and those above; 0: none
	// LimitedBy is the group that has that quota, often the container's own. The counts of periods are that
	// group's.
	LimitedBy     string
	Processes     int
	Threads       int
	Periods       uint64 // that began with work to do
	Throttled     uint64 // those in which the quota ran out
	ThrottledTime time.Duration
}

// Read lists the containers, the container with the largest loss first. It skips processes and cgroups that end meanwhile.
func Read(tree *cgroup.Tree) ([]Container, error) {
	places, err := find(tree)
	if err != nil {
		return nil, err
	}
	var all []Container
	taken := map[int]bool{}
	for _, p := range places {
		c, err := read(tree, p, taken)
		switch {
		case gone(err):
		case err != nil:
			return nil, err
		case c != nil:
			all = append(all, *c)
		}
	}
	sortByLoss(all)
	return all, nil
}

// gone reports whether an error means that a cgroup or process has ended.
func gone(err error) bool {
	return errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENODEV)
}

// read reads a container. It returns nil for a cgroup without processes and for the pause container of a pod. taken are the
// processes of nested containers.
func read(tree *cgroup.Tree, p place, taken map[int]bool) (*Container, error) {
	members, err := processes(tree, p, taken)
	if err != nil || len(members.parents) == 0 {
		return nil, err
	}
	known := p.describe(members.parents)
	if known.sandbox {
		return nil, nil
	}
	c := &Container{Name: known.name, ID: p.id, Runtime: known.runtime, Group: p.path, Processes: len(members.parents),
		Threads: members.threads, Sees: members.sees}
	if c.CPUs, err = tree.CPUsAt(p.path); err != nil {
		return nil, err
	}
	return c, c.measure(tree)
}

// members are the processes of a container, at most cgroup.MaxProcesses.
type members struct {
	parents map[int]int // their parents by process id
	threads int         // in sum
	sees    int         // CPUs of the widest affinity
}

// processes reads the members of a container.
func processes(tree *cgroup.Tree, p place, taken map[int]bool) (*members, error) {
	pids, err := tree.EngineGroup("audit", p.path).Processes()
	if err != nil {
		return nil, err
	}
	m := &members{parents: map[int]int{}}
	for _, pid := range pids {
		if taken[pid] {
			continue
		}
		taken[pid] = true
		status, err := procfs.ReadStatus(fmt.Sprintf("/proc/%d", pid))
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		m.parents[pid] = status.Parent
		m.threads += status.Threads
		m.sees = max(m.sees, status.CPUs.Count())
	}
	return m, nil
}

// measure reads the limit and the loss of the cgroup that has it.
func (c *Container) measure(tree *cgroup.Tree) error {
	bound, err := tree.Bound(c.Group)
	if err != nil || bound.Quota == 0 {
		return err
	}
	c.LimitedBy = bound.Path
	c.Limit = max(hybrid.Milli((bound.Quota*1000+bound.Period/2)/bound.Period), 1)
	used, err := tree.ReadUsage(bound.Path)
	c.Periods, c.Throttled, c.ThrottledTime = used.Periods, used.Throttled, used.ThrottledTime
	return err
}
