package nri

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/candor-project/candor/kube"
)

// TestPreserveKeepsRunningGrants: a namespace gets the setting preserve while a container runs. The container
// keeps its grant, and its CPUs do not become reserved.
func TestPreserveKeepsRunningGrants(t *testing.T) {
	l := newLab(t)
	l.needTwo()
	reserving := sensitivePod() // without it the other container has all CPUs, which cannot be reserved
	reserving.Uid, reserving.Id, reserving.Name = "u2", "box2", "own"
	l.create(reserving, l.container("app", "own1", 100000))
	pod := sensitivePod()
	delete(pod.Annotations, kube.PodKey("class"))
	c := l.started(pod, 50000)
	had := l.grant(pod, c).CPUs
	yes := true
	l.SetConfig(&Config{Namespaces: map[string]kube.Settings{"default": {Preserve: &yes}}})
	made := c.Annotations
	for _, lost := range []bool{false, true} {
		c.Annotations = nil // the settings are in the grant; if the state is lost, only in the annotations
		if lost {
			c.Annotations = made
			if err := os.RemoveAll(filepath.Join(l.dir, "state")); err != nil {
				t.Fatal(err)
			}
		}
		c.PodSandboxId = pod.Id
		if _, err := l.Synchronize(ctx, []*api.PodSandbox{reserving, pod}, []*api.Container{c}); err != nil {
			t.Fatal(err)
		}
		g := l.grant(pod, c)
		if g == nil || !lost && g.CPUs != had {
			t.Errorf("state lost %v: got grant %+v, want CPUs %v", lost, g, had)
		}
		if kept, _ := os.ReadDir(filepath.Join(l.dir, "state", "preserved")); len(kept) > 0 {
			t.Errorf("state lost %v: %v counts as reserved", lost, kept[0].Name())
		}
	}
}

// TestSyncContinuesAfterPreserve: an error of a preserved container is logged and does not end the
// synchronization.
func TestSyncContinuesAfterPreserve(t *testing.T) {
	l := newLab(t)
	ended := &api.PodSandbox{Id: "box2", Uid: "u2", Name: "gone", Namespace: "default",
		Annotations: map[string]string{kube.PodKey("preserve"): "true"}}
	c := l.container("app", "gone1", 50000)
	c.Linux.Resources.Cpu.Cpus = "0"
	c.PodSandboxId, c.State = ended.Id, api.ContainerState_CONTAINER_RUNNING
	for _, pid := range []uint32{0, 1 << 30} {
		c.Pid = pid
		if _, err := l.Synchronize(ctx, []*api.PodSandbox{ended}, []*api.Container{c}); err != nil {
			t.Errorf("process %d: %v", pid, err)
		}
		if !strings.Contains(l.log.String(), "cannot reserve the CPUs") {
			t.Errorf("process %d: not in the log: %s", pid, l.log)
		}
		if kept, _ := os.ReadDir(filepath.Join(l.dir, "state", "preserved")); len(kept) > 0 {
			t.Errorf("process %d: the CPUs are reserved", pid)
		}
		l.log.Reset()
	}
}

// TestSyncContinuesAfterBadLimit: a container was resized without the plugin to a limit that Candor cannot
// grant. It keeps its grant, and the other containers are synchronized.
func TestSyncContinuesAfterBadLimit(t *testing.T) {
	l := newLab(t)
	l.needTwo()
	pod := sensitivePod()
	pod.Annotations[kube.PodKey("period")] = "10ms"
	c := l.started(pod, 50000)
	c.PodSandboxId = pod.Id
	c.Linux.Resources.Cpu.Quota, c.Linux.Resources.Cpu.Period = api.Int64(5000), api.UInt64(uint64(100000))
	other := sensitivePod()
	other.Uid, other.Id, other.Name = "u2", "box2", "other"
	found := l.container("app", "other1", 50000)
	found.PodSandboxId = other.Id
	l.run(found)
	if _, err := l.Synchronize(ctx, []*api.PodSandbox{pod, other}, []*api.Container{c, found}); err != nil {
		t.Fatal(err)
	}
	if logged := l.log.String(); !strings.Contains(logged, "cannot adopt a running container") || !strings.Contains(logged, "must be at least 100m with a period of 10ms") {
		t.Errorf("not in the log: %s", logged)
	}
	if g := l.grant(pod, c); g == nil || g.Limit != 500 {
		t.Errorf("got grant %+v, want the previous limit of 500m", g)
	}
	if l.grant(other, found) == nil {
		t.Error("the other container has no grant")
	}
}

