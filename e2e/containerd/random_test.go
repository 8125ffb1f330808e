package containerd

import (
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// A census knows which containers run, and looks at what the kernel has for them.
type census struct {
	*lab
	mu      sync.Mutex
	running map[*container]bool
}

func (c *census) begin(of *container) { c.mu.Lock(); c.running[of] = true; c.mu.Unlock() }
func (c *census) end(of *container)   { c.mu.Lock(); delete(c.running, of); c.mu.Unlock() }

// quiet does something while no operation of Candor is under way: it has the state's lock.
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

// check compares what the kernel has with what was asked for: a sensitive container has as many
// CPUs as its limit says, and at most the one with its fraction is anybody else's too.
func (c *census) check() {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quiet(func() {
		has := map[*container]cpuset.Set{}
		for ctr := range c.running {
			has[ctr] = ctr.cpus()
		}
		for ctr, cpus := range has {
			if !ctr.sensitive {
				continue
			}
			if cpus.Count() != ctr.limit.CPUs() {
				c.Errorf("%s/%s, limit %v, has the CPUs %v", ctr.pod.name, ctr.name, ctr.limit, cpus)
			}
			var shared cpuset.Set
			for other, theirs := range has {
				if other != ctr {
					shared = shared.Union(cpus.Intersect(theirs))
				}
			}
			if most := ctr.limit.CPUs() - int(ctr.limit/1000); shared.Count() > most {
				c.Errorf("%s/%s, limit %v: others run on %v of its CPUs %v", ctr.pod.name, ctr.name, ctr.limit, shared, cpus)
			}
		}
	})
}

// A worker has one pod at a time, and does one thing after the other with it.
type worker struct {
	*census
	random *rand.Rand
	pod    *pod
	ctr    *container
	limit  hybrid.Milli
	most   int  // of the limit, in tenths of a CPU
	blind  bool // containers may be started without a plan, and see everything
	ops    int
	done   map[string]int // operations by kind that were not refused
}

// step is one random operation. A refusal for want of CPUs is an answer like any other.
func (w *worker) step() {
	w.ops++
	kind, do := "resize", w.resize
	switch {
	case w.pod == nil:
		kind, do = "create", w.create
	case w.ctr == nil || w.random.IntN(3) == 0:
		kind, do = "remove", w.remove
	case w.random.IntN(2) == 0:
		kind, do = "restart", w.restart
	case !w.ctr.sensitive:
		return // it is not resized
	}
	err := do()
	switch {
	case err == nil && w.done != nil:
		w.done[kind]++
	case err != nil && !isRefusal(err):
		w.Errorf("operation %d, %s: %v; containerd said:\n%s", w.ops, kind, err, last(w.engine.said(), 3000))
	}
}

// isRefusal reports whether an error says that there are no CPUs for a container.
func isRefusal(err error) bool {
	text := err.Error()
	return strings.Contains(text, "candor: container") &&
		(strings.Contains(text, hybrid.ErrNoCapacity.Error()) || strings.Contains(text, hybrid.ErrViewImpossible.Error()))
}

func last(s string, most int) string { return s[max(len(s)-most, 0):] }

func (w *worker) create() (err error) {
	sensitive := w.random.IntN(2) == 0
	annotations, request := sensitivePod, hybrid.Milli(0)
	w.limit = hybrid.Milli(1+w.random.IntN(w.most)) * 100
	if sensitive {
		request = w.limit
	} else {
		annotations, request = nil, w.limit/4
	}
	if w.pod, err = w.newPod(w.limit, request, annotations); err != nil {
		return err
	}
	w.ctr, err = w.pod.run("app", w.limit, request, sensitive)
	w.begun(err)
	return err
}

// begun counts the container, and asks it what it sees.
func (w *worker) begun(err error) {
	if err != nil {
		w.ctr = nil
		return
	}
	w.begin(w.ctr)
	if w.ctr.sensitive && !w.blind {
		w.ctr.sees()
	}
}

func (w *worker) remove() error {
	if w.ctr != nil {
		w.end(w.ctr)
	}
	err := w.pod.remove()
	w.pod, w.ctr = nil, nil
	return err
}

func (w *worker) restart() error {
	old := w.ctr
	w.end(old)
	if err := old.stop(); err != nil {
		return err
	}
	request := old.limit
	if !old.sensitive {
		request /= 4
	}
	var err error
	w.ctr, err = w.pod.run("app", old.limit, request, old.sensitive)
	w.begun(err)
	return err
}

func (w *worker) resize() error {
	limit := hybrid.Milli(1+w.random.IntN(w.most)) * 100
	w.end(w.ctr)
	err := w.ctr.resize(limit)
	if err == nil {
		w.ctr.limit = limit
	}
	w.begin(w.ctr)
	return err
}

// Pods of both classes come and go, are restarted and resized, four at a time; the kernel is
// asked all the while.
func TestRandomPods(t *testing.T) {
	l := newLab(t)
	operations := 300
	if testing.Short() {
		operations = 60
	}
	c := &census{lab: l, running: map[*container]bool{}}
	var all sync.WaitGroup
	const workers = 4
	var done [workers]map[string]int
	for i := range workers {
		done[i] = map[string]int{}
		all.Go(func() {
			w := &worker{census: c, random: rand.New(rand.NewPCG(1, uint64(i))), most: 12, done: done[i]}
			for range operations / workers {
				w.step()
				c.check()
			}
			if w.pod != nil {
				if err := w.remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	l.emptyState()
	for _, kind := range []string{"create", "remove", "restart", "resize"} {
		sum := 0
		for _, of := range done {
			sum += of[kind]
		}
		t.Logf("%s: %d done", kind, sum)
		if sum < operations/30 {
			t.Errorf("of %d operations only %d were a %s that was not refused", operations, sum, kind)
		}
	}
}

// emptyState checks that nothing is left of containers that are no more.
func (l *lab) emptyState() {
	l.Helper()
	text, err := os.ReadFile(l.path("candor/state.json"))
	if err != nil || !strings.Contains(string(text), `"grants": []`) {
		l.Errorf("left over (%v):\n%s", err, text)
	}
}
