package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/metrics"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/topology"
)

var resource = schema.GroupResource{Group: "candor.dev", Resource: v1alpha1.NodeCPUs}

// A cluster stands for the API server, whose faults cannot be had at will. The real one's answers are tested in e2e/kubernetes.
type cluster struct {
	sync.Mutex // the test has it, but for the time that it lets go by

	object *v1alpha1.NodeCPU
	fault  error // of every call
	lost   bool  // writes happen, and the answer does not come
	older  bool  // keeps less than it is told
	calls  int
	writes []time.Time
}

func (c *cluster) get(context.Context) (*v1alpha1.NodeCPU, error) {
	c.Lock()
	defer c.Unlock()
	if c.calls++; c.fault != nil {
		return nil, c.fault
	}
	if c.object == nil {
		c.object = &v1alpha1.NodeCPU{}
		c.object.ResourceVersion = "1"
	}
	return c.object.DeepCopy(), nil
}

func (c *cluster) write(_ context.Context, n *v1alpha1.NodeCPU) (*v1alpha1.NodeCPU, error) {
	c.Lock()
	defer c.Unlock()
	if c.calls++; c.fault != nil {
		return nil, c.fault
	}
	switch {
	case c.object == nil:
		return nil, apierrors.NewNotFound(resource, "node")
	case n.ResourceVersion != c.object.ResourceVersion:
		return nil, apierrors.NewConflict(resource, "node", errors.New("changed"))
	}
	c.object = n.DeepCopy()
	if c.older {
		c.object.Status.MinShared, c.object.Status.Pools.Shared = "", ""
	}
	c.object.ResourceVersion += "1"
	c.writes = append(c.writes, time.Now())
	if c.lost {
		return nil, context.DeadlineExceeded
	}
	return c.object.DeepCopy(), nil
}

// A lab is a publisher of a node, and what it says.
type lab struct {
	t         *testing.T
	cluster   cluster
	node      *hybrid.Node
	unread    error // the state cannot be read
	log       bytes.Buffer
	published int
	fine      int // tries that did not fail
	failed    map[metrics.Reason]int
	*Publisher
}

func (l *lab) Reported()                   { l.published++ }
func (l *lab) UpToDate()                   { l.fine++ }
func (l *lab) Unreported(r metrics.Reason) { l.failed[r]++ }

