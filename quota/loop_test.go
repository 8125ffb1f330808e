package quota

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/burst"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
)

// A modelKernel runs a group of the model in real time. Tests inject errors and remove the group. Package
// host tests the loop on a real kernel.
type modelKernel struct {
	lock   sync.Mutex
	began  time.Duration
	sim    *bandwidth.Sim
	has    bandwidth.Bandwidth
	refuse error // result of SetQuota
	gone   error // error of Read
	quotas []time.Duration
	isBusy bool
	isShut bool
	frozen []bool // arguments of Freeze
}

func newModelKernel() *modelKernel {
	b := bandwidth.Bandwidth{Quota: 5 * ms, Period: 20 * ms}
	return &modelKernel{began: now(), has: b, sim: bandwidth.New(bandwidth.Linux, 2, bandwidth.Setting{Bandwidth: b, Phase: 7 * ms})}
}

// advance runs the model until now. For a second the group does a little work in each period, so that the
// loop can find the period's edges. Then it uses all available CPU time.
func (k *modelKernel) advance() {
	for at := now() - k.began; k.sim.Now() < at; {
		if k.sim.Now() < time.Second {
			k.sim.Add(0, 100*time.Microsecond)
		} else if !k.isBusy {
			k.isBusy = true
			k.sim.SetThreads(0, 2)
			k.sim.Add(0, time.Hour)
		}
		k.sim.Run(min(k.sim.Now()+10*ms, at))
	}
}

func (k *modelKernel) Read() (cgroup.Usage, error) {
	k.lock.Lock()
	defer k.lock.Unlock()
	k.advance()
	s := k.sim.Stat(0)
	return cgroup.Usage{CPU: s.Usage, Periods: s.Periods, Throttled: s.Throttled}, k.gone
}

func (k *modelKernel) Quota() (Limit, error) {
	k.lock.Lock()
	defer k.lock.Unlock()
	return Limit(k.has.Quota), nil
}

func (k *modelKernel) SetQuota(limit Limit) error {
	quota := time.Duration(limit)
	k.lock.Lock()
	defer k.lock.Unlock()
	k.quotas = append(k.quotas, quota)
	if k.refuse == nil {
		k.advance()
		k.has.Quota = quota
		k.sim.Set(0, k.has)
	}
	return k.refuse
}

func (k *modelKernel) Freeze(frozen bool) error {
	k.lock.Lock()
	defer k.lock.Unlock()
	k.frozen = append(k.frozen, frozen)
	return k.refuse
}

func (k *modelKernel) IsKilled() bool { return false }

func (k *modelKernel) Close() {
	k.lock.Lock()
	defer k.lock.Unlock()
	k.isShut = true
}

// A modelHost has a single group, a modelKernel. Lease returns leaseErr.
type modelHost struct {
	*modelKernel
	leaseErr error
	leases   int
	changes  bool // result of Changed
	isBlind  bool // the group cannot be read
	hasEnded bool // Groups no longer returns the group
	most     time.Duration
	perOwn   float64 // charges of the group for its own CPU time; 0: it is not charged
}

func (h *modelHost) Changed() bool {
	h.lock.Lock()
	defer h.lock.Unlock()
	return h.changes
}

func (h *modelHost) Groups() ([]Group, error) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.most++ // the number changes as other groups start and end
	g := Group{Name: "web", CPUs: cpuset.MustParse("0-1"), InForce: Limit(h.has.Quota), Kernel: h.modelKernel}
	g.IsCharged, g.CanFreeze = h.perOwn > 0, h.perOwn > 0
	g.Setting.Setting = burst.Setting{Quota: 5 * ms, Period: 20 * ms, MaxQuota: 15*ms + h.most}
	switch {
	case h.hasEnded:
		return nil, nil
	case h.isBlind:
		g.Kernel = nil
	}
	return []Group{g}, nil
}