// TestSyncAppliesRequest: the request of a flexible container was resized without the plugin. The
// synchronization sets its guarantee to the new request.
func TestSyncAppliesRequest(t *testing.T) {
	l := newLab(t)
	pod := sensitivePod()
	delete(pod.Annotations, kube.PodKey("class"))
	c := l.container("app", "app1", 50000)
	c.Linux.Resources.Cpu.Shares = api.UInt64(uint64(102))
	l.create(pod, c)
	l.run(c)
	if err := l.StartContainer(ctx, pod, c); err != nil {
		t.Fatal(err)
	}
	c.PodSandboxId = pod.Id
	for _, shares := range []uint64{102, 256} {
		c.Linux.Resources.Cpu.Shares = api.UInt64(shares)
		if _, err := l.Synchronize(ctx, []*api.PodSandbox{pod}, []*api.Container{c}); err != nil {
			t.Fatal(err)
		}
		if g := l.grant(pod, c); g == nil || g.Guarantee != milliOf(int64(shares)) || g.Limit != 500 {
			t.Errorf("%d shares: got grant %+v", shares, g)
		}
	}
}

// TestPreservedWithoutCPUs: a preserved container without a cpuset runs on all CPUs. The plugin logs this
// when the container starts, at the synchronization, and when another container gets exclusive CPUs.
func TestPreservedWithoutCPUs(t *testing.T) {
	l := newLab(t)
	l.needTwo()
	l.started(sensitivePod(), 100000)
	pod := &api.PodSandbox{Id: "box2", Uid: "u2", Name: "kept", Namespace: "default",
		Annotations: map[string]string{kube.PodKey("preserve"): "true"}}
	c := l.container("app", "kept1", 50000)
	l.create(pod, c)
	for event, report := range map[string]func() error{
		"started": func() error { return l.StartContainer(ctx, pod, c) },
		"found": func() error {
			c.PodSandboxId, c.State = pod.Id, api.ContainerState_CONTAINER_RUNNING
			_, err := l.Synchronize(ctx, []*api.PodSandbox{sensitivePod(), pod}, []*api.Container{c})
			return err
		},
	} {
		l.log.Reset()
		if err := report(); err != nil {
			t.Fatal(err)
		}
		if logged := l.log.String(); !strings.Contains(logged, "container=default/kept/app") || !strings.Contains(logged, "of default/web/app") {
			t.Errorf("%s: the log does not report the shared CPUs: %s", event, logged)
		}
	}
	other := sensitivePod()
	other.Uid, other.Id, other.Name = "u3", "box3", "other"
	create := func(want bool) {
		t.Helper()
		l.log.Reset()
		l.create(other, l.container("app", "other1", 100000))
		if logged := l.log.String(); strings.Contains(logged, "also run on the exclusive CPUs") != want {
			t.Errorf("want in the log: %v; log: %s", want, logged)
		}
		if err := l.StopPodSandbox(ctx, other); err != nil {
			t.Fatal(err)
		}
	}
	create(true)
	if _, err := l.StopContainer(ctx, pod, c); err != nil {
		t.Fatal(err)
	}
	create(false)
}

// TestResizeSurvivesLostState: after the state is lost, the synchronization takes the resized limit from the
// runtime's record and not the original limit.
func TestResizeSurvivesLostState(t *testing.T) {
	l := newLab(t)
	pod := sensitivePod()
	c := l.started(pod, 50000)
	c.PodSandboxId = pod.Id
	updates, err := l.UpdateContainer(ctx, pod, c, l.container("app", "", 90000).Linux.Resources)
	if err != nil {
		t.Fatal(err)
	}
	c.Linux.Resources.Cpu = updates[0].Linux.Resources.Cpu
	if err := l.PostUpdateContainer(ctx, pod, c); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(l.dir, "state")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Synchronize(ctx, []*api.PodSandbox{pod}, []*api.Container{c}); err != nil {
		t.Fatal(err)
	}
	if g := l.grant(pod, c); g == nil || g.Limit != 900 {
		t.Errorf("got grant %+v, want limit 900m; log: %s", g, l.log)
	}
}
