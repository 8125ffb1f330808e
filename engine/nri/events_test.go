package nri

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/candor-project/candor/kube/events"
)

// A sink collects Events as "REASON NAMESPACE/POD/UID: NOTE".
type sink struct {
	mu  sync.Mutex
	all []string
}

func (s *sink) Pod(p events.Pod, r events.Reason, note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, string(r)+" "+p.Namespace+"/"+p.Name+"/"+p.UID+": "+note)
}

func (s *sink) Node(r events.Reason, note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, string(r)+": "+note)
}

// take returns the Events since the last call.
func (s *sink) take() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, s.all = s.all, nil
	return all
}

// TestPodEvents: a downgraded container, a refused container and a refused resize each have an Event of their pod, with the next
// step. A container that is planned as requested has no Event.
func TestPodEvents(t *testing.T) {
	l := newLab(t)
	s := &sink{}
	l.RecordEvents(s)
	want := func(what string, parts ...string) {
		t.Helper()
		got := s.take()
		isWanted := len(got) == 1 && len(parts) > 0 || len(got) == 0 && len(parts) == 0
		if !isWanted || slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(got[0], part) }) {
			t.Errorf("%s: got Events %q, want one with %q", what, got, parts)
		}
	}
	pod := sensitivePod()
	c := l.started(pod, 50000)
	want("planned")

	unlimited := l.container("free", "free1", 0)
	unlimited.Linux.Resources.Cpu.Shares = api.UInt64(uint64(2))
	l.create(pod, unlimited)
	want("no limit", "DowngradedNoLimit default/web/u1: container default/web/free is treated as flexible: it has no CPU limit; set a CPU limit")

	burstable := l.container("part", "part1", 50000)
	burstable.Linux.Resources.Cpu.Shares = api.UInt64(uint64(2))
	l.create(pod, burstable)
	want("request not limit", "DowngradedRequestNotLimit default/web/u1: ", "its CPU request of 0", "set its CPU request to its limit")

	if _, _, err := l.CreateContainer(ctx, pod, l.container("huge", "huge1", 25_000_000)); err == nil {
		t.Error("huge is not refused")
	}
	want("refused", "CPUsRefused default/web/u1: container default/web/huge: no capacity: needs 250 CPUs", "; use another node, a smaller limit, or candor.dev/policy: best-effort")

	if _, err := l.UpdateContainer(ctx, pod, c, &api.LinuxResources{Cpu: &api.LinuxCPU{Quota: api.Int64(int64(25_000_000)), Period: api.UInt64(uint64(100000))}}); err == nil {
		t.Error("the resize is not refused")
	}
	want("resize refused", "CPUResizeRefused default/web/u1: resize of container default/web/app: ", "no capacity", "; it keeps its CPUs and its limit; use another node")
}

// TestAdoptedDowngrade: a sensitive container that started without the plugin has an Event at its adoption, and none at the next
// connection.
func TestAdoptedDowngrade(t *testing.T) {
	l := newLab(t)
	s := &sink{}
	l.RecordEvents(s)
	pod, c := sensitivePod(), l.container("app", "app1", 0)
	c.Linux.Resources.Cpu.Shares = api.UInt64(uint64(2))
	c.PodSandboxId = pod.Id
	l.run(c)
	for i, want := range []int{1, 0} {
		if _, err := l.Synchronize(ctx, []*api.PodSandbox{pod}, []*api.Container{c}); err != nil {
			t.Fatal(err)
		}
		if got := s.take(); len(got) != want || want > 0 && !strings.HasPrefix(got[0], "DowngradedNoLimit default/web/u1: ") {
			t.Errorf("connection %d: got Events %q, want %d", i+1, got, want)
		}
	}
}

// TestAbsence: the node has an Event if the plugin is not connected for 30 s, and every 30 minutes after that. A restart of the
// runtime causes none, and a runtime that crashes at each connection causes one at once.
func TestAbsence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		e := &Engine{events: s}
		a := newAbsence()
		refused := ending{err: errors.New("connection refused")}
		step := func(after time.Duration, end ending, want int) {
			t.Helper()
			time.Sleep(after)
			e.recordAbsence(a, "/run/nri.sock", &end)
			got := s.take()
			if len(got) != want || want > 0 && !strings.HasPrefix(got[0], "CandorNotConnected: ") {
				t.Errorf("got Events %q, want %d", got, want)
			}
		}
		step(0, refused, 0)
		step(20*time.Second, refused, 0)
		step(10*time.Second, refused, 1)
		step(time.Second, refused, 0)
		step(30*time.Minute, refused, 1)
		step(time.Hour, ending{connected: true, lasted: time.Hour, err: errors.New("closed")}, 0)
		step(time.Second, refused, 0)
		step(time.Minute, refused, 1)
		e.flapping.Store(true)
		step(0, ending{connected: true, lasted: time.Second, died: true, err: errors.New("closed")}, 1)
	})
}

// TestAbsenceOfRuntime: Run records the absence of the runtime with a remedy.
func TestAbsenceOfRuntime(t *testing.T) {
	l := newLab(t)
	s := &sink{}
	l.RecordEvents(s)
	if testing.Short() {
		t.Skip("takes 30 s")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Engine.Run(ctx, l.dir+"/none.sock", func() {}) }()
	var got []string
	for end := time.Now().Add(time.Minute); len(got) == 0 && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		got = s.take()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if len(got) != 1 || !strings.Contains(got[0], "none.sock: connect: no such file") || !strings.Contains(got[0], "start the runtime") {
		t.Errorf("got Events %q", got)
	}
}
