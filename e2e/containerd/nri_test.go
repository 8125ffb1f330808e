package containerd

import (
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

var sensitivePod = map[string]string{"candor.dev/class": "sensitive"}

func must[T any](t interface {
	Helper()
	Fatal(...any)
}) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestContainerLifecycle: a sensitive container has exclusive CPUs from its start, and sees as many as it
// has. The flexible container leaves these CPUs, and gets them back at the end.
func TestContainerLifecycle(t *testing.T) {
	l := newLab(t)
	log := must[*container](t)(must[*pod](t)(l.newPod(0, 0, nil)).run("log", 0, 0, false))
	all := log.cpus()
	if all.Count() < 2 {
		t.Skip("needs 2 CPUs")
	}
	p := must[*pod](t)(l.newPod(1000, 1000, sensitivePod))
	web := must[*container](t)(p.run("web", 1000, 1000, true))
	web.sees()
	has, left := web.cpus(), log.cpus()
	if has.Overlaps(&left) || left.Count() != all.Count()-1 {
		t.Errorf("web has %v, log %v", has, left)
	}
	if s, err := web.has(); err != nil || s.Quota != 0 {
		t.Errorf("web's quota is %v (%v): its cpuset alone enforces the limit", s.Quota, err)
	}
	// A restarted container gets the same CPUs, which no other container had meanwhile.
	if err := web.stop(); err != nil {
		t.Fatal(err)
	}
	if left := log.cpus(); left.Overlaps(&has) {
		t.Errorf("while web restarts, log has %v of its %v", left, has)
	}
	again := must[*container](t)(p.run("web", 1000, 1000, true))
	if got := again.cpus(); got != has {
		t.Errorf("restarted, web has %v; had %v", got, has)
	}
	again.sees()
	if err := p.remove(); err != nil {
		t.Fatal(err)
	}
	if got := log.cpus(); got != all {
		t.Errorf("after the end of web, log has %v of %v", got, all)
	}
}

// TestResize: a limit of 1.5 is resized in place to 1, and refused if there are not enough CPUs.
func TestResize(t *testing.T) {
	l := newLab(t)
	p := must[*pod](t)(l.newPod(1500, 1500, sensitivePod))
	web := must[*container](t)(p.run("web", 1500, 1500, true))
	web.sees()
	if err := web.resize(1000); err != nil {
		t.Fatal(err)
	}
	web.limit = 1000
	web.sees()
	before := web.cpus()
	if err := web.resize(1000000); err == nil {
		t.Error("a thousand CPUs were not refused")
	} else if !strings.Contains(err.Error(), "candor: container default/"+p.name+"/web: no capacity: ") {
		t.Errorf("the refusal has no reason: %v", err)
	}
	if got := web.cpus(); got != before {
		t.Errorf("refused, it has %v; had %v", got, before)
	}
	web.sees()
}

// TestRefusals: an impossible request is refused, and kubectl describe shows the reason. A container whose
// request is below its limit is treated as flexible.
func TestRefusals(t *testing.T) {
	l := newLab(t)
	for _, test := range []struct {
		annotations    map[string]string
		limit, request hybrid.Milli
		want           string
	}{
		{sensitivePod, 1000000, 1000000, "/web: no capacity: needs "},
		{map[string]string{"candor.dev/class": "sensitve"}, 500, 500, "must be one of sensitive, flexible"},
		{map[string]string{"klass.candor.dev/web": "flexible"}, 500, 500, "unknown setting"},
	} {
		p := must[*pod](t)(l.newPod(0, 0, test.annotations))
		if _, err := p.run("web", test.limit, test.request, true); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v; want %q", test.annotations, err, test.want)
		}
	}
	p := must[*pod](t)(l.newPod(1000, 500, sensitivePod))
	must[*container](t)(p.run("web", 1000, 500, false))
	if output := l.plugin.output(); !strings.Contains(output, "treated as flexible") || !strings.Contains(output, "500m is not its limit, 1") {
		t.Errorf("the log has no reason for the class flexible:\n%s", output)
	}
}

// TestPreserve: a cpuset of the kubelet is refused, because two managers would conflict. A preserved
// container keeps its cpuset, and no other container uses these CPUs until it ends.
func TestPreserve(t *testing.T) {
	l := newLab(t)
	log := must[*container](t)(must[*pod](t)(l.newPod(0, 0, nil)).run("log", 0, 0, false))
	all := log.cpus()
	if all.Count() < 2 {
		t.Skip("needs 2 CPUs")
	}
	first := cpuset.Of(all.First())
	p := must[*pod](t)(l.newPod(0, 0, nil))
	p.cpuset = first.String()
	if _, err := p.run("app", 500, 500, false); err == nil || !strings.Contains(err.Error(), "set cpuManagerPolicy: none") {
		t.Errorf("a cpuset of the kubelet's: %v", err)
	}
	p = must[*pod](t)(l.newPod(0, 0, map[string]string{"candor.dev/preserve": "true"}))
	p.cpuset = first.String()
	kept := must[*container](t)(p.run("app", 500, 500, false))
	if got, rest := kept.cpus(), log.cpus(); got != first || rest.Overlaps(&got) {
		t.Errorf("preserved, it has %v of its %v; log has %v", got, first, rest)
	}
	if err := kept.stop(); err != nil {
		t.Fatal(err)
	}
	if got := log.cpus(); got != all {
		t.Errorf("after its end log has %v", got)
	}
}

// TestOnResize: a container is notified of its new size with its method.
func TestOnResize(t *testing.T) {
	l := newLab(t)
	p := must[*pod](t)(l.newPod(500, 500, map[string]string{"candor.dev/class": "sensitive", "candor.dev/on-resize": "signal:USR1"}))
	web := must[*container](t)(p.run("web", 500, 500, true, "sh", "-c", "trap 'echo told >/tmp/told' USR1; echo ready >/tmp/told; while :; do sleep 0.02; done"))
	waitForOutput := func(want string) {
		t.Helper()
		l.wait(want, l.plugin, func() bool { output, err := web.try("cat", "/tmp/told"); return err == nil && output == want })
	}
	waitForOutput("ready")
	if err := web.resize(700); err != nil {
		t.Fatal(err)
	}
	waitForOutput("told")
}
