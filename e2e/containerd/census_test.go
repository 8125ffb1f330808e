package containerd

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
)

// A census records the running containers, and reads their settings from the kernel.
type census struct {
	*lab
	node  node
	state *host.Host // read only

	mu      sync.Mutex
	running map[*container]bool
}

func newCensus(l *lab) *census {
	l.Helper()
	state, err := host.Open(host.Options{StateDir: l.path("candor"), Config: l.path("host.json"),
		Cgroup: cgroup.Options{Parent: l.parent + "-run", Driver: cgroup.Cgroupfs, ReadOnly: true}})
	if err != nil {
		l.Fatal(err)
	}
	return &census{lab: l, node: node{l.all(), 100}, state: state, running: map[*container]bool{}}
}

func (c *census) begin(of *container) { c.mu.Lock(); c.running[of] = true; c.mu.Unlock() }
func (c *census) end(of *container)   { c.mu.Lock(); delete(c.running, of); c.mu.Unlock() }

// quiet runs f while it holds the lock of the state, so that no operation of Candor runs.
func (l *lab) quiet(do func()) {
	l.Helper()
	lock, err := os.OpenFile(l.path("candor/lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		l.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		l.Fatal(err)
	}
	do()
}

// check compares the kernel's settings with the invariants and with Candor's state. Reading the state checks
// the invariants of the state itself.
func (c *census) check() {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quiet(func() {
		facts := c.facts()
		for _, what := range c.node.broken(facts) {
			c.Error(what)
		}
		s, err := c.state.Snapshot()
		if err != nil {
			c.Error(err)
			return
		}
		granted := map[string]cpuset.Set{}
		for _, g := range s.Grants {
			granted[g.Engine.Name] = g.CPUs
		}
		for _, f := range facts {
			if got, known := granted["default/"+f.name]; !known || got != f.has.CPUs {
				c.Errorf("%s has the CPUs %v, the state has %v (%v)", f.name, f.has.CPUs, got, known)
			}
		}
	})
}

// facts returns the facts of all containers. The caller must have exclusive use of the census.
func (c *census) facts() []fact {
	c.Helper()
	facts := make([]fact, 0, len(c.running))
	for ctr := range c.running {
		has, err := ctr.has()
		if err != nil {
			c.Errorf("%s/%s: %v", ctr.pod.name, ctr.name, err)
			continue
		}
		facts = append(facts, fact{ctr.pod.name + "/" + ctr.name, ctr.limit, ctr.request, ctr.sensitive, has})
	}
	return facts
}

// has returns the kernel's current settings of all containers.
func (c *census) has() map[*container]cgroup.Settings {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[*container]cgroup.Settings{}
	for ctr := range c.running {
		s, err := ctr.has()
		if err != nil {
			c.Error(err)
		}
		all[ctr] = s
	}
	return all
}

// unmoved checks that the settings of containers have not changed.
func (c *census) unmoved(had map[*container]cgroup.Settings) {
	c.Helper()
	for ctr, before := range had {
		if now, err := ctr.has(); err != nil || now != before {
			c.Errorf("%s/%s had %+v and has %+v (%v)", ctr.pod.name, ctr.name, before, now, err)
		}
	}
}