func (h *modelHost) Charges(string) (charged, credited time.Duration) {
	h.lock.Lock()
	defer h.lock.Unlock()
	return time.Duration(h.perOwn * float64(h.sim.Stat(0).Usage)), 0
}

func (h *modelHost) Observe(string, *State) {}

func (h *modelHost) HelperTime() (total time.Duration, ok bool) { return 0, false }

func (h *modelHost) BookedTime() time.Duration { return 0 }

func (h *modelHost) Lease(context.Context, []string) (time.Duration, error) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.leases++
	return time.Minute, h.leaseErr
}

func (h *modelHost) Idle() (map[int]time.Duration, error) {
	return map[int]time.Duration{0: now(), 1: now()}, nil
}

// TestLoop: the loop raises the quota of a group that has saved time and is then throttled.
func TestLoop(t *testing.T) {
	for _, c := range []struct {
		name          string
		refuse, lease error
		until         func(h *modelHost) bool
		log           string
		leases        int
	}{
		{"raised, and restored at the end", nil, nil, func(h *modelHost) bool { return h.has.Quota > 5*ms }, "", 1},
		{"raised while other groups start and end", nil, nil, func(h *modelHost) bool { h.changes = true; return h.has.Quota > 5*ms }, "", 1},
		{"raised, then unreadable for a moment", nil, nil, func(h *modelHost) bool {
			isRaised := h.has.Quota > 5*ms
			h.changes, h.isBlind = isRaised, isRaised
			return isRaised
		}, "", 1},
		{"raised, then no longer listed", nil, nil, func(h *modelHost) bool {
			h.hasEnded = h.hasEnded || h.has.Quota > 5*ms
			h.changes = h.hasEnded
			return h.hasEnded && h.isShut
		}, "", 1},
		{"raised, then unreadable", nil, nil, func(h *modelHost) bool {
			if h.has.Quota > 5*ms {
				h.gone = unix.EIO
			}
			return h.isShut
		}, "quota is no longer managed", 1},
		{"refused by the kernel", unix.EINVAL, nil, func(h *modelHost) bool { return len(h.quotas) == 1 && h.sim.Now() > 1600*ms }, "the kernel refuses it", 1},
		{"refused by the state", nil, errors.New("no room"), func(h *modelHost) bool { return h.leases == 1 && h.sim.Now() > 1600*ms }, "cannot record the lease", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := &modelHost{modelKernel: newModelKernel(), leaseErr: c.lease}
			h.refuse = c.refuse
			output := h.run(t, c.until)
			switch {
			case h.has.Quota != 5*ms || !h.isShut:
				t.Errorf("final quota %v, closed: %v", h.has.Quota, h.isShut)
			case strings.Count(output, "\n") != min(len(c.log), 1) || !strings.Contains(output, c.log):
				t.Errorf("got %q, want %q once", output, c.log)
			case h.leases != c.leases:
				t.Errorf("%d leases, want %d", h.leases, c.leases)
			case c.lease != nil && len(h.quotas) > 0:
				t.Errorf("quotas written without a lease: %v", h.quotas)
			}
		})
	}
}

// TestLoopDropsRemovedGroup: the loop drops a removed group without a log line.
func TestLoopDropsRemovedGroup(t *testing.T) {
	h := &modelHost{modelKernel: newModelKernel()}
	h.gone = cgroup.ErrNoGroup
	if output := h.run(t, func(h *modelHost) bool { return h.isShut }); output != "" {
		t.Errorf("got %q", output)
	}
}

