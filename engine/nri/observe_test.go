package nri

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/kube"
)

// observer returns an observer with a separate plan, next to the lab's plugin.
func (l *lab) observer() *observer {
	l.Helper()
	log := slog.New(slog.NewTextHandler(l.log, nil))
	h, err := host.Open(host.Options{StateDir: filepath.Join(l.dir, "plan"), PlanOnly: true, Log: log,
		Cgroup: cgroup.Options{Parent: l.base + "-run", Driver: cgroup.Cgroupfs}})
	if err != nil {
		l.Fatal(err)
	}
	e := NewEngine(h, DefaultConfig(), log)
	e.Observe()
	return &observer{&link{plugin: &plugin{e, func() {}}}}
}

// TestObserver: the reply to the runtime is empty for each plan and each refusal. The log contains the plan.
func TestObserver(t *testing.T) {
	l := newLab(t)
	o := l.observer()
	pod := sensitivePod()
	bad := sensitivePod()
	bad.Annotations = map[string]string{kube.PodKey("class"): "sensitve"}
	for _, test := range []struct {
		pod  *api.PodSandbox
		ctr  *api.Container
		want string
	}{
		{pod, l.container("app", "app1", 50000), `msg="would plan" container=default/web/app id=\S+ class=sensitive limit=500m`},
		{pod, l.container("huge", "huge1", 1000*100000), `msg="would refuse" container=default/web/huge`},
		{bad, l.container("other", "other1", 50000), `msg="would refuse" container=default/web/other`},
	} {
		l.log.Reset()
		a, updates, err := o.CreateContainer(ctx, test.pod, test.ctr)
		if a != nil || updates != nil || err != nil {
			t.Errorf("%s: got reply %+v, %+v, %v, want an empty reply", test.ctr.Name, a, updates, err)
		}
		if logged := l.log.String(); !regexp.MustCompile(test.want).MatchString(logged) || strings.Count(logged, "would") != 1 {
			t.Errorf("%s: got %s; want %s", test.ctr.Name, logged, test.want)
		}
	}
}

// TestObserverChangesNothing runs a planned container and a container that would be refused through their
// lifecycle. Their cgroups and the state of the plugin must not change.
func TestObserverChangesNothing(t *testing.T) {
	l := newLab(t)
	o := l.observer()
	pod := sensitivePod()
	good, huge := l.container("app", "app1", 50000), l.container("huge", "huge1", 1000*100000)
	for _, c := range []*api.Container{good, huge} {
		if _, _, err := o.CreateContainer(ctx, pod, c); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []*api.Container{good, huge} {
		l.run(c)
		if err := o.StartContainer(ctx, pod, c); err != nil {
			t.Errorf("start of %s: %v", c.Name, err)
		}
	}
	l.log.Reset()
	if updates, err := o.UpdateContainer(ctx, pod, good, l.container("app", "", 40000).Linux.Resources); updates != nil || err != nil {
		t.Errorf("update: %+v, %v", updates, err)
	}
	if logged := l.log.String(); !strings.Contains(logged, `msg="would resize"`) || !strings.Contains(logged, "limit=400m") {
		t.Errorf("update: got %s", logged)
	}
	if err := o.Repair(ctx); err != nil {
		t.Error(err)
	}
	all, _, err := l.pods.Effective()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*api.Container{good, huge} {
		if has, err := l.pods.Group(c.Id).Settings(); err != nil || has.CPUs != all || has.Quota != 0 {
			t.Errorf("%s: got settings %+v, %v, want CPUs %v and no quota", c.Name, has, err, all)
		}
		if _, err := o.StopContainer(ctx, pod, c); err != nil {
			t.Errorf("stop of %s: %v", c.Name, err)
		}
		if err := o.RemoveContainer(ctx, pod, c); err != nil {
			t.Errorf("removal of %s: %v", c.Name, err)
		}
	}
	if files, _ := os.ReadDir(filepath.Join(l.dir, "state")); len(files) > 0 {
		t.Errorf("the state directory of the plugin contains %v", files[0].Name())
	}
}

// TestEnvironment: the setting env adds variables with the number of CPUs. Variables that the container sets
// are not replaced.
func TestEnvironment(t *testing.T) {
	l := newLab(t)
	envFor := func(value string) []string {
		t.Helper()
		pod := sensitivePod()
		pod.Annotations[kube.ContainerKey("env", "app")] = value
		c := l.container("app", "app1", 50000)
		c.Env = []string{"PATH=/bin", "GOMAXPROCS=7"}
		a, _, err := l.CreateContainer(ctx, pod, c)
		if err != nil {
			t.Fatal(err)
		}
		var env []string
		for _, v := range a.Env {
			env = append(env, v.Key+"="+v.Value)
		}
		return env
	}
	if env := strings.Join(envFor("true"), " "); !strings.Contains(env, "OMP_NUM_THREADS=1") || strings.Contains(env, "GOMAXPROCS") {
		t.Errorf("env true: got %s", env)
	}
	if env := envFor("false"); len(env) > 0 {
		t.Errorf("env false: got %s, want none", env)
	}
	yes := true
	l.SetConfig(&Config{Node: kube.Settings{Env: &yes}})
	if env := envFor("false"); len(env) > 0 {
		t.Errorf("env false of the pod, true of the node: got %s, want none", env)
	}
}
