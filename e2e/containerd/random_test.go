package containerd

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/candor-project/candor/hybrid"
)

// A worker has a pod at a time, and performs random operations on it.
type worker struct {
	*census
	random *rand.Rand
	pod    *pod
	ctrs   []*container // of the pod, that run
	most   int          // of a limit, in tenths of a CPU
	blind  bool         // containers may be started without a plan, and operations may break off
	ops    int
	done   map[string]int // operations by kind that were not refused
}

// newWorkers returns workers with different sequences of operations, which are the same in every run.
func newWorkers(c *census, seed uint64, most int, blind bool) []*worker {
	workers := make([]*worker, 4)
	for i := range workers {
		workers[i] = &worker{census: c, random: rand.New(rand.NewPCG(seed, uint64(i))), most: most, blind: blind, done: map[string]int{}}
	}
	return workers
}

// all makes all workers perform an operation at the same time.
func all(workers []*worker, do func(*worker)) {
	var group sync.WaitGroup
	for _, w := range workers {
		group.Go(func() { do(w) })
	}
	group.Wait()
}

// step performs a random operation. A refusal because of missing CPUs is a valid result.
func (w *worker) step() {
	w.ops++
	kind, do := "create", w.create
	if w.pod != nil {
		switch n := w.random.IntN(10); {
		case n < 3 || len(w.ctrs) == 0:
			kind, do = "remove", w.remove
		case n < 6:
			kind, do = "restart", w.restart
		case n < 8 && w.any().limit != 0:
			kind, do = "resize", w.resize
		default:
			kind, do = "exec", w.look
		}
	}
	err := do()
	switch {
	case err == nil:
		w.done[kind]++
	case w.blind && isBroken(err):
		w.abandon()
	case !isRefusal(err):
		w.Errorf("operation %d, %s: %v", w.ops, kind, err)
	}
}

// any returns the container of the next operation: the pod's last container.
func (w *worker) any() *container { return w.ctrs[len(w.ctrs)-1] }

// isRefusal reports whether an error is a refusal because of missing CPUs.
func isRefusal(err error) bool {
	text := err.Error()
	return strings.Contains(text, "candor: container") &&
		(strings.Contains(text, hybrid.ErrNoCapacity.Error()) || strings.Contains(text, hybrid.ErrViewImpossible.Error()))
}

func last(s string, most int) string { return s[max(len(s)-most, 0):] }

// A part describes a container of a planned pod.
type part struct {
	name           string
	limit, request hybrid.Milli // 0: none
	sensitive      bool
	ends           bool // before the next container starts
}

// parts returns the containers of a typical pod: of one class, without limits, with an init container that
// requests more or less than its successor, or with a sidecar of the other class.
func (w *worker) parts() (annotations map[string]string, parts []part) {
	limit := hybrid.Milli(1+w.random.IntN(w.most)) * 100
	app := part{"app", limit, limit, true, false}
	switch w.random.IntN(6) {
	case 0:
		return nil, []part{{"app", limit, limit / 4, false, false}}
	case 1:
		return nil, []part{{"app", 0, 0, false, false}}
	case 2:
		most := hybrid.Milli(1+w.random.IntN(w.most)) * 100
		return sensitivePod, []part{{"init", most, most, true, true}, app}
	case 3:
		both := map[string]string{"candor.dev/class": "sensitive", "class.candor.dev/log": "flexible"}
		return both, []part{{"log", 100, 40, false, false}, app}
	default:
		return sensitivePod, []part{app}
	}
}

// inAll returns the limit and the request of a pod as the kubelet computes them: the maximum over the
// containers that run at the same time.
func inAll(parts []part) (limit, request hybrid.Milli) {
	var limits, requests hybrid.Milli
	for _, p := range parts {
		if p.limit == 0 {
			return 0, 0 // a container without a request has none here either
		}
		limit, request = max(limit, limits+p.limit), max(request, requests+p.request)
		if !p.ends {
			limits, requests = limits+p.limit, requests+p.request
		}
	}
	return limit, request
}

func (w *worker) create() (err error) {
	annotations, parts := w.parts()
	limit, request := inAll(parts)
	if w.pod, err = w.newPod(limit, request, annotations); err != nil {
		return err
	}
	for _, p := range parts {
		if !p.ends {
			err = w.run(p)
		} else {
			var init *container
			if init, err = w.pod.run(p.name, p.limit, p.request, p.sensitive, "true"); err == nil {
				err = init.ended()
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// run starts a container that continues to run, and checks the CPU counts that it sees.
func (w *worker) run(p part) error {
	ctr, err := w.pod.run(p.name, p.limit, p.request, p.sensitive)
	if err != nil {
		return err
	}
	w.ctrs = append(w.ctrs, ctr)
	w.begin(ctr)
	if ctr.sensitive && !w.blind {
		ctr.sees()
	}
	return nil
}

func (w *worker) remove() error {
	w.endAll()
	err := w.pod.remove()
	if err == nil {
		w.pod = nil
	}
	return err
}

// endAll removes the pod's containers from the census.
func (w *worker) endAll() {
	for _, ctr := range w.ctrs {
		w.end(ctr)
	}
	w.ctrs = nil
}

func (w *worker) restart() error {
	old := w.any()
	w.end(old)
	w.ctrs = w.ctrs[:len(w.ctrs)-1]
	if err := old.stop(); err != nil {
		return err
	}
	return w.run(part{old.name, old.limit, old.request, old.sensitive, false})
}

func (w *worker) resize() error {
	ctr, limit := w.any(), hybrid.Milli(1+w.random.IntN(w.most))*100
	w.end(ctr)
	err := ctr.resize(limit)
	if err == nil || isRefusal(err) {
		w.begin(ctr)
	}
	return err
}

// look executes a program in the container.
func (w *worker) look() error {
	ctr := w.any()
	switch {
	case w.blind:
		_, err := ctr.try("true")
		return err
	case ctr.sensitive:
		ctr.sees()
	default:
		before := ctr.cpus()
		if output := ctr.exec("nproc"); ctr.cpus() == before && output != strconv.Itoa(before.Count()) {
			w.Errorf("%s, CPUs %v: nproc prints %s", ctr.pod.name, before, output)
		}
	}
	return nil
}

// TestRandomPods: pods of both classes start, end, restart and are resized at random, four at a time. The
// test compares them with the kernel's values all the time.
func TestRandomPods(t *testing.T) {
	l := newLab(t)
	operations := 160
	if testing.Short() {
		operations = 60
	}
	workers := newWorkers(newCensus(l), 1, 12, false)
	all(workers, func(w *worker) {
		for range operations / len(workers) {
			w.step()
			w.check()
		}
		if w.pod != nil {
			if err := w.remove(); err != nil {
				t.Error(err)
			}
		}
	})
	l.emptyState()
	for _, kind := range []string{"create", "remove", "restart", "resize", "exec"} {
		sum := 0
		for _, w := range workers {
			sum += w.done[kind]
		}
		t.Logf("%s: %d done", kind, sum)
		if sum < operations/30 {
			t.Errorf("of %d operations only %d were a %s that was not refused", operations, sum, kind)
		}
	}
}

// emptyState checks that nothing remains of the removed containers.
func (l *lab) emptyState() {
	l.Helper()
	var state struct{ Grants []any }
	text, err := os.ReadFile(l.path("candor/state.json"))
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	if err != nil || len(state.Grants) > 0 {
		l.Errorf("left over (%v):\n%s", err, text)
	}
}
