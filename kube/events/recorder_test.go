package events

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/candor-project/candor/metrics"
)

var eventResource = schema.GroupResource{Group: "events.k8s.io", Resource: "events"}

// A cluster is a fake API server, because a test cannot provoke the faults of a real API server. e2e/kubernetes tests with a real
// API server.
type cluster struct {
	sync.Mutex
	fault   error // result of each call, if non-nil
	lost    bool  // writes succeed, but the response is lost
	calls   int
	counts  map[string]int // occurrences by name of the Event
	notes   map[string]string
	created []string // names
}

func (c *cluster) create(_ context.Context, d *draft) (string, error) {
	c.Lock()
	defer c.Unlock()
	if c.calls++; c.fault != nil {
		return "", c.fault
	}
	name := nameOf(d.object.Name+"node", d.number)
	if _, isThere := c.counts[name]; !isThere {
		c.created = append(c.created, name)
	}
	c.counts[name], c.notes[name] = d.count, d.note
	if c.lost {
		return "", context.DeadlineExceeded
	}
	return name, nil
}

func (c *cluster) update(_ context.Context, d *draft) error {
	c.Lock()
	defer c.Unlock()
	if c.calls++; c.fault != nil {
		return c.fault
	}
	if _, isThere := c.counts[d.name]; !isThere {
		return apierrors.NewNotFound(eventResource, d.name)
	}
	c.counts[d.name] = d.count
	return nil
}

// A lab runs a recorder with a fake API server.
type lab struct {
	*Recorder
	t       *testing.T
	cluster cluster
	out     bytes.Buffer // log

	mu      sync.Mutex
	written int
	dropped map[metrics.Reason]int
}

func (l *lab) EventWritten() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written++
}

func (l *lab) EventsDropped(r metrics.Reason, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropped[r] += n
}

// inLab runs a test beside a recorder, with the fake clock of synctest.
func inLab(t *testing.T, test func(*lab)) {
	synctest.Test(t, func(t *testing.T) {
		l := &lab{t: t, dropped: map[metrics.Reason]int{}, cluster: cluster{counts: map[string]int{}, notes: map[string]string{}}}
		l.Recorder = newRecorder(&l.cluster, slog.New(slog.NewTextHandler(&l.out, nil)), l)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { l.Run(ctx); close(ended) }()
		test(l)
		cancel()
		<-ended
	})
}

// after advances the clock and waits until the recorder is idle.
func (l *lab) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (l *lab) pod(i int) { l.Pod(podKey(i, "").object, DowngradedNoLimit, "set a limit") }

// want fails the test unless the API server has this number of Events, with this number of occurrences in all.
func (l *lab) want(events, occurrences int) {
	l.t.Helper()
	l.cluster.Lock()
	defer l.cluster.Unlock()
	sum := 0
	for _, n := range l.cluster.counts {
		sum += n
	}
	if len(l.cluster.counts) != events || sum != occurrences {
		l.t.Errorf("got %d Events with %d occurrences, want %d with %d", len(l.cluster.counts), sum, events, occurrences)
	}
}

func (l *lab) fail(err error) {
	l.cluster.Lock()
	defer l.cluster.Unlock()
	l.cluster.fault = err
}

// TestManyPods: the recorder writes at most 25 Events at once and one per second.
func TestManyPods(t *testing.T) {
	inLab(t, func(l *lab) {
		for i := range 1000 {
			l.pod(i)
			l.after(time.Minute / 1000)
		}
		l.want(84, 84)
		if l.written != 84 || l.dropped[metrics.RateLimit] != 1000-84 || l.out.Len() > 0 {
			t.Errorf("%d written, dropped %v, log %s", l.written, l.dropped, &l.out)
		}
		l.after(time.Hour)
		l.want(84, 84)
	})
}

// TestRepetitions: the recorder updates an Event after 10 minutes, without a further occurrence. If the Event has expired on the
// API server, the recorder creates another one.
func TestRepetitions(t *testing.T) {
	inLab(t, func(l *lab) {
		for range 5 {
			l.pod(1)
			l.after(time.Minute)
		}
		l.want(1, 1)
		l.after(interval)
		l.want(1, 5)
		l.cluster.Lock()
		clear(l.cluster.counts)
		l.cluster.Unlock()
		l.pod(1)
		l.after(interval)
		l.want(1, 1)
		if l.written != 3 {
			t.Errorf("%d writes, want 3", l.written)
		}
	})
}

// TestNode: Events of the node and of pods are separate series, as are Events with other reasons.
func TestNode(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Node(CandorNotConnected, "a")
		l.Node(CPUAllocatableDiffers, "b")
		l.pod(1)
		l.Pod(podKey(1, "").object, CPUsRefused, "c")
		l.after(0)
		l.want(4, 4)
	})
}