// run runs a loop until a condition holds, and returns its log.
func (h *modelHost) run(t *testing.T, until func(h *modelHost) bool) string {
	t.Helper()
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- New(h, slog.New(slog.NewTextHandler(&log, nil))).Run(ctx) }()
	is := func() bool {
		h.lock.Lock()
		defer h.lock.Unlock()
		return until(h)
	}
	for end := now() + time.Minute; !is(); time.Sleep(ms) {
		if now() > end {
			t.Error("the condition does not hold after a minute")
			break
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return log.String()
}

// TestQuotaReread: another program can write the quota. While the quota can be raised, the loop reads it once
// a second.
func TestQuotaReread(t *testing.T) {
	k := newModelKernel()
	for _, c := range []struct {
		read, until time.Duration // before now, after now
		over        float64
		want        Limit
	}{
		{2 * time.Second, time.Minute, 0, Limit(5 * ms)},
		{2 * time.Second, -time.Minute, 1, Limit(5 * ms)},
		{2 * time.Second, -time.Minute, 0, Limit(9 * ms)},
		{-time.Minute, time.Minute, 1, Limit(9 * ms)},
	} {
		m := &member{Group: Group{Kernel: k}, quotaReadAt: now() - c.read, leaseEnd: now() + c.until}
		m.state.InForce, m.state.Overuse = Limit(9*ms), c.over
		if _, _, err := m.measure(); err != nil || m.state.InForce != c.want {
			t.Errorf("%+v: quota in force %v, %v", c, time.Duration(m.state.InForce), err)
		}
	}
}

// A poolHost is a modelHost with two CPUs that have the idle time idle.
type poolHost struct {
	*modelHost
	idle time.Duration
}

func (h *poolHost) Idle() (map[int]time.Duration, error) {
	return map[int]time.Duration{0: h.idle, 1: h.idle}, nil
}

// TestPoolUsesRecentIdleTime: the pool counts the current idle CPU time, not the mean since the last request.
func TestPoolUsesRecentIdleTime(t *testing.T) {
	h := &poolHost{}
	l := New(h, slog.New(slog.DiscardHandler))
	m := &member{Group: Group{Name: "web", CPUs: cpuset.MustParse("0-1"), Setting: Setting{Setting: burst.Setting{Quota: 5 * ms, Period: 20 * ms, MaxQuota: 15 * ms}}}, needsHeadroom: true}
	l.members["web"] = m
	for _, c := range []struct {
		at, idle time.Duration
		want     float64
	}{
		{time.Hour, time.Hour, 0},
		{time.Hour + time.Second, time.Hour + time.Second, 1.9},
		{2 * time.Hour, 2*time.Hour - time.Second, 0}, // idle for the hour, but not recently
		{2*time.Hour + time.Second, 2*time.Hour - time.Second, 0},
		{2*time.Hour + 2*time.Second, 2*time.Hour - time.Second/2, 0.9},
	} {
		h.idle = c.idle
		if got := l.share(m, c.at); abs(got-c.want) > 1e-6 {
			t.Errorf("after %v: %v CPUs, want %v", c.at, got, c.want)
		}
	}
}

// A leaseHost records the names of the leases.
type leaseHost struct {
	*modelHost
	names chan []string
}

func (h *leaseHost) Lease(_ context.Context, names []string) (time.Duration, error) {
	h.names <- names
	return time.Minute, nil
}

// TestJointLease: a member whose lease is about to end causes a lease for all members that need a new one soon.
func TestJointLease(t *testing.T) {
	for _, c := range []struct {
		remaining map[string]time.Duration // remaining time of the leases by name
		want      []string
	}{
		{map[string]time.Duration{"a": -time.Hour}, []string{"a"}},
		{map[string]time.Duration{"a": 5 * time.Second, "b": 20 * time.Second, "c": 50 * time.Second, "idle": 0}, []string{"a", "b"}},
		{map[string]time.Duration{"a": 20 * time.Second, "b": 50 * time.Second, "idle": 0}, nil},
	} {
		h := &leaseHost{names: make(chan []string, 1)}
		l := New(h, slog.New(slog.DiscardHandler))
		for name, remaining := range c.remaining {
			l.members[name] = &member{Group: Group{Name: name}, leaseEnd: now() + remaining, needsLease: name != "idle"}
		}
		l.requestLease(context.Background())
		var got []string
		if l.isLeasePending {
			got = <-h.names
			<-l.leases
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: leases for %v, want %v", c.remaining, got, c.want)
		}
	}
}

// TestLoopCharges: the loop lowers the quota of a group whose helpers use a part of its limit, and freezes a group whose helpers use more
// than the limit at the lowest quota. It restores the group at its end.
func TestLoopCharges(t *testing.T) {
	for _, c := range []struct {
		name   string
		perOwn float64
		until  func(h *modelHost) bool
	}{
		{"lowered", 1.6, func(h *modelHost) bool { return h.has.Quota < 4*ms }},
		{"frozen", 100, func(h *modelHost) bool { return len(h.frozen) > 0 && h.frozen[len(h.frozen)-1] }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := &modelHost{modelKernel: newModelKernel(), perOwn: c.perOwn}
			log := h.run(t, c.until)
			isFrozen := len(h.frozen) > 0 && h.frozen[len(h.frozen)-1]
			if h.has.Quota != 5*ms || isFrozen || !h.isShut || log != "" {
				t.Errorf("at the end: quota %v, frozen %v, closed %v, log %q", h.has.Quota, isFrozen, h.isShut, log)
			}
		})
	}
}

