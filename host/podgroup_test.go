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

// A kubepod is a pod's group as the kubelet makes it.
type kubepod struct {
	*engine
	group *cgroup.Group
	id    string
}

// newPod makes the group of a pod with the kubelet's quota for a limit (0: none) and weight for a request.
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

// original is what the kubelet makes of a limit and a request.
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

// ask is engine's ask for a container of this pod.
func (p *kubepod) ask(a Allocation, group string) Allocation {
	a = p.engine.ask(a, group)
	a.Engine.Pod = p.id
	return a
}

// begin has a container admitted, made and begun.
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

// has checks what the pod's group has.
func (p *kubepod) has(when string, want cgroup.CPULimits) {
	p.Helper()
	if got, err := p.group.CPULimits(); err != nil || got != want {
		p.Errorf("%s: the pod has %+v, %v; want %+v", when, got, err, want)
	}
}

// liftedFor is the kubelet's with the quota lifted and Candor's weight.
func (p *kubepod) liftedFor(weight hybrid.Milli) cgroup.CPULimits {
	want := p.kubeletLimits(1, weight)
	want.Quota = p.liftedQuota()
	return want
}

// lifted is the quota that bounds nobody.
func (p *kubepod) liftedQuota() time.Duration {
	op := operation{Host: p.Host}
	return op.liftedQuota(bandwidth.DefaultPeriod)
}

// The kubelet's quota goes while all containers are bounded by themselves, and comes back for one that is
// not, for a stranger, and with the last of them.
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
	for range 2 { // what it has found right it looks at only when somebody has changed it
		if err := p.Reconcile(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.tree.Group("stranger-9").Create(cgroup.Settings{CPUs: *p.engine.has("crio-a1")}, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.Reconcile(ctx); err != nil {
			t.Fatal(err)
		}
	}
	p.has("beside a stranger's empty group", p.liftedFor(700))
	stopStranger := p.play("stranger-9", cgroup.Settings{CPUs: *p.engine.has("crio-a1")}, "wait")
	if err := p.Reconcile(ctx); err != nil {
		t.Fatal(err)
	}
	p.has("beside a stranger", p.kubeletLimits(700, 700))
	stopStranger()
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
	stopStranger = p.play("stranger-8", cgroup.Settings{CPUs: *p.engine.has("crio-a1")}, "wait")
	if err := p.Reconcile(ctx); err != nil {
		t.Fatal(err)
	}
	p.has("a stranger between two containers", p.kubeletLimits(700, 700))
	stopStranger()
	if err := p.EndSandbox(ctx, "1", "box1"); err != nil {
		t.Fatal(err)
	}
	p.has("without containers", p.kubeletLimits(700, 700))
}

// A fraction on a CPU that is not its own: the pod's weight is the container's.
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

// A pod that may use less than its containers together keeps its quota, once they are more.
func TestPodWithLessThanItsContainers(t *testing.T) {
	p := newPod(newEngine(newLab(t)), 600, 600)
	p.start(p.ask(flexible("a", "0.4"), "a-1"), "wait")
	p.has("one", p.liftedFor(600))
	p.start(p.ask(flexible("b", "0.4"), "b-1"), "wait")
	p.has("two", p.kubeletLimits(600, 600))
}

// An in-place resize by the kubelet, which writes the pod's group before the containers' or after them, as it
// reads it from the kernel. v1 does not take a pod's that is less than a container's.
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

// rewrite is the kubelet's part in a resize: it writes what is other than it has found at its begin.
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

// A resize of a pod whose containers are two: each adds its own growth to the pod's quota once.
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

// A group that others may share with the pod is left alone.
func TestPodGroupOfOthers(t *testing.T) {
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