// TestServerAway: while the API server is away for 5 minutes, the calls of the recorder take no time and its memory stays
// constant. Afterwards, the newest Events are written.
func TestServerAway(t *testing.T) {
	inLab(t, func(l *lab) {
		l.fail(errors.New("dial tcp: connection refused"))
		const pods = 5 * 60 * 100
		var before runtime.MemStats
		for i := range pods {
			start := time.Now()
			l.pod(i)
			if took := time.Since(start); took > 0 {
				t.Fatalf("the call took %v", took)
			}
			l.after(10 * time.Millisecond)
			if i == 1000 {
				before = memory()
			}
		}
		if after := memory(); after.HeapAlloc > before.HeapAlloc+256<<10 {
			t.Errorf("the heap grew from %d to %d bytes", before.HeapAlloc, after.HeapAlloc)
		}
		if calls := l.cluster.calls; calls < 5 || calls > 12 {
			t.Errorf("%d calls in 5 minutes, want 5 to 12", calls)
		}
		l.fail(nil)
		l.after(maxWait + time.Second)
		l.want(burst, burst)
		if newest := fmt.Sprintf("pod-%dnode", pods-1); !strings.HasPrefix(l.cluster.created[burst-1], newest) {
			t.Errorf("the last Event is %s, want %s", l.cluster.created[burst-1], newest)
		}
		if l.written+l.dropped[metrics.RateLimit] != pods {
			t.Errorf("%d written, dropped %v", l.written, l.dropped)
		}
		if lines := strings.Count(l.out.String(), "\n"); lines != 2 {
			t.Errorf("got %d lines, want a line at the start and a line at the end of the outage:\n%s", lines, &l.out)
		}
	})
}

// memory returns the statistics of the heap after a collection.
func memory() (m runtime.MemStats) {
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}

// TestRefusals: an Event that the API server refuses is dropped. The next Event is not affected, and the log has a line for each
// reason.
func TestRefusals(t *testing.T) {
	inLab(t, func(l *lab) {
		for i, c := range []struct {
			fault  error
			reason metrics.Reason
		}{
			{apierrors.NewForbidden(eventResource, "", errors.New("another node's")), metrics.Forbidden},
			{apierrors.NewUnauthorized("expired"), metrics.Forbidden},
			{apierrors.NewNotFound(eventResource, "namespace"), metrics.Invalid},
			{apierrors.NewInvalid(schema.GroupKind{}, "event", nil), metrics.Invalid},
		} {
			l.fail(c.fault)
			before := l.dropped[c.reason]
			l.pod(i)
			l.after(0)
			if l.dropped[c.reason] != before+1 {
				t.Errorf("%v: dropped %v, want one more of %v", c.fault, l.dropped, c.reason)
			}
		}
		l.fail(nil)
		l.pod(10)
		l.after(0)
		l.want(1, 1)
		if lines := strings.Count(l.out.String(), "cannot write an Event"); lines != 2 {
			t.Errorf("got %d lines, want 2:\n%s", lines, &l.out)
		}
	})
}

// TestResponseLost: the recorder does not create a second Event if the response to its request was lost.
func TestResponseLost(t *testing.T) {
	inLab(t, func(l *lab) {
		l.cluster.lost = true
		l.pod(1)
		l.after(10 * time.Second)
		l.cluster.Lock()
		l.cluster.lost = false
		l.cluster.Unlock()
		l.after(time.Minute)
		l.want(1, 1)
		if l.cluster.calls < 3 || l.written != 1 {
			t.Errorf("%d calls, %d written", l.cluster.calls, l.written)
		}
	})
}

// TestBadPods: the recorder drops an Event about a pod whose name would change the path of the request.
func TestBadPods(t *testing.T) {
	inLab(t, func(l *lab) {
		for _, p := range []Pod{
			{"default", "a/../../b", "1"}, {"../x", "a", "1"}, {"default", "", "1"}, {"default", "a", ""}, {"", "a", "1"}, {"default?x=", "a", "1"},
			{"default", "a", strings.Repeat("1", 200)}, {},
		} {
			l.Pod(p, CPUsRefused, "a")
		}
		l.after(0)
		l.want(0, 0)
		if l.dropped[metrics.Invalid] != 8 {
			t.Errorf("dropped %v, want 8", l.dropped)
		}
	})
}

// TestWithoutRecorder: a nil Recorder does nothing, because candor nri has none without --publish.
func TestWithoutRecorder(t *testing.T) {
	var r *Recorder
	r.Pod(Pod{"default", "web", "1"}, CPUsRefused, "a")
	r.Node(CandorNotConnected, "a")
	r.Run(t.Context())
}

// TestReminder: a lasting fault is recorded at its start, after each change, and every 30 minutes.
func TestReminder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Reminder
		for i, step := range []struct {
			after time.Duration
			note  string
			want  bool
		}{
			{0, "", false}, {0, "a", true}, {0, "a", false}, {10 * time.Minute, "b", true}, {20 * time.Minute, "b", false}, {10 * time.Minute, "b", true},
			{0, "", false}, {0, "b", true},
		} {
			time.Sleep(step.after)
			if got := r.IsDue(step.note); got != step.want {
				t.Errorf("step %d: got %v, want %v", i, got, step.want)
			}
		}
	})
}
