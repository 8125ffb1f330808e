// Package audit finds the containers of this machine whose CPU count differs from their limit, for every container engine. It
// changes nothing, and needs neither an engine nor Candor's state. It reads cgroups and processes, and takes container names from
// the files of OCI runtimes.
package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/view"
)

// A Container is a running container with its values in the kernel.
type Container struct {
	Name    string // display name, such as default/web/app or web; the beginning of the ID if no name is known
	ID      string // ID from the runtime; the name of a container in Candor's own cgroup
	Runtime string // docker, containerd, cri-o, podman, candor; "": unknown
	Group   string // path of the container's cgroup below the mount point

	CPUs      cpuset.Set // cpuset of the cgroup
	Affinity  cpuset.Set // widest affinity of the container's processes
	Sees      int        // number of CPUs in Affinity
	SeesFiles int        // number of CPUs in the files of /proc and /sys; 0: unknown, or Observe was not called
	Memory    Memory
	// Observed has the CPUs that the container sees; zero: unknown, or Observe was not called.
	Observed view.Observation
	Limit    hybrid.Milli // smallest limit of the cgroup and its ancestors; 0: no limit
	// LimitedBy is the path of the cgroup with this limit. Periods, Throttled and ThrottledTime are counters of that cgroup.
	LimitedBy     string
	Main          int // ID of the first process
	Processes     int
	Threads       int
	Periods       uint64 // periods in which the cgroup had work
	Throttled     uint64 // periods in which the quota ran out
	ThrottledTime time.Duration
}

// Read lists the containers, the container with the most throttled time first. It skips processes and cgroups that end meanwhile.
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

// read reads a container. It returns nil for a cgroup without processes and for the pause container of a pod. read skips the processes
// in taken, which belong to nested containers, and adds the processes of the container to taken.
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
		Main: members.main(), Threads: members.threads, Affinity: members.widest, Sees: members.widest.Count()}
	if c.CPUs, err = tree.CPUsAt(p.path); err != nil {
		return nil, err
	}
	return c, c.measure(tree)
}

// members holds facts about the processes of a container. It covers at most cgroup.MaxProcesses processes.
type members struct {
	parents map[int]int // parent of each process, by process ID
	threads int         // threads of all processes
	widest  cpuset.Set  // widest affinity
}

// main returns the first process of the container: the process with the lowest ID among those whose parents are outside of the container.
func (m *members) main() (first int) {
	for pid, parent := range m.parents {
		if _, isInside := m.parents[parent]; !isInside && (first == 0 || pid < first) {
			first = pid
		}
	}
	return first
}

// processes reads the processes of a container that are not in taken, and adds them to taken.
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
		// The affinity comes from the system call, because Cpus_allowed in the status can contain offline CPUs.
		if cpus, err := procfs.Affinity(pid); err == nil && cpus.Count() > m.widest.Count() {
			m.widest = cpus
		}
	}
	return m, nil
}

// Observe sets Sees, SeesFiles and Observed of each container. views is the directory with the views of Candor's containers.
func Observe(all []Container, views string) {
	for i := range all {
		c := &all[i]
		o, err := view.Observe(c.Main, views)
		if err != nil {
			continue // the process has ended
		}
		o.Widen(c.Affinity)
		o.WidenByThreads(c.Main, c.CPUs)
		s := o.Summary()
		c.Sees, c.SeesFiles, c.Observed = s.Affinity, s.Files, o
		c.Memory.see(&o, views)
	}
}

// Memory is the memory of a container in bytes.
type Memory struct {
	Limit   int64  // lowest limit of its cgroup and the cgroups above; 0: none below the machine's memory
	Shown   int64  // MemTotal in its /proc/meminfo; 0: unknown
	Foreign string // file system of a file over /proc/meminfo that is neither of the kernel nor of Candor, such as fuse.lxcfs; "": none
}

// Differs reports whether the container has a memory limit and its /proc/meminfo shows other memory.
func (m *Memory) Differs() bool { return m.Limit != 0 && m.Shown != 0 && m.Shown>>10 != m.Limit>>10 }

// see sets the memory that the container sees.
func (m *Memory) see(o *view.Observation, views string) {
	machine, err := view.ReadMachineMemory()
	if err != nil {
		return
	}
	switch m.Foreign = o.ForeignMeminfo; {
	case m.Foreign != "":
	case o.Live.Memory:
		m.Shown, _ = view.ReadMemTotal(filepath.Join(views, o.View)) // an error leaves it unknown
	case o.IsHostMeminfo:
		m.Shown = machine.Total
	}
	if m.Limit >= machine.Total {
		m.Limit = 0
	}
}

// SeenCPUs returns the CPU counts that Observe has found.
func (c *Container) SeenCPUs() view.Summary {
	return view.Summary{Affinity: c.Sees, Files: c.SeesFiles}
}

// measure reads the limit of the container, and the throttling of the cgroup that sets this limit.
func (c *Container) measure(tree *cgroup.Tree) error {
	if m, err := tree.ReadMemory(c.Group); err == nil && m.Bound.Limit != cgroup.NoMemoryLimit { // without the controller there is no limit
		c.Memory.Limit = m.Bound.Limit
	}
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
