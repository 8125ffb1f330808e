package nri

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host"
)

// asPlanned is a container that is about to start, with all that it was granted.
func (l *lab) asPlanned(pod *api.PodSandbox) *api.Container {
	l.Helper()
	c := l.container("app", "app1", 50000)
	l.create(pod, c)
	l.run(c)
	g := l.grant(pod, c)
	has := cgroup.Settings{CPUs: g.CPUs, Quota: 50 * time.Millisecond, Period: g.Period, Weight: int(g.Weight)}
	if err := l.pods.Group(c.Id).Apply(has); err != nil {
		l.Fatal(err)
	}
	return c
}

// TestStartRecordedBeforeResize: a resize right after a container's start finds the start recorded, also before the delay of
// the record has passed.
func TestStartRecordedBeforeResize(t *testing.T) {
	l := newLab(t)
	pod := &api.PodSandbox{Id: "box1", Uid: "u1", Name: "log", Namespace: "default"}
	c := l.asPlanned(pod)
	if err := l.StartContainer(ctx, pod, c); err != nil {
		t.Fatal(err)
	}
	if _, err := l.UpdateContainer(ctx, pod, c, l.container("app", "", 30000).Linux.Resources); err != nil {
		t.Fatal(err)
	}
	if g := l.grant(pod, c); g.State != host.Running || g.Main.PID != int(c.Pid) || g.Limit != 300 {
		t.Errorf("%+v", g)
	}
	l.recordAllStarts()
	if n := len(l.notes.waiting); n > 0 {
		t.Errorf("%d notes wait when all are written", n)
	}
}

// TestResizeWaitsForNoNote: a resize waits for the record of a start at most as long as the runtime waits for the
// resize. A late record affects only its own container.
func TestResizeWaitsForNoNote(t *testing.T) {
	l := newLab(t)
	pod := &api.PodSandbox{Id: "box1", Uid: "u1", Name: "log", Namespace: "default"}
	c := l.asPlanned(pod)
	name := grantName(podOf(pod), c.Name)
	goOn := make(chan struct{})
	n := &startRecord{write: func() { <-goOn }, written: make(chan struct{}), timer: time.AfterFunc(time.Hour, func() {})}
	l.notes.waiting = map[string]*startRecord{name: n}
	l.later.Add(1)
	late, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := l.UpdateContainer(late, pod, c, l.container("app", "", 30000).Linux.Resources); err == nil || !strings.Contains(err.Error(), "cannot record its start") {
		t.Errorf("%v, want that its start is not recorded", err)
	}
	if g := l.grant(pod, c); g.Limit != 500 {
		t.Errorf("refused, and it has a limit of %v", g.Limit)
	}
	next := &startRecord{}
	l.notes.Lock()
	l.notes.waiting[name] = next
	l.notes.Unlock()
	close(goOn)
	<-n.written
	l.later.Wait()
	if l.notes.waiting[name] != next {
		t.Error("the note of the next one of that name is gone")
	}
	clear(l.notes.waiting)
}

// TestStartRecordedByNextPlugin: a start that a killed plugin has not recorded is recorded by the next plugin.
func TestStartRecordedByNextPlugin(t *testing.T) {
	l := newLab(t)
	pod := &api.PodSandbox{Id: "box1", Uid: "u1", Name: "log", Namespace: "default"}
	c := l.asPlanned(pod)
	c.PodSandboxId, c.State = pod.Id, api.ContainerState_CONTAINER_RUNNING
	if g := l.grant(pod, c); g.State != host.Pending || g.Main.PID != 0 {
		t.Fatalf("it has not begun: %+v", g)
	}
	if _, err := l.Synchronize(ctx, []*api.PodSandbox{pod}, []*api.Container{c}); err != nil {
		t.Fatal(err)
	}
	if g := l.grant(pod, c); g.State != host.Running || g.Main.PID != int(c.Pid) {
		t.Errorf("%+v", g)
	}
}
