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

// readyToStart returns a created container that has the granted settings and whose start was not reported yet.
func (l *lab) readyToStart(pod *api.PodSandbox) *api.Container {
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

// TestStartRecordedBeforeResize: a resize right after the start of a container records the start first,
// although the delay of the record has not passed.
func TestStartRecordedBeforeResize(t *testing.T) {
	l := newLab(t)
	pod := &api.PodSandbox{Id: "box1", Uid: "u1", Name: "log", Namespace: "default"}
	c := l.readyToStart(pod)
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
		t.Errorf("%d start records remain after all were written", n)
	}
}

// TestResizeRefusedWhileStartUnrecorded: a resize waits for the record of a start until its context ends, and
// is then refused. A late record does not remove the record of the next container.
func TestResizeRefusedWhileStartUnrecorded(t *testing.T) {
	l := newLab(t)
	pod := &api.PodSandbox{Id: "box1", Uid: "u1", Name: "log", Namespace: "default"}
	c := l.readyToStart(pod)
	name := grantName(podOf(pod), c.Name)
	proceed := make(chan struct{})
	n := &startRecord{write: func() { <-proceed }, written: make(chan struct{}), timer: time.AfterFunc(time.Hour, func() {})}
	l.notes.waiting = map[string]*startRecord{name: n}
	l.later.Add(1)
	late, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := l.UpdateContainer(late, pod, c, l.container("app", "", 30000).Linux.Resources); err == nil || !strings.Contains(err.Error(), "cannot record its start") {
		t.Errorf("got %v, want an error about the missing start record", err)
	}
	if g := l.grant(pod, c); g.Limit != 500 {
		t.Errorf("limit after the refused resize: got %v, want 500m", g.Limit)
	}
	next := &startRecord{}
	l.notes.Lock()
	l.notes.waiting[name] = next
	l.notes.Unlock()
	close(proceed)
	<-n.written
	l.later.Wait()
	if l.notes.waiting[name] != next {
		t.Error("the start record of the next container with the same name was removed")
	}
	clear(l.notes.waiting)
}

// TestStartRecordedByNextPlugin: the plugin was killed before it recorded a start. The next plugin records it
// at the synchronization.
func TestStartRecordedByNextPlugin(t *testing.T) {
	l := newLab(t)
	pod := &api.PodSandbox{Id: "box1", Uid: "u1", Name: "log", Namespace: "default"}
	c := l.readyToStart(pod)
	c.PodSandboxId, c.State = pod.Id, api.ContainerState_CONTAINER_RUNNING
	if g := l.grant(pod, c); g.State != host.Pending || g.Main.PID != 0 {
		t.Fatalf("before the synchronization: got %+v, want a pending grant", g)
	}
	if _, err := l.Synchronize(ctx, []*api.PodSandbox{pod}, []*api.Container{c}); err != nil {
		t.Fatal(err)
	}
	if g := l.grant(pod, c); g.State != host.Running || g.Main.PID != int(c.Pid) {
		t.Errorf("%+v", g)
	}
}
