package host

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/quota"
	"github.com/candor-project/candor/spec"
)

// An idleHost reports idle CPUs regardless of the machine's load. It records the actions of the loop.
type idleHost struct {
	*control
	*watch
}

func (idleHost) Idle() (map[int]time.Duration, error) {
	idle := map[int]time.Duration{}
	for cpu := range 64 {
		idle[cpu] = state.SinceBoot()
	}
	return idle, nil
}

func (h idleHost) Groups() ([]quota.Group, error) {
	groups, err := h.control.Groups()
	for i := range groups {
		if groups[i].Kernel != nil {
			groups[i].Kernel = &watched{groups[i].Kernel, h.watch}
		}
	}
	return groups, err
}

// A watch records the actions of the loop on a cgroup.
type watch struct {
	lock   sync.Mutex
	quotas []time.Duration // written quotas
	readAt time.Time       // time of the last read
	gap    time.Duration   // longest time between two reads
}

type watched struct {
	quota.Kernel
	*watch
}

func (w *watched) Read() (cgroup.Usage, error) {
	u, err := w.Kernel.Read()
	w.lock.Lock()
	defer w.lock.Unlock()
	if !w.readAt.IsZero() {
		w.gap = max(w.gap, time.Since(w.readAt))
	}
	w.readAt = time.Now()
	return u, err
}

func (w *watched) SetQuota(limit quota.Limit) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.quotas = append(w.quotas, time.Duration(limit))
	return w.Kernel.SetQuota(limit)
}

// raised and back report whether a quota above the base was written, and after it the base.
func (w *watch) raised(base time.Duration) bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.ContainsFunc(w.quotas, func(q time.Duration) bool { return q > base })
}

func (w *watch) back(base time.Duration) bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	first := slices.IndexFunc(w.quotas, func(q time.Duration) bool { return q > base })
	return first >= 0 && slices.Contains(w.quotas[first:], base)
}

// A raised is a spinning container that the loop manages, as on idle CPUs.
type raised struct {
	*lab
	*tenant
	*watch
	base time.Duration // its quota
	self Process
	stop func()
}

func newRaised(t *testing.T) *raised {
	if os.Getenv("CANDOR_IN_GUEST") != "" {
		t.Skip("in guests e2e sees a quota raised, by CPUs that are idle")
	}
	l := newLab(t)
	l.needCPUs(2)
	r := &raised{lab: l, watch: &watch{}, tenant: l.must(bursting("web", "0.5", spec.BurstAuto), "spin")}
	r.base = l.quotaOf("web")
	l.outweighOthers()
	var err error
	if r.self, err = state.ProcessOf(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	loop := quota.New(idleHost{&control{Host: l.Host, selects: isRaised, self: r.self}, r.watch}, l.Host.log)
	go func() { ended <- loop.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// outweighOthers gives the lab a higher weight than all other processes. Otherwise the lab would not use up
// its quota on a busy machine.
func (l *lab) outweighOthers() {
	l.Helper()
	all := l.tree.EngineGroup("all", l.parent)
	has, err := all.CPULimits()
	if err == nil {
		has.Weight = 10000
		err = all.SetCPULimits(has)
	}
	if err != nil {
		l.Fatal(err)
	}
}

// rest stops the program until its burst is full.
func (r *raised) rest() {
	r.cmd.Process.Signal(syscall.SIGSTOP)
	time.Sleep(1200 * time.Millisecond)
}

// resume lets the program run. used returns its CPU time and the elapsed time since then.
func (r *raised) resume() (used func() (cpu, span time.Duration)) {
	before, began := r.stat().CPU, time.Now()
	r.cmd.Process.Signal(syscall.SIGCONT)
	return func() (cpu, span time.Duration) { return r.stat().CPU - before, time.Since(began) }
}

func (r *raised) stat() cgroup.Stat {
	r.Helper()
	s, err := r.tree.Group("web").Stat()
	if err != nil {
		r.Fatal(err)
	}
	return s
}

// awaitRaise waits for a raise. It skips the test on a machine that is so busy that the cgroup is seldom throttled or
// the state cannot be locked in time.
func (r *raised) awaitRaise() {
	r.Helper()
	const enough = 100 // throttled periods: after 50 the loop raises a quota even without the period's edge
	from := r.stat().Throttled
	for end := time.Now().Add(time.Minute); !r.watch.raised(r.base); time.Sleep(5 * time.Millisecond) {
		throttled := r.stat().Throttled - from
		switch logged := r.log.String(); {
		case strings.Contains(logged, context.DeadlineExceeded.Error()):
			r.Skipf("the machine is too busy to note a loan: %s", logged)
		case throttled > enough:
			r.Fatalf("throttled in %d periods, and not raised: %s", throttled, logged)
		case time.Now().After(end):
			r.Skipf("the machine is too busy: throttled in %d periods of a minute", throttled)
		}
	}
}
