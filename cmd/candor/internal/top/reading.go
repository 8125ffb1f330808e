// Package top implements candor top, which shows the use of each CPU, and the share of its limit that each container uses. A
// Reading is a sample of the kernel's counters. Between computes Figures, which are rates, from two Readings. UI.Draw turns
// Figures into lines of text. Live shows these lines on a terminal, and updates them. Only Source reads the machine, and only
// Live uses the terminal. All other functions are pure.
package top

import (
	"slices"
	"time"

	"github.com/candor-project/candor/cmd/candor/internal/helpers"
	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/view"
)

// A Reading is a sample of the kernel's counters.
type Reading struct {
	At         time.Time
	Map        *cpumap.Map // the node's CPUs and their containers
	CPUs       map[int]procfs.CPUTime
	Containers []Container      // in order of arrival
	Note       string           // warning of the host's snapshot, or ""
	Helpers    *helpers.Reading // nil for users other than root
}

// A Container is a sample of a container.
type Container struct {
	host.Grant
	host.ContainerState
	At       time.Time    // time of this container's sample, a little after Reading.At
	SeenCPUs view.Summary // CPUs that the container sees

	Threads        []Thread // only for the opened container
	ThreadsAt      time.Time
	HasMoreThreads bool // the container has more threads than maxThreads
}

// A Thread is a thread of a container.
type Thread struct {
	PID int
	procfs.Thread
}

// container returns the container with an ID; nil if there is none.
func (r *Reading) container(id string) *Container {
	i := slices.IndexFunc(r.Containers, func(c Container) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &r.Containers[i]
}

// maxThreads bounds the number of threads that a sample holds.
const maxThreads = 2000

// A Source takes samples of this machine.
type Source struct {
	Host     *host.Host
	Helpers  *helpers.Meter
	tags     cpumap.Tags            // give a container the same letter in every sample
	observed map[string]observation // by container ID
}

// An observation holds the CPU counts that a container sees. A Source reuses an observation, because reading a mount table costs more time
// than reading the counters, and the table rarely changes.
type observation struct {
	view.Summary
	cpus cpuset.Set // cpuset at the time of the observation
	pid  int        // a process of the container at that time
	at   time.Time
}

// An observation is repeated after maxAge, and an observation with a note after maxNoteAge. An operation changes the cgroup and the view of
// a container at different moments, and an observation between these moments can have a false note.
const (
	maxAge     = 5 * time.Second
	maxNoteAge = time.Second
)

// isCurrent reports whether an observation is new enough, and the container still has the same cpuset and the same first process.
func (o *observation) isCurrent(c *host.ContainerState, now time.Time) bool {
	limit := maxAge
	if o.Note != "" {
		limit = maxNoteAge
	}
	return o.cpus == c.Settings.CPUs && o.pid == c.Processes[0] && now.Sub(o.at) < limit
}

// observe returns the CPU counts that a container sees.
func (s *Source) observe(g *host.Grant, c *host.ContainerState, now time.Time) observation {
	if g.State != host.Running || len(c.Processes) == 0 {
		return observation{}
	}
	if was, isKnown := s.observed[g.ID]; isKnown && was.isCurrent(c, now) {
		return was
	}
	o, err := s.Host.Observe(g)
	if err != nil {
		return observation{} // the container has ended
	}
	return observation{o.Summary(), c.Settings.CPUs, c.Processes[0], now}
}

// Read samples the state and the kernel's counters. inside is the ID of the opened container, whose threads are sampled too; "" if
// no container is open. A container that ends meanwhile has no counters.
func (s *Source) Read(inside string) (*Reading, error) {
	snapshot, err := s.Host.Snapshot()
	if err != nil {
		return nil, err
	}
	r := &Reading{Map: cpumap.FromNode(snapshot.Node), Note: snapshot.Warning()}
	r.Map.Tags, r.Map.Names = &s.tags, snapshot.DisplayNames()
	if r.CPUs, err = procfs.ReadCPUTimes(); err != nil {
		return nil, err
	}
	r.Helpers = s.Helpers.Read()
	r.At = time.Now()
	all := make(map[string]observation, len(snapshot.Grants))
	for i := range snapshot.Grants {
		g := &snapshot.Grants[i]
		c := Container{Grant: *g, ContainerState: *s.Host.InspectContainer(g), At: time.Now()}
		all[g.ID] = s.observe(g, &c.ContainerState, c.At)
		c.SeenCPUs = all[g.ID].Summary
		r.Containers = append(r.Containers, c)
	}
	s.observed = all
	r.readThreads(inside)
	return r, nil
}

// readThreads samples the threads of a container's processes. It skips processes and threads that end meanwhile.
func (r *Reading) readThreads(id string) {
	c := r.container(id)
	if c == nil {
		return
	}
	c.Threads, c.ThreadsAt, c.HasMoreThreads = nil, time.Now(), false
	for _, pid := range c.Processes {
		threads, _ := procfs.Threads(pid, maxThreads-len(c.Threads)+1)
		for _, t := range threads {
			if len(c.Threads) == maxThreads {
				c.HasMoreThreads = true
				return
			}
			c.Threads = append(c.Threads, Thread{pid, t})
		}
	}
}
