package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/candor-project/candor/cpuset"
)

// chaos runs many candor processes at once, and kills many of them at random times.
type chaos struct {
	*lab
	mu    sync.Mutex
	names []string // given so far; some of them live
	next  int

	killed, done, refused atomic.Int64
}

// TestKilledAtRandom runs 500 operations, eight at a time, and kills candor with SIGKILL at random times. At
// each sampled time, an exclusive CPU runs at most one container. After the next operation, each grant has
// processes and each group has a grant.
func TestKilledAtRandom(t *testing.T) {
	operations := 500
	switch {
	case os.Getenv("CANDOR_IN_GUEST") != "": // emulated CPUs are slow
		operations = 50
	case testing.Short():
		operations = 100
	}
	c := &chaos{lab: newLab(t)}
	c.need(2)
	c.nudge()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	watch := c.sample()

	var all sync.WaitGroup
	left := atomic.Int64{}
	for worker := range 8 {
		random := rand.New(rand.NewPCG(seed, uint64(worker)))
		all.Go(func() {
			for left.Add(1) <= int64(operations) {
				c.operation(random)
			}
		})
	}
	all.Wait()
	watch.stop()
	t.Logf("%d operations done, %d refused, %d killed; %d samples, %d with an exclusive CPU beside others",
		c.done.Load(), c.refused.Load(), c.killed.Load(), watch.samples, watch.telling)
	enough := operations / 25
	if c.done.Load() < int64(enough) || c.killed.Load() < int64(enough) || watch.telling < enough {
		t.Error("this tested next to nothing")
	}

	// Not nudge: the operation may report that a killed process was between the kernel and the file.
	do(t, c.candor(append([]string{"run", "--class", "flexible"}, play("exit", "0")...)...))
	for name, r := range c.ps() {
		if len(r.PIDs) == 0 {
			t.Errorf("an unused grant remains: %s %+v", name, r)
		}
		if has, err := c.tree.Group(name).Settings(); err != nil || has.CPUs != r.CPUs {
			t.Errorf("%s: granted %v, the kernel has %v, %v", name, r.CPUs, has.CPUs, err)
		}
	}
	for name := range c.ps() {
		do(t, c.candor("release", name, "--kill"))
	}
	c.nudge()
	c.empty()
}

// operation runs a random command of candor, and may kill it.
func (c *chaos) operation(random *rand.Rand) {
	cmd := c.candor(c.choose(random)...)
	var errOut strings.Builder
	cmd.Stderr = &errOut
	if err := cmd.Start(); err != nil {
		c.Error(err)
		return
	}
	if random.IntN(3) > 0 {
		time.Sleep(time.Duration(random.Int64N(int64(50 * time.Millisecond))))
		cmd.Process.Kill()
	}
	cmd.Wait()
	switch code := cmd.ProcessState.ExitCode(); code {
	case -1:
		c.killed.Add(1)
	case 0, 128 + 9: // 137: another operation has released it
		c.done.Add(1)
	case 2:
		c.refused.Add(1)
	default:
		c.Errorf("%v: exit %d: %s", cmd.Args[1:], code, &errOut)
	}
}

// choose returns a random command line.
func (c *chaos) choose(random *rand.Rand) []string {
	nap := play("nap", fmt.Sprintf("%dms", random.IntN(150)))
	switch random.IntN(8) {
	case 0, 1, 2:
		// x: all its CPUs are exclusive.
		return append([]string{"run", "--cpu", "1", "--name", c.name("x")}, nap...)
	case 3, 4:
		return append([]string{"run", "--cpu", fmt.Sprintf("%dm", 50+random.IntN(600)), "--name", c.name("f")}, nap...)
	case 5:
		return append([]string{"run", "--class", "flexible", "--name", c.name("s")}, nap...)
	case 6:
		return []string{"resize", c.known(random, "f"), "--cpu", fmt.Sprintf("%dm", 50+random.IntN(600))}
	default:
		return []string{"release", c.known(random, ""), "--kill"}
	}
}

// name returns a new name with the prefix kind.
func (c *chaos) name(kind string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	name := fmt.Sprintf("%s-%d", kind, c.next)
	c.names = append(c.names, name)
	return name
}

// known returns a recent name of a kind.
func (c *chaos) known(random *rand.Rand, kind string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	recent := slices.Clone(c.names[max(0, len(c.names)-16):])
	recent = slices.DeleteFunc(recent, func(name string) bool { return !strings.HasPrefix(name, kind) })
	if len(recent) == 0 {
		return "nobody"
	}
	return recent[random.IntN(len(recent))]
}

// A sampler reads the kernel's files repeatedly, without the lock, until it is stopped.
type sampler struct {
	*lab
	dir              string
	samples, telling int
	quit, ended      chan struct{}
}

func (l *lab) sample() *sampler {
	s := &sampler{lab: l, dir: "/sys/fs/cgroup" + l.parent, quit: make(chan struct{}), ended: make(chan struct{})}
	if l.tree.Version() == 1 {
		s.dir = "/sys/fs/cgroup/cpuset" + l.parent
	}
	go func() {
		defer close(s.ended)
		for {
			select {
			case <-s.quit:
				return
			case <-time.After(100 * time.Microsecond): // leave the CPU to the other goroutines
				s.look()
			}
		}
	}()
	return s
}

func (s *sampler) stop() {
	close(s.quit)
	<-s.ended
}

// look compares the CPUs of each container with only exclusive CPUs with the CPUs of all other containers.
func (s *sampler) look() {
	s.samples++
	entries, _ := os.ReadDir(s.dir)
	for _, own := range entries {
		if !own.IsDir() || !strings.HasPrefix(own.Name(), "x-") {
			continue
		}
		for _, other := range entries {
			if other.IsDir() && other != own {
				s.compare(own.Name(), other.Name())
			}
		}
	}
}

// compare fails the test if both containers run on the same CPU. The CPUs of own do not change while it runs.
// The other container's CPUs are read between two checks that both containers exist.
func (s *sampler) compare(own, other string) {
	if !s.lives(own) || !s.lives(other) {
		return
	}
	theirs, known := s.cpus(other)
	cpus, alsoKnown := s.cpus(own)
	if !s.lives(other) || !s.lives(own) || !known || !alsoKnown {
		return
	}
	s.telling++
	if cpus.Overlaps(&theirs) {
		s.Errorf("%s has CPUs %v, all exclusive, and %s has %v", own, cpus, other, theirs)
	}
}

func (s *sampler) lives(name string) bool {
	pids, err := os.ReadFile(filepath.Join(s.dir, name, "cgroup.procs"))
	return err == nil && len(pids) > 0
}

func (s *sampler) cpus(name string) (cpuset.Set, bool) {
	text, err := os.ReadFile(filepath.Join(s.dir, name, "cpuset.cpus"))
	if err != nil {
		return cpuset.Set{}, false
	}
	cpus, err := cpuset.Parse(string(text))
	return cpus, err == nil && !cpus.IsEmpty()
}
