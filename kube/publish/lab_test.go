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
	"github.com/candor-project/candor/kube/events"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/metrics"
	"github.com/candor-project/candor/topology"
)

var nodeCPUs = schema.GroupResource{Group: "candor.dev", Resource: v1alpha1.NodeCPUs}

// A cluster is a fake API server, because a test cannot provoke the faults of a real API server.
// e2e/kubernetes tests with a real API server.
type cluster struct {
	sync.Mutex // the test holds it except during after

	object *v1alpha1.NodeCPU
	fault  error        // result of each call, if non-nil
	lost   bool         // writes succeed, but the response is lost
	older  bool         // drop some fields of each object, as an older CRD does
	cpu    hybrid.Milli // allocatable CPU of the Node
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
		return nil, apierrors.NewNotFound(nodeCPUs, "node")
	case n.ResourceVersion != c.object.ResourceVersion:
		return nil, apierrors.NewConflict(nodeCPUs, "node", errors.New("changed"))
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

func (c *cluster) allocatable(context.Context) (hybrid.Milli, error) {
	c.Lock()
	defer c.Unlock()
	return c.cpu, c.fault
}

// A lab runs a publisher of a node. It holds the log and counts the calls of the publisher's listener.
type lab struct {
	t         *testing.T
	cluster   cluster
	node      *hybrid.Node
	unread    error // error of reading the state
	log       bytes.Buffer
	noted     []string // Events: reason, and name of the pod
	published int
	upToDate  int // attempts without an error
	failed    map[metrics.Reason]int
	*Publisher
}

func (l *lab) Reported()                   { l.published++ }
func (l *lab) UpToDate()                   { l.upToDate++ }
func (l *lab) Unreported(r metrics.Reason) { l.failed[r]++ }

func (l *lab) Pod(p events.Pod, r events.Reason, _ string) {
	l.noted = append(l.noted, string(r)+" "+p.Name)
}

func (l *lab) Node(r events.Reason, _ string) { l.noted = append(l.noted, string(r)) }

// A sink makes the lab the recorder of its publisher. Its Run does nothing.
type sink struct{ *lab }

func (sink) Run(context.Context) {}

func (l *lab) EventWritten()                     {}
func (l *lab) EventsDropped(metrics.Reason, int) {}

// inLab runs a test beside a publisher, with the fake clock of synctest.
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
			api: &l.cluster, events: sink{l}, listener: l, log: slog.New(slog.NewTextHandler(&l.log, nil)), changed: make(chan struct{}, 1),
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

// change adds container i to the node and notifies the publisher.
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

// after advances the clock and waits until the publisher is idle.
func (l *lab) after(d time.Duration) {
	l.cluster.Unlock()
	time.Sleep(d)
	synctest.Wait()
	l.cluster.Lock()
}

// grants returns the number of grants in the published object.
func (l *lab) grants() int { return len(l.cluster.object.Status.Grants) }

// lines returns the number of occurrences of a text in the log.
func (l *lab) lines(text string) int { return strings.Count(l.log.String(), text) }