// TestLoopCannotFreeze: a refused freeze is logged once, and the loop does not try again.
func TestLoopCannotFreeze(t *testing.T) {
	h := &modelHost{modelKernel: newModelKernel(), perOwn: 100}
	h.refuse = unix.EPERM
	tries := 0
	log := h.run(t, func(h *modelHost) bool {
		tries = len(h.frozen)
		return tries > 0 && h.sim.Now() > 3*time.Second
	})
	if tries != 1 || strings.Count(log, "processes not frozen") != 1 {
		t.Errorf("%d tries, log %q", tries, log)
	}
}

// A helperHost has helpers that have used a CPU time.
type helperHost struct {
	*modelHost
	used    time.Duration
	unknown bool
	calls   int // of HelperTime
}

func (h *helperHost) HelperTime() (total time.Duration, ok bool) {
	h.calls++
	return h.used, !h.unknown
}

func (h *helperHost) BookedTime() time.Duration { return h.used }

// TestQuietMembersWait: the loop does not read quiet members while all helpers together have used little CPU time since the reading, but
// each of them once in maxQuietAge. The limit is a quarter of a CPU, so half of it in a second is 125 ms.
func TestQuietMembersWait(t *testing.T) {
	for _, c := range []struct {
		canWait bool
		used    time.Duration // CPU time of the helpers since the last reading
		unknown bool
		age     time.Duration // age of the last reading
		want    bool
	}{
		{canWait: true, used: 120 * ms, age: time.Second},
		{canWait: true, used: 120 * ms, age: maxQuietAge - 1500*ms},
		{canWait: true, used: 130 * ms, age: time.Second, want: true},
		{canWait: true, unknown: true, age: time.Second, want: true},
		{canWait: true, age: maxQuietAge, want: true},
		{canWait: false, age: time.Second, want: true},
	} {
		h := &helperHost{modelHost: &modelHost{modelKernel: newModelKernel()}, used: time.Hour, unknown: c.unknown}
		l := New(h, slog.New(slog.DiscardHandler))
		groups, err := h.Groups()
		if err != nil {
			t.Fatal(err)
		}
		start := now()
		for _, name := range []string{"a", "b"} {
			m := &member{wakeTime: start}
			m.update(groups[0])
			m.canWait, m.bookedTime, m.state.last.At = c.canWait, h.used-c.used, start-c.age
			l.members[name] = m
		}
		l.controlDue(context.Background())
		for name, m := range l.members {
			if isRead := m.state.last.At >= start; isRead != c.want || m.wakeTime <= start || isRead && m.bookedTime != h.used {
				t.Errorf("%+v: %s: read %v, next reading after %v", c, name, isRead, m.wakeTime-start)
			}
		}
		if h.calls > 1 {
			t.Errorf("%+v: the clocks of the helpers were read %d times", c, h.calls)
		}
	}
}
