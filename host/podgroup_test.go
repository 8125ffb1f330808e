package host

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/hybrid"
)

// A kubepod is a pod's cgroup as the kubelet creates it.
type kubepod struct {
	*engine
	group *cgroup.Group
	id    string
}

// newPod creates the cgroup of a pod, with the quota and the weight that the kubelet computes. A limit of 0
// means no quota.
func newPod(e *engine, limit, request hybrid.Milli) *kubepod {
	e.Helper()
	above, err := cgroup.Open(cgroup.Options{Parent: e.base, Driver: cgroup.Cgroupfs})
	if err != nil {
		e.Fatal(err)
	}
	all, _, err := above.Effective()
	if err != nil {
		e.Fatal(err)
	}
	p := &kubepod{e, above.Group("pod1"), "1"}
	if err := p.group.Create(cgroup.Settings{CPUs: all}, 0); err != nil {
		e.Fatal(err)
	}
	p.write(limit, request)
	return p
}

// kubeletLimits returns the limits that the kubelet computes from a limit and a request.
func (p *kubepod) kubeletLimits(limit, request hybrid.Milli) cgroup.CPULimits {
	period := bandwidth.DefaultPeriod
	return cgroup.CPULimits{Quota: time.Duration(limit) * period / 1000, Period: period, Weight: p.tree.PodWeight(int(request))}
}

func (p *kubepod) write(limit, request hybrid.Milli) {
	p.Helper()
	if err := p.group.SetCPULimits(p.kubeletLimits(limit, request)); err != nil {
		p.Fatal(err)
	}
}

// ask is engine.ask for a container of this pod.
func (p *kubepod) ask(a Allocation, group string) Allocation {
	a = p.engine.ask(a, group)
	a.Engine.Pod = p.id
	return a
}

// start admits, creates and starts a container.
func (p *kubepod) start(a Allocation, role string) (stop func()) {
	p.Helper()
	group := strings.TrimPrefix(a.Engine.Cgroup, p.base+"/pod1/")
	g, err := p.Admit(ctx, a, 0)
	if err != nil {
		p.Fatal(err)
	}
	stop = p.play(group, settingsOf(g), role)
	if err := p.ConfirmStart(ctx, a, 0); err != nil {
		p.Fatal(err)
	}
	return stop
}

// has checks the limits of the pod's cgroup.
func (p *kubepod) has(when string, want cgroup.CPULimits) {
	p.Helper()
	if got, err := p.group.CPULimits(); err != nil || got != want {
		p.Errorf("%s: the pod has %+v, %v; want %+v", when, got, err, want)
	}
}

// liftedFor returns the kubelet's limits with the lifted quota and Candor's weight.
func (p *kubepod) liftedFor(weight hybrid.Milli) cgroup.CPULimits {
	want := p.kubeletLimits(1, weight)
	want.Quota = p.liftedQuota()
	return want
}

// liftedQuota returns the quota that limits no container.
func (p *kubepod) liftedQuota() time.Duration {
	op := operation{Host: p.Host}
	return op.liftedQuota(bandwidth.DefaultPeriod)
}

