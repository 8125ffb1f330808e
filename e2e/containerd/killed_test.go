package containerd

import (
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// The plugin is killed at random moments while pods come and go, and started again: who runs
// keeps the CPUs that it has, and who was started without a plan is put right.
func TestKilledPlugin(t *testing.T) {
	l := newLab(t)
	c := &census{lab: l, running: map[*container]bool{}}
	had := c.beginTwo()
	w := &worker{census: c, random: rand.New(rand.NewPCG(2, 2)), most: 4, blind: true}
	for range rounds() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 3 {
				w.step()
			}
		}()
		time.Sleep(time.Duration(w.random.IntN(600)) * time.Millisecond) // the moment is what is random
		l.plugin.kill()
		<-done
		l.startPlugin()
		c.check()
		c.unmoved(had)
	}
	// What was started while nobody planned runs everywhere, until there is a plugin again.
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

// beginTwo starts a container with a CPU of its own and one with a fraction.
func (c *census) beginTwo() map[*container]cpuset.Set {
	c.Helper()
	had := map[*container]cpuset.Set{}
	for _, limit := range []hybrid.Milli{1000, 300} {
		p := must[*pod](c)(c.newPod(limit, limit, sensitivePod))
		ctr := must[*container](c)(p.run("app", limit, limit, true))
		c.begin(ctr)
		had[ctr] = ctr.cpus()
	}
	return had
}

// unmoved checks that containers have the CPUs that they had.
func (c *census) unmoved(had map[*container]cpuset.Set) {
	c.Helper()
	for ctr, cpus := range had {
		if now := ctr.cpus(); now != cpus {
			c.Errorf("%s had %v and has %v", ctr.pod.name, cpus, now)
		}
		ctr.sees()
	}
}

// containerd is killed, alone and together with the plugin: what runs goes on as it was, and
// the plugin finds containerd again by itself.
func TestKilledContainerd(t *testing.T) {
	l := newLab(t)
	c := &census{lab: l, running: map[*container]bool{}}
	had := c.beginTwo()
	for _, both := range []bool{false, true, false} {
		meetings := strings.Count(l.plugin.said(), "msg=synchronized")
		l.engine.kill()
		if both {
			l.plugin.kill()
		}
		l.startEngine()
		if both {
			l.startPlugin()
		} else {
			l.wait("candor nri", l.plugin, func() bool { return strings.Count(l.plugin.said(), "msg=synchronized") > meetings })
		}
		c.check()
		c.unmoved(had)
		p := must[*pod](t)(l.newPod(200, 200, sensitivePod))
		must[*container](t)(p.run("app", 200, 200, true)).sees()
		if err := p.remove(); err != nil {
			t.Error(err)
		}
	}
}

func rounds() int {
	if testing.Short() {
		return 4
	}
	return 12
}

// With the plugin required, containerd makes no container while there is none.
func TestRequiredPlugin(t *testing.T) {
	l := newLab(t, "[plugins.'io.containerd.nri.v1.nri'.default_validator]", "enable = true", `required_plugins = ["candor"]`)
	p := must[*pod](t)(l.newPod(200, 200, sensitivePod))
	must[*container](t)(p.run("app", 200, 200, true)).sees()
	l.plugin.kill()
	p.run("first", 100, 0, false) // by this one containerd notices at the latest that the plugin has gone
	if _, err := p.run("late", 200, 200, true); err == nil || !strings.Contains(err.Error(), `required plugin "candor"`) {
		t.Errorf("without the plugin: %v", err)
	}
	l.startPlugin()
	must[*container](t)(p.run("late", 200, 200, true)).sees()
}

// A configuration is read again at SIGHUP; a bad one changes nothing.
func TestReload(t *testing.T) {
	l := newLab(t)
	reload := func(text, want string) {
		t.Helper()
		l.write("nri.yaml", text)
		if err := l.plugin.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		l.wait(want, l.plugin, func() bool { return strings.Contains(l.plugin.said(), want) })
	}
	reload("version: 1\nnode: {minShared: lots}\n", "configuration not taken")
	reload("version: 1\nnamespaces: {default: {class: sensitive}}\n", "configuration taken")
	p := must[*pod](t)(l.newPod(300, 300, nil))
	must[*container](t)(p.run("app", 300, 300, true)).sees()
}
