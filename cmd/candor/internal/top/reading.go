// Package top implements candor top: the use of each CPU, and the use of its limit by each container. A Reading is a sample of
// the kernel's counters; Between computes Figures, which are rates, from two samples; Draw turns them into lines of text, for a
// terminal that Live keeps up to date or for another output. Only Source reads the machine, and only Live uses the terminal;
// everything between them is pure.
package top

import (
	"slices"
	"time"

	"github.com/candor-project/candor/cmd/candor/internal/cpumap"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/procfs"
)

// A Reading is what the kernel has counted until one time.
type Reading struct {
	At         time.Time
	Map        *cpumap.Map // who is on which CPU
	CPUs       map[int]procfs.CPUTime
	Containers []Container // in order of arrival
	Note       string      // what is to be said beside it
}

// A Container is what was read of one.
type Container struct {
	host.Grant
	host.ContainerState
	At time.Time // a little later than the whole reading

	Threads   []Thread // only of the one that is looked into
	ThreadsAt time.Time
	More      bool // it has more threads than were read
}

// A Thread is one of a container's.
type Thread struct {
	PID int
	procfs.Thread
}

// container finds one by its ID, or returns nil.
func (r *Reading) container(id string) *Container {
	i := slices.IndexFunc(r.Containers, func(c Container) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &r.Containers[i]
}

// maxThreads bounds what is read of the container that is looked into.
const maxThreads = 2000

// A Source reads this machine.
type Source struct {
	Host *host.Host
	tags cpumap.Tags // letters stay from one reading to the next
}

// Read reads the state and what the kernel has counted; of the container with the ID
// inside, if there is one, the threads too. Containers that end meanwhile have no counts.
func (s *Source) Read(inside string) (*Reading, error) {
	snapshot, err := s.Host.Snapshot()
	if err != nil {
		return nil, err
	}
	r := &Reading{Map: cpumap.Of(snapshot.Node), Note: snapshot.Beside()}
	r.Map.Tags, r.Map.Names = &s.tags, snapshot.PodNames()
	if r.CPUs, err = procfs.ReadCPUTimes(); err != nil {
		return nil, err
	}
	r.At = time.Now()
	for i := range snapshot.Grants {
		g := &snapshot.Grants[i]
		r.Containers = append(r.Containers, Container{Grant: *g, ContainerState: *s.Host.InspectContainer(g), At: time.Now()})
	}
	r.readThreads(inside)
	return r, nil
}

// readThreads reads the threads of a container's processes; those that end meanwhile are left out.
func (r *Reading) readThreads(id string) {
	c := r.container(id)
	if c == nil {
		return
	}
	c.Threads, c.ThreadsAt, c.More = nil, time.Now(), false
	for _, pid := range c.Processes {
		threads, _ := procfs.Threads(pid, maxThreads-len(c.Threads)+1)
		for _, t := range threads {
			if len(c.Threads) == maxThreads {
				c.More = true
				return
			}
			c.Threads = append(c.Threads, Thread{pid, t})
		}
	}
}
