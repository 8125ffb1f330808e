package containerd

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// givenBackKinds are containers, each of which runs once with Candor and once preserved, as without Candor.
var givenBackKinds = []struct {
	limit, request hybrid.Milli
	annotations    map[string]string
}{
	{100, 100, map[string]string{"candor.dev/class": "sensitive"}},
	{250, 250, map[string]string{"candor.dev/class": "sensitive", "candor.dev/burst": "10ms"}},
	{300, 100, nil},
	{0, 50, nil},
	{0, 0, nil},
	{1000, 1000, map[string]string{"candor.dev/class": "sensitive"}}, // an exclusive CPU
}

// TestGiveBack: after candor nri --give-back, the settings of each container and of its pod equal those of the same
// container without Candor, also if candor nri --give-back was killed at a random point before.
func TestGiveBack(t *testing.T) {
	l := newLab(t)
	moments := rand.New(rand.NewPCG(4, 4))
	for round := range rounds() {
		given, plain := l.startTwins(true), l.startTwins(false)
		l.plugin.kill()
		killed := l.start(l.candor, append(l.pluginArgs(), "--give-back")...)
		time.Sleep(time.Duration(moments.IntN(60)) * time.Millisecond) // a random point
		killed.kill()
		idle := l.start(l.candor, append(l.pluginArgs(), "--give-back")...)
		l.wait("candor nri --give-back", idle, func() bool { return strings.Contains(idle.output(), "all containers are given back") })
		for i := range given {
			if has, want := given[i].settingsText(), plain[i].settingsText(); has != want {
				t.Errorf("round %d: container %+v has\n%s\nwithout Candor\n%s", round, givenBackKinds[i%len(givenBackKinds)], has, want)
			}
		}
		idle.kill()
		for _, ctr := range append(given, plain...) {
			if err := ctr.pod.remove(); err != nil {
				t.Fatal(err)
			}
		}
		l.startPlugin()
	}
}

// startTwins starts a container of each kind in a pod of its own, with Candor or preserved.
func (l *lab) startTwins(isManaged bool) (all []*container) {
	l.Helper()
	kinds := givenBackKinds
	if all := l.all(); all.Count() < 4 {
		kinds = kinds[:len(kinds)-1]
	}
	for _, kind := range kinds {
		annotations := kind.annotations
		if !isManaged {
			annotations = map[string]string{"candor.dev/preserve": "true"}
		}
		p := must[*pod](l)(l.newPod(kind.limit, kind.request, annotations))
		all = append(all, must[*container](l)(p.run("app", kind.limit, kind.request, annotations["candor.dev/class"] == "sensitive")))
	}
	return all
}

// settingsText returns the CPUs, quota, period, burst and weight of the container's group and of its pod's group.
func (c *container) settingsText() string {
	c.Helper()
	group := c.group()
	cpus, mems, err := group.Effective()
	if err != nil {
		c.Fatal(err)
	}
	s, err := group.CPUSettings()
	if err != nil {
		c.Fatal(err)
	}
	above, err := c.pod.group().CPULimits()
	if err != nil {
		c.Fatal(err)
	}
	return fmt.Sprintf("CPUs %v, memory nodes %v, %+v, pod %+v", cpus, mems, s, above)
}
