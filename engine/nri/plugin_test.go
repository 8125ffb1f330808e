package nri

import (
	"context"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/spec"
)

var ctx = context.Background()

func sensitivePod() *api.PodSandbox {
	return &api.PodSandbox{Id: "box1", Uid: "u1", Name: "web", Namespace: "default",
		Annotations: map[string]string{kube.PodKey("class"): "sensitive"}}
}

// started is a container that runs with its CPUs.
func (l *lab) started(pod *api.PodSandbox, quota int64) *api.Container {
	l.Helper()
	c := l.container("app", "app1", quota)
	l.create(pod, c)
	l.run(c)
	if err := l.StartContainer(ctx, pod, c); err != nil {
		l.Fatal(err)
	}
	return c
}

// TestStartsAsPlanned: the start of a container with the granted settings is recorded while it runs.
func TestStartsAsPlanned(t *testing.T) {
	l := newLab(t)
	pod := &api.PodSandbox{Id: "box1", Uid: "u1", Name: "log", Namespace: "default"}
	c := l.container("app", "app1", 50000)
	l.create(pod, c)
	l.run(c)
	g := l.grant(pod, c)
	weight := int(g.Weight)
	if err := l.pods.Group(c.Id).Apply(cgroup.Settings{CPUs: g.CPUs, Quota: 50 * time.Millisecond, Period: g.Period, Weight: weight}); err != nil {
		t.Fatal(err)
	}
	if !l.host.MatchesGrant(&host.Allocation{Request: hybrid.Request{ID: g.ID}, Engine: g.Engine}, int(c.Pid)) {
		t.Error("it has not what it is to have")
	}
	if err := l.StartContainer(ctx, pod, c); err != nil {
		t.Fatal(err)
	}
	l.recordAllStarts()
	if g := l.grant(pod, c); g.State != host.Running || g.Main.PID != int(c.Pid) {
		t.Errorf("%+v", g)
	}
}

// TestHeadStart: the plugin starts a head start for each planned container, unless the configuration disables it.
func TestHeadStart(t *testing.T) {
	l := newLab(t)
	begun := 0
	l.expect = func() { begun++ }
	small, huge := l.container("small", "small1", 10000), l.container("huge", "huge1", 1<<40)
	preserved := &api.PodSandbox{Id: "box2", Uid: "u2", Name: "old", Namespace: "default", Annotations: map[string]string{kube.PodKey("preserve"): "true"}}
	for _, tt := range []struct {
		name  string
		pod   *api.PodSandbox
		c     *api.Container
		start bool
		want  int
	}{
		{"planned", sensitivePod(), small, true, 1},
		{"preserved", preserved, small, true, 1},
		{"refused", sensitivePod(), huge, true, 0},
		{"switched off", preserved, small, false, 0},
	} {
		begun = 0
		l.SetConfig(&Config{HeadStart: tt.start})
		_, _, err := l.CreateContainer(ctx, tt.pod, tt.c)
		if refused := err != nil; refused != (tt.name == "refused") || begun != tt.want {
			t.Errorf("%s: begun %d times, %v; want %d", tt.name, begun, err, tt.want)
		}
	}
}

// TestOldSandbox: the late event of an old sandbox's end does not release the containers of the pod's new sandbox.
func TestOldSandbox(t *testing.T) {
	l := newLab(t)
	pod := sensitivePod()
	c := l.container("app", "app1", 50000)
	l.create(pod, c)
	old := sensitivePod()
	old.Id = "box0"
	if err := l.StopPodSandbox(ctx, old); err != nil {
		t.Fatal(err)
	}
	if err := l.RemovePodSandbox(ctx, old); err != nil {
		t.Fatal(err)
	}
	if l.grant(pod, c) == nil {
		t.Error("planned for the new sandbox, it has nothing")
	}
	if err := l.StopPodSandbox(ctx, pod); err != nil {
		t.Fatal(err)
	}
	if g := l.grant(pod, c); g != nil {
		t.Errorf("after its own sandbox it has %v", g.CPUs)
	}
}

// TestPostUpdate: the runtime may write outdated values after the reply to an update; the plugin restores the granted
// values.
func TestPostUpdate(t *testing.T) {
	l := newLab(t)
	pod := sensitivePod()
	c := l.started(pod, 50000)
	all := l.needTwo()
	if err := l.pods.Group("app1").SetCPUs(all, cpuset.Set{}); err != nil {
		t.Fatal(err)
	}
	if err := l.PostUpdateContainer(ctx, pod, c); err != nil {
		t.Fatal(err)
	}
	has, err := l.pods.Group("app1").Settings()
	if want := l.grant(pod, c).CPUs; err != nil || has.CPUs != want {
		t.Errorf("it has %v, %v; granted %v", has.CPUs, err, want)
	}
}

// TestUpdateOfPredecessor: a late update of a container that has ended does not change its successor.
func TestUpdateOfPredecessor(t *testing.T) {
	l := newLab(t)
	pod := sensitivePod()
	c := l.started(pod, 50000)
	wanted := l.container("app", "", 30000).Linux.Resources
	if updates, err := l.UpdateContainer(ctx, pod, l.container("app", "app0", 50000), wanted); err != nil || updates != nil {
		t.Errorf("answered with %v, %v", updates, err)
	}
	if g := l.grant(pod, c); g.Limit != 500 {
		t.Errorf("its successor has %v", g.Limit)
	}
	if updates, err := l.UpdateContainer(ctx, pod, c, wanted); err != nil || len(updates) != 1 || l.grant(pod, c).Limit != 300 {
		t.Errorf("itself: answered with %v, %v", updates, err)
	}
}

// TestCreateHasNoRequest: the plugin reads the requested resources of running containers only; those of a
// container in creation are no request.
func TestCreateHasNoRequest(t *testing.T) {
	l := newLab(t)
	pod := sensitivePod()
	c := l.container("app", "app1", 50000)
	c.Annotations = map[string]string{askedKey: "10000/100000/102"}
	l.create(pod, c)
	if g := l.grant(pod, c); g == nil || g.Limit != 500 || g.View != spec.ViewFull {
		t.Errorf("it has %+v", g)
	}
}