// inLab runs a test in time of its own, beside a publisher.
func inLab(t *testing.T, test func(*lab)) {
	synctest.Test(t, func(t *testing.T) {
		m, err := topology.Parse("core:4 pu:1")
		if err != nil {
			t.Fatal(err)
		}
		l := &lab{t: t, failed: map[metrics.Reason]int{}}
		if l.node, err = hybrid.NewNode(m, hybrid.Options{}); err != nil {
			t.Fatal(err)
		}
		l.Publisher = &Publisher{
			api: &l.cluster, listener: l, log: slog.New(slog.NewTextHandler(&l.log, nil)), changed: make(chan struct{}, 1),
		}
		report := func() (v1alpha1.NodeCPUStatus, error) {
			l.cluster.Lock()
			defer l.cluster.Unlock()
			return nodecpu.Status(l.node, nodecpu.HolderOf), l.unread
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { l.Run(ctx, report); close(ended) }()
		synctest.Wait()
		l.cluster.Lock()
		test(l)
		l.cluster.Unlock()
		cancel()
		<-ended
	})
}

// change gives a container to the node.
func (l *lab) change(i int) {
	plan, err := l.node.Plan(hybrid.Request{ID: fmt.Sprintf("pod-%d/web", i), Class: hybrid.Flexible, Limit: 10})
	if err == nil {
		err = l.node.Commit(plan)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	l.Changed()
}

func (l *lab) after(d time.Duration) {
	l.cluster.Unlock()
	time.Sleep(d)
	synctest.Wait()
	l.cluster.Lock()
}

// grants is how many the cluster knows of.
func (l *lab) grants() int { return len(l.cluster.object.Status.Grants) }

func (l *lab) lines(what string) int { return strings.Count(l.log.String(), what) }

// Changes come through at most once a second, the last one too; without a change nothing is written.
func TestWritesAtMostOnceASecond(t *testing.T) {
	inLab(t, func(l *lab) {
		for i := range 100 {
			l.change(i)
			l.after(50 * time.Millisecond)
		}
		l.after(interval)
		if l.grants() != 100 {
			t.Errorf("%d grants of 100", l.grants())
		}
		for i := 1; i < len(l.cluster.writes); i++ {
			if d := l.cluster.writes[i].Sub(l.cluster.writes[i-1]); d < interval {
				t.Errorf("write %d %v after the one before", i, d)
			}
		}
		writes, calls := len(l.cluster.writes), l.cluster.calls
		if writes < 5 || writes > 7 || int(l.cluster.object.Status.Counter) != writes || l.published != writes {
			t.Errorf("%d writes, counter %d, %d counted", writes, l.cluster.object.Status.Counter, l.published)
		}
		for range 20 {
			l.Changed()
			l.after(interval)
		}
		if l.cluster.calls != calls || l.fine < writes+20 {
			t.Errorf("%d calls where nothing has changed, %d times fine", l.cluster.calls-calls, l.fine)
		}
	})
}

// What other programs change is found without a word from them.
func TestLooksByItself(t *testing.T) {
	inLab(t, func(l *lab) {
		l.change(1)
		<-l.changed // nobody was told
		l.after(lookEvery + interval)
		if l.grants() != 1 {
			t.Error("not found")
		}
	})
}

// While the API server is away the tries become seldom, the log has one line, and the newest report comes when it is back.
func TestServerAway(t *testing.T) {
	inLab(t, func(l *lab) {
		l.cluster.fault = errors.New("dial tcp: connection refused")
		l.change(1)
		l.after(10 * time.Minute)
		if calls := l.cluster.calls; calls < 10 || calls > 20 {
			t.Errorf("%d calls in 10 minutes", calls)
		}
		l.change(2)
		l.cluster.fault = nil
		l.after(longestWait + interval)
		if l.grants() != 2 || l.lines("not published") != 1 || l.lines("msg=published") != 2 || l.failed[metrics.Unreachable] < 9 {
			t.Errorf("%d grants, %v\n%s", l.grants(), l.failed, &l.log)
		}
		l.change(3)
		l.after(lookEvery)
		if l.grants() != 3 {
			t.Error("the next change is not published")
		}
	})
}

// Each reason is said once, when it begins.
func TestReasons(t *testing.T) {
	inLab(t, func(l *lab) {
		for reason, fault := range map[metrics.Reason]error{
			metrics.Forbidden: apierrors.NewForbidden(resource, "node", errors.New("another node's")),
			metrics.Invalid:   apierrors.NewNotFound(resource, "node"),
			metrics.Conflict:  apierrors.NewConflict(resource, "node", errors.New("changed")),
		} {
			l.cluster.fault = fault
			l.change(100 + len(l.failed))
			l.after(5 * time.Minute)
			if l.failed[reason] < 3 {
				t.Errorf("%v: %v", fault, l.failed)
			}
		}
		l.unread = fmt.Errorf("%w: broken", errState)
		l.after(5 * time.Minute)
		if l.failed[metrics.BadState] < 3 || l.lines("not published") != 4 {
			t.Errorf("%v\n%s", l.failed, &l.log)
		}
	})
}

// What a stranger writes is written over, and the counter goes on from what is there.
func TestStranger(t *testing.T) {
	inLab(t, func(l *lab) {
		l.change(1)
		l.after(2 * interval)
		l.cluster.object.ResourceVersion, l.cluster.object.Status.Counter, l.cluster.object.Status.Grants = "77", 50, nil
		l.change(2)
		l.after(5 * interval)
		if l.grants() != 2 || l.cluster.object.Status.Counter != 51 || l.failed[metrics.Conflict] != 1 {
			t.Errorf("%d grants, counter %d, %v", l.grants(), l.cluster.object.Status.Counter, l.failed)
		}
	})
}

// An object that is removed comes back, though the node has nothing new.
func TestRemoved(t *testing.T) {
	inLab(t, func(l *lab) {
		l.change(1)
		l.after(2 * interval)
		l.cluster.object = nil
		l.after(readEvery + lookEvery + interval)
		if l.cluster.object == nil || l.grants() != 1 {
			t.Errorf("%+v", l.cluster.object)
		}
	})
}

// A write whose answer is lost is not written again.
func TestAnswerLost(t *testing.T) {
	inLab(t, func(l *lab) {
		l.after(2 * interval)
		l.cluster.lost = true
		l.change(1)
		l.after(interval)
		l.cluster.lost = false
		writes := len(l.cluster.writes)
		l.after(time.Minute)
		if got := len(l.cluster.writes); got != writes || l.grants() != 1 {
			t.Errorf("%d writes, then %d", writes, got)
		}
	})
}

// A cluster that does not know all fields yet is not told the same again and again.
func TestOlderCluster(t *testing.T) {
	inLab(t, func(l *lab) {
		l.cluster.older = true
		l.change(1)
		l.after(time.Minute)
		if got := len(l.cluster.writes); got != 2 || l.grants() != 1 {
			t.Errorf("%d writes", got)
		}
	})
}
