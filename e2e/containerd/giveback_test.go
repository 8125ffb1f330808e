package containerd

import (
	"strings"
	"testing"

	"github.com/candor-project/candor/e2e/twins"
	"github.com/candor-project/candor/hybrid"
)

// A givenBackKind describes a container. Its twin has the same limit and request, and no annotations.
type givenBackKind struct {
	name           string
	limit, request hybrid.Milli // 0: none
	annotations    map[string]string
	isLarge        bool // only for machines with 16 CPUs
}

func sensitiveKind(name string, limit hybrid.Milli, isLarge bool, settings ...string) givenBackKind {
	annotations := map[string]string{"candor.dev/class": "sensitive"}
	for _, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")
		annotations["candor.dev/"+key] = value
	}
	return givenBackKind{name, limit, limit, annotations, isLarge}
}

// givenBackKinds are 20 containers: five with exclusive CPUs, five with a fraction of a CPU, five flexible, and five with a
// burst. The small containers fit on two CPUs.
var givenBackKinds = []givenBackKind{
	sensitiveKind("two exclusive CPUs and the memory of a NUMA node", 2000, true, "topology=single-numa"),
	sensitiveKind("an exclusive CPU", 1000, false),
	sensitiveKind("two exclusive CPUs", 2000, true),
	sensitiveKind("an exclusive CPU and a fraction", 1500, true),
	sensitiveKind("another exclusive CPU", 1000, true),
	sensitiveKind("a fraction", 100, false),
	sensitiveKind("a fraction between two steps of systemd", 125, false),
	sensitiveKind("an odd fraction", 333, true),
	sensitiveKind("half a CPU", 500, true),
	sensitiveKind("a large fraction", 900, true),
	{"flexible", 300, 100, nil, false},
	{"flexible without a limit", 0, 50, nil, false},
	{"flexible without a limit and a request", 0, 0, nil, false},
	{"flexible with odd values", 123, 77, nil, false},
	{"flexible on more than a CPU", 2500, 200, nil, true},
	sensitiveKind("a fraction with a burst", 100, false, "burst=10ms"),
	sensitiveKind("a fraction with the longest burst", 250, true, "burst=kernel"),
	{"flexible with a burst", 300, 100, map[string]string{"candor.dev/burst": "20ms"}, false},
	{"flexible with raises", 200, 100, map[string]string{"candor.dev/burst": "auto"}, false},
	sensitiveKind("an exclusive CPU and a fraction with raises", 1500, true, "burst=quota"),
}

// A giveBackLab starts containers, and gives them back.
type giveBackLab struct {
	*lab
	flags  []string // of candor nri
	create func(limit, request hybrid.Milli, annotations map[string]string) (*pod, error)
	reload func() // lets systemd write its files again; nil: systemd creates no groups
}

// TestGiveBack: after candor nri --give-back, the kernel's files of each container and of its pod equal those of the same
// container without Candor, also if candor nri --give-back was killed at random points before. A machine with 16 CPUs runs 20
// pairs, a smaller machine some of them.
//
//	CANDOR_GIVEBACK_KILLS=50 go test -run '^TestGiveBack$' -v   50 kills in the middle of a give-back
func TestGiveBack(t *testing.T) {
	l := newLab(t)
	g := giveBackLab{lab: l, create: l.newPod}
	g.run()
}

// TestSystemdGiveBack is TestGiveBack with groups that systemd creates. A reload of systemd does not change the result.
func TestSystemdGiveBack(t *testing.T) {
	b := newBooted(t)
	g := giveBackLab{lab: b.lab, flags: []string{"--cgroup-parent", "candor.slice"}, reload: b.reload}
	g.create = func(limit, request hybrid.Milli, annotations map[string]string) (*pod, error) {
		qos := "burstable-"
		if limit == request && limit > 0 {
			qos = ""
		}
		return b.pod(qos, limit, request, annotations), nil
	}
	g.run()
}

func (g *giveBackLab) run() {
	k := twins.NewKiller(g.T)
	k.Rounds(g.T, func(n int) {
		if n > 0 {
			g.startPlugin(g.flags...)
		}
		pairs, containers := g.startPairs()
		k.Interrupt(g.T, pairs, func() twins.Program { return g.startGiveBack() })
		idle := g.startGiveBack()
		g.wait("candor nri --give-back", idle.daemon, idle.IsComplete)
		if err := twins.Check(pairs); err != nil {
			g.Errorf("round %d: %v", n, err)
		}
		if g.reload != nil {
			g.reload()
			if err := twins.Check(pairs); err != nil {
				g.Errorf("round %d, after a reload of systemd: %v", n, err)
			}
		}
		idle.Kill()
		for _, ctr := range containers {
			if err := ctr.pod.remove(); err != nil {
				g.Fatal(err)
			}
		}
	})
}

// startPairs starts the containers, kills the plugin, and starts the twins.
func (g *giveBackLab) startPairs() (pairs []*twins.Pair, containers []*container) {
	g.Helper()
	cpus := g.all()
	start := func(kind givenBackKind, annotations map[string]string) int {
		p := must[*pod](g)(g.create(kind.limit, kind.request, annotations))
		ctr := must[*container](g)(p.run("app", kind.limit, kind.request, kind.annotations["candor.dev/class"] == "sensitive"))
		containers = append(containers, ctr)
		return ctr.firstProcess()
	}
	var kinds []givenBackKind
	for _, kind := range givenBackKinds {
		if !kind.isLarge || cpus.Count() >= 16 {
			kinds = append(kinds, kind)
			pairs = append(pairs, &twins.Pair{Name: kind.name, Given: start(kind, kind.annotations), Parents: 1})
		}
	}
	g.plugin.kill()
	for i, kind := range kinds {
		pairs[i].Plain = start(kind, nil)
	}
	g.Logf("%d pairs on %d CPUs", len(pairs), cpus.Count())
	return pairs, containers
}

// firstProcess returns the ID of a process of the container.
func (c *container) firstProcess() int {
	c.Helper()
	pids, err := c.group().Processes()
	if err != nil || len(pids) == 0 {
		c.Fatalf("processes of %s: %v, %v", c.pod.name, pids, err)
	}
	return pids[0]
}

// A giveBackProcess lets a twins.Killer kill candor nri --give-back.
type giveBackProcess struct{ *daemon }

func (g *giveBackLab) startGiveBack() giveBackProcess {
	g.Helper()
	return giveBackProcess{g.start(g.candor, append(append(g.pluginArgs(), g.flags...), "--give-back")...)}
}

// Kill kills the process.
func (p giveBackProcess) Kill() { p.kill() }

// IsComplete reports whether the process has given all containers back.
func (p giveBackProcess) IsComplete() bool {
	return strings.Contains(p.output(), "all containers are given back")
}
