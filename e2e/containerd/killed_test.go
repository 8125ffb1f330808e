package containerd

import (
	"context"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/hybrid"
)

// TestKilled kills the plugin, containerd or both at random moments, while four pods at a time start and end. Running
// containers keep their CPUs, and the plugin repairs containers that started without a plan.
func TestKilled(t *testing.T) {
	l := newLab(t)
	c := newCensus(l)
	had := c.beginTwo()
	workers := newWorkers(c, 2, 2, true)
	moments := rand.New(rand.NewPCG(2, 2))
	for round := range rounds() {
		plugin, engine := round%3 != 1, round%3 != 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			all(workers, func(w *worker) {
				for range 4 {
					w.step()
				}
			})
		}()
		time.Sleep(time.Duration(moments.IntN(800)) * time.Millisecond) // a random moment
		l.cut(plugin, engine)
		<-done
		c.check()
		c.unmoved(had)
		now := c.has()
		l.cut(plugin, engine)
		c.check()
		c.unmoved(now)
	}
	for ctr := range had {
		ctr.sees()
	}
	all(workers, func(w *worker) {
		if w.pod != nil {
			w.abandon()
		}
	})
	c.check()
	done, ops := 0, 0
	for _, w := range workers {
		ops += w.ops
		for _, n := range w.done {
			done += n
		}
	}
	if t.Logf("%d of %d operations done", done, ops); done < ops/4 {
		t.Errorf("of %d operations only %d did not break off", ops, done)
	}
}

// cut kills the plugin, containerd or both, starts them again, and waits until the plugin is connected.
func (l *lab) cut(plugin, engine bool) {
	l.Helper()
	meetings := strings.Count(l.plugin.output(), "msg=synchronized")
	if engine {
		l.engine.kill()
	}
	if plugin {
		l.plugin.kill()
	}
	if engine {
		l.startEngine()
	}
	if plugin {
		l.startPlugin()
		return
	}
	l.wait("candor nri", l.plugin, func() bool { return strings.Count(l.plugin.output(), "msg=synchronized") > meetings })
}

// beginTwo starts a container with an exclusive CPU, and a container with an immovable fraction.
func (c *census) beginTwo() map[*container]cgroup.Settings {
	c.Helper()
	fixed := map[string]string{"candor.dev/class": "sensitive", "candor.dev/movable": "false"}
	for _, limit := range []hybrid.Milli{1000, 100} {
		p := must[*pod](c)(c.newPod(limit, limit, fixed))
		c.begin(must[*container](c)(p.run("app", limit, limit, true)))
	}
	return c.has()
}

// isBroken reports whether an operation failed because containerd or the plugin was killed.
func isBroken(err error) bool {
	if status.Code(err) == codes.Unavailable || brokenSnapshot.MatchString(err.Error()) {
		return true
	}
	return slices.ContainsFunc([]string{"server is not initialized yet", "ttrpc: closed", "error reading from server"},
		func(s string) bool { return strings.Contains(err.Error(), s) })
}

// brokenSnapshot is the error after containerd was killed while it created a snapshot. The remaining
// directory blocks the next snapshot with the same number. containerd removes the directory after that
// failure, without a lock: if two creations fail at the same time, the second removal can hit the directory
// of a third creation.
var brokenSnapshot = regexp.MustCompile(`rename \S+ \S+/snapshots/\d+: file exists|/snapshots/\d+\b.*: no such file or directory`)

// abandon removes a pod that had an unfinished operation when containerd was killed. Like the kubelet, it
// tries again until the pod is gone.
func (w *worker) abandon() {
	w.Helper()
	w.endAll()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = w.endSandbox(w.pod.name); err == nil {
			w.pod = nil
			return
		}
	}
	w.Errorf("%s cannot be ended: %v", w.pod.name, err)
}

// endSandbox removes the sandbox of a pod, if it exists, and the pod's group.
func (l *lab) endSandbox(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	list, err := l.cri.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	for _, s := range list.Items {
		if s.Metadata.Name == name {
			return (&pod{lab: l, name: name, id: s.Id}).remove()
		}
	}
	return removeGroups(l.parent + "/" + name)
}

// TestWithoutPlugin: a container that starts without a plugin uses all CPUs until a plugin connects.
func TestWithoutPlugin(t *testing.T) {
	l := newLab(t)
	c := newCensus(l)
	l.plugin.kill()
	p := must[*pod](t)(l.newPod(200, 200, sensitivePod))
	late := must[*container](t)(p.run("app", 200, 200, true))
	if got, all := late.cpus(), l.all(); got != all {
		t.Errorf("without a plugin it has %v of %v", got, all)
	}
	c.begin(late)
	l.startPlugin()
	c.check()
}

func rounds() int {
	if testing.Short() {
		return 3
	}
	return 9
}

// TestRequiredPlugin: if containerd requires the plugin, it creates no container without it.
func TestRequiredPlugin(t *testing.T) {
	l := newLab(t, "[plugins.'io.containerd.nri.v1.nri'.default_validator]", "enable = true", `required_plugins = ["candor"]`)
	p := must[*pod](t)(l.newPod(200, 200, sensitivePod))
	must[*container](t)(p.run("app", 200, 200, true)).sees()
	l.plugin.kill()
	p.run("first", 100, 0, false) // with this container at the latest, containerd notices the end of the plugin
	if _, err := p.run("late", 200, 200, true); err == nil || !strings.Contains(err.Error(), `required plugin "candor"`) {
		t.Errorf("without the plugin: %v", err)
	}
	l.startPlugin()
	must[*container](t)(p.run("late", 200, 200, true)).sees()
}

// TestReload: SIGHUP reloads the configuration; a bad configuration changes nothing.
func TestReload(t *testing.T) {
	l := newLab(t)
	reload := func(text, want string) {
		t.Helper()
		l.write("nri.yaml", text)
		if err := l.plugin.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		l.wait(want, l.plugin, func() bool { return strings.Contains(l.plugin.output(), want) })
	}
	reload("version: 1\nnode: {minShared: lots}\n", "configuration rejected")
	reload("version: 1\nnamespaces: {default: {class: sensitive}}\n", "configuration reloaded")
	p := must[*pod](t)(l.newPod(300, 300, nil))
	must[*container](t)(p.run("app", 300, 300, true)).sees()
}
