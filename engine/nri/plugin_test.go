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

// started returns a container that was created, runs and whose start was reported to the plugin.
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

// TestStartRecorded: a container that starts with the granted settings is recorded as running, with its
// process ID.
func TestStartRecorded(t *testing.T) {
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
		t.Error("the settings of the cgroup do not match the grant")
	}
	if err := l.StartContainer(ctx, pod, c); err != nil {
		t.Fatal(err)
	}
	l.recordAllStarts()
	if g := l.grant(pod, c); g.State != host.Running || g.Main.PID != int(c.Pid) {
		t.Errorf("%+v", g)
	}
}

// TestHeadStart: the plugin starts a head start for each planned or preserved container, unless the
// configuration disables it. A refused container gets none.
func TestHeadStart(t *testing.T) {
	l := newLab(t)
	headStarts := 0
	l.expect = func() { headStarts++ }
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
		{"disabled", preserved, small, false, 0},
	} {
		headStarts = 0
		l.SetConfig(&Config{HeadStart: tt.start})
		_, _, err := l.CreateContainer(ctx, tt.pod, tt.c)
		if refused := err != nil; refused != (tt.name == "refused") || headStarts != tt.want {
			t.Errorf("%s: %d head starts, %v; want %d", tt.name, headStarts, err, tt.want)
		}
	}
}

// TestOldSandbox: a late stop event of a pod's old sandbox does not release the containers of the new
// sandbox.
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
		t.Error("the container of the new sandbox has no grant")
	}
	if err := l.StopPodSandbox(ctx, pod); err != nil {
		t.Fatal(err)
	}
	if g := l.grant(pod, c); g != nil {
		t.Errorf("after the end of its sandbox the container still has CPUs %v", g.CPUs)
	}
}

// TestPostUpdate: the runtime may write outdated values after the reply to an update. PostUpdateContainer
// restores the granted values.
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
		t.Errorf("got CPUs %v, %v, want %v", has.CPUs, err, want)
	}
}

// TestUpdateOfPredecessor: a late update of an ended container does not change the container with the same
// name that replaced it.
func TestUpdateOfPredecessor(t *testing.T) {
	l := newLab(t)
	pod := sensitivePod()
	c := l.started(pod, 50000)
	wanted := l.container("app", "", 30000).Linux.Resources
	if updates, err := l.UpdateContainer(ctx, pod, l.container("app", "app0", 50000), wanted); err != nil || updates != nil {
		t.Errorf("update of the ended container: got %v, %v, want no updates", updates, err)
	}
	if g := l.grant(pod, c); g.Limit != 500 {
		t.Errorf("limit of the successor: got %v, want 500m", g.Limit)
	}
	if updates, err := l.UpdateContainer(ctx, pod, c, wanted); err != nil || len(updates) != 1 || l.grant(pod, c).Limit != 300 {
		t.Errorf("update of the successor: got %v, %v", updates, err)
	}
}

// TestCreateIgnoresRecordedRequest: the annotation with the requested resources counts for running containers
// only. CreateContainer ignores it.
func TestCreateIgnoresRecordedRequest(t *testing.T) {
	l := newLab(t)
	pod := sensitivePod()
	c := l.container("app", "app1", 50000)
	c.Annotations = map[string]string{askedKey: "10000/100000/102"}
	l.create(pod, c)
	if g := l.grant(pod, c); g == nil || g.Limit != 500 || g.View != spec.ViewCPU {
		t.Errorf("got grant %+v, want limit 500m and the view of CPUs", g)
	}
}