// The kubelet's quota is lifted while every container has its own limit. It returns for a container without a limit,
// for a foreign process, and after the last container.
func TestPodGroup(t *testing.T) {
	p := newPod(newEngine(newLab(t)), 700, 700)
	web, log := p.ask(ask("web", "0.5"), "crio-a1"), p.ask(flexible("log", "0.2"), "crio-b2")
	stopWeb := p.start(web, "wait")
	p.has("web", p.liftedFor(700))
	stopLog := p.start(log, "wait")
	p.has("web and log", p.liftedFor(700))
	stopDebug := p.start(p.ask(flexible("debug", "0"), "crio-c3"), "wait")
	p.has("beside one without a limit", p.kubeletLimits(700, 700))
	stopDebug()
	p.nudge()
	p.has("after that one", p.liftedFor(700))
	for range 2 { // a group with the wanted settings is read again only after a change
		if err := p.Reconcile(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.tree.Group("foreign-9").Create(cgroup.Settings{CPUs: *p.engine.has("crio-a1")}, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.Reconcile(ctx); err != nil {
			t.Fatal(err)
		}
	}
	p.has("beside an empty foreign cgroup", p.liftedFor(700))
	stopForeign := p.play("foreign-9", cgroup.Settings{CPUs: *p.engine.has("crio-a1")}, "wait")
	if err := p.Reconcile(ctx); err != nil {
		t.Fatal(err)
	}
	p.has("beside a foreign process", p.kubeletLimits(700, 700))
	stopForeign()
	p.play("crio-box1", cgroup.Settings{CPUs: *p.engine.has("crio-a1")}, "wait")
	p.play("crio-conmon-a1", cgroup.Settings{CPUs: *p.engine.has("crio-a1")}, "wait")
	if err := p.Reconcile(ctx); err != nil {
		t.Fatal(err)
	}
	p.has("beside its sandbox and the engine's helpers", p.liftedFor(700))
	stopWeb()
	stopLog()
	p.nudge()
	p.has("between two containers", p.liftedFor(700))
	stopForeign = p.play("foreign-8", cgroup.Settings{CPUs: *p.engine.has("crio-a1")}, "wait")
	if err := p.Reconcile(ctx); err != nil {
		t.Fatal(err)
	}
	p.has("a foreign process between two containers", p.kubeletLimits(700, 700))
	stopForeign()
	if err := p.EndSandbox(ctx, "1", "box1"); err != nil {
		t.Fatal(err)
	}
	p.has("without containers", p.kubeletLimits(700, 700))
}

// With a fraction on a shared CPU, the pod's weight equals the container's weight.
func TestPodWeight(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	p := newPod(newEngine(l), 1300, 1300)
	web, log := p.ask(ask("web", "1.2"), "web-1"), p.ask(flexible("log", "0.1"), "log-1")
	p.start(web, "wait")
	p.has("2 CPUs with 200m of one", p.liftedFor(400))
	p.start(log, "wait")
	p.has("and 100m", p.liftedFor(500))
	for range 3 {
		p.write(1300, 1300)
		if err := p.Reconcile(ctx); err != nil {
			t.Fatal(err)
		}
		p.has("written by the kubelet and mended", p.liftedFor(500))
		if err := p.Reconcile(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(l.store.Dir); err != nil {
		t.Fatal(err)
	}
	if err := p.Sync(ctx, []Allocation{web, log}, []string{"box1"}); err != nil {
		t.Fatal(err)
	}
	p.has("the state lost", p.liftedFor(500))
	if err := p.EndSandbox(ctx, p.id, "box1"); err != nil {
		t.Fatal(err)
	}
}

// A pod whose limit is below the sum of its containers' limits keeps its quota.
func TestPodLimitBelowContainers(t *testing.T) {
	p := newPod(newEngine(newLab(t)), 600, 600)
	p.start(p.ask(flexible("a", "0.4"), "a-1"), "wait")
	p.has("one", p.liftedFor(600))
	p.start(p.ask(flexible("b", "0.4"), "b-1"), "wait")
	p.has("two", p.kubeletLimits(600, 600))
}

// TestPodResize is an in-place resize by the kubelet. The kubelet writes the pod's cgroup before or after the
// containers' cgroups, depending on the values that it reads. v1 refuses a pod quota below a container's
// quota.
func TestPodResize(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	p := newPod(newEngine(l), 500, 500)
	p.start(p.ask(ask("web", "0.5"), "web-1"), "wait")
	had := hybrid.Milli(500)
	for _, limit := range []hybrid.Milli{1500, 1000, 700, 300, 600} {
		podFirst := p.tree.Version() == 2 || limit == 600
		found := p.now()
		if podFirst {
			p.rewrite(found, limit)
		}
		if _, _, err := l.Resize(ctx, "web", limit, 0); err != nil {
			t.Fatal(err)
		}
		if got := p.now(); got.Quota != p.liftedQuota() {
			t.Errorf("%v to %v, pod first %v: the pod has %+v", had, limit, podFirst, got)
		}
		if has, err := p.tree.Group("web-1").Settings(); err != nil || limit%1000 != 0 && has.Quota != time.Duration(limit)*100*time.Microsecond {
			t.Errorf("%v: web has %+v, %v", limit, has, err)
		}
		if !podFirst {
			p.rewrite(found, limit)
		}
		if err := l.Reconcile(ctx); err != nil {
			t.Fatal(err)
		}
		weight := limit
		if limit == 1500 {
			weight = 1000 // 2 CPUs with 500m of one
		}
		p.has("mended", p.liftedFor(weight))
		had = limit
	}
}

func (p *kubepod) now() cgroup.CPULimits {
	p.Helper()
	has, err := p.group.CPULimits()
	if err != nil {
		p.Fatal(err)
	}
	return has
}

// rewrite performs the kubelet's part of a resize: it writes the values that differ from those that it read at its
// start.
func (p *kubepod) rewrite(found cgroup.CPULimits, limit hybrid.Milli) {
	p.Helper()
	next := p.kubeletLimits(limit, limit)
	if next.Weight == found.Weight {
		next.Weight = p.now().Weight
	}
	if err := p.group.SetCPULimits(next); err != nil {
		p.Fatal(err)
	}
}

// A resize of a pod with two containers adds the growth of each container to the pod's quota once.
func TestPodResizeOfTwo(t *testing.T) {
	p := newPod(newEngine(newLab(t)), 400, 400)
	p.start(p.ask(flexible("a", "0.2"), "a-1"), "wait")
	p.start(p.ask(flexible("b", "0.2"), "b-2"), "wait")
	if p.tree.Version() == 2 {
		p.rewrite(p.now(), 600)
	}
	for _, name := range []string{"a", "b"} {
		if _, _, err := p.Resize(ctx, name, 300, 300); err != nil {
			t.Fatal(err)
		}
	}
	note, err := readPodRecord(p.group)
	if want := 60 * time.Millisecond; err != nil || note.quota != want {
		t.Errorf("the kubelet's quota is taken to be %v, %v; want %v", note.quota, err, want)
	}
}

// A cgroup that other pods can share is not changed.
func TestForeignPodGroup(t *testing.T) {
	for path, want := range map[string]string{
		"/kubepods/pod1-2/ctr":           "/kubepods/pod1-2",
		"/kubepods/burstable/pod1-2/ctr": "/kubepods/burstable/pod1-2",
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/cri-containerd-3.scope": "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice",
		"/kubepods/burstable/ctr":                        "",
		"/kubepods/pod1/ctr":                             "",
		"/kubepods/xpod1-2/ctr":                          "",
		"/pods/1-2/ctr":                                  "",
		"/a.slice/a-pod1-2.slice/cri-containerd-3.scope": "",
	} {
		if got := (&Engine{Cgroup: path, Pod: "1-2"}).PodGroup(); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if got := (&Engine{Cgroup: "/pod/ctr"}).PodGroup(); got != "" {
		t.Errorf("no pod: %q", got)
	}
}
