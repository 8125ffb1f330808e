package containerd

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// A sample is a list of measured times.
type sample []time.Duration

// quartiles returns the lower quartile, the median and the upper quartile.
func (s sample) quartiles() (q [3]time.Duration) {
	sorted := slices.Sorted(slices.Values(s))
	for i := range q {
		q[i] = sorted[(len(sorted)-1)*(i+1)/4]
	}
	return q
}

func (s sample) String() string {
	q := s.quartiles()
	return fmt.Sprintf("%6.2f [%6.2f %6.2f]", ms(q[1]), ms(q[0]), ms(q[2]))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// inMemory is the directory of the state of engine and plugin: in memory, like /run on nodes.
const inMemory = "/dev/shm"

// TestCost measures the cost of candor nri on an otherwise idle machine; docs/benchmarks/nri.md has the
// results. Three engines create containers in turns: without a plugin, with a plugin that gets the same
// events and does nothing, and with candor nri and other flexible containers on the node. containerd itself
// measures how long a creation waits for a plugin.
//
//	CANDOR_COST=50 go test -run TestCost -v -timeout 40m  creations of each kind, for each number of flexible containers
//	CANDOR_COST_FLEXIBLE="0 100"                          other numbers than 0, 100 and 250
func TestCost(t *testing.T) {
	turns, err := strconv.Atoi(os.Getenv("CANDOR_COST"))
	if err != nil || turns < 1 {
		t.Skip("wants an idle machine, and CANDOR_COST: the number of turns")
	}
	numbers := os.Getenv("CANDOR_COST_FLEXIBLE")
	if numbers == "" {
		numbers = "0 100 250"
	}
	without, empty, with := newMeteredEngine(t), newMeteredEngine(t), newMeteredEngine(t)
	empty.startEmptyPlugin()
	with.write("nri.yaml", "version: 1\n") // the repair loop as it is by default
	with.startPlugin()
	there := 0
	for text := range strings.FieldsSeq(numbers) {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		with.fill(n - there)
		there = n
		for _, kind := range []costKind{aSensitive, aFlexible, aPreserved} {
			measureTurns(t, []*metered{without, empty, with}, turns, n, kind)
		}
		with.measureAtRest(n)
	}
}

// A costKind is a kind of container to create. Candor does nothing for a preserved container.
type costKind string

const (
	aSensitive costKind = "sensitive"
	aFlexible  costKind = "flexible"
	aPreserved costKind = "preserved"
)

// A metered is an engine whose metrics show how long it has waited for its plugin.
type metered struct {
	*lab
	metrics *prober
}

// unasked configures containerd not to query each container's shim when its metrics are read.
const unasked = "\n[plugins.'io.containerd.monitor.task.v1.cgroups']\n  no_prometheus = true\n"

func newMeteredEngine(t *testing.T) *metered {
	t.Helper()
	p := freePort(t)
	l := newEngineIn(t, inMemory, fmt.Sprintf("\n[metrics]\n  address = \"127.0.0.1:%s\"\n", p), unasked)
	return &metered{l, &prober{l, p.url("http") + "/v1"}}
}

// waitedFor returns containerd's total waiting time for a plugin in seconds, by event.
var waitedFor = regexp.MustCompile(`(?m)^containerd_nri_plugin_latency_seconds_sum{operation="(?:CreateContainer|StartContainer)",[^}]*} (\S+)$`)

// waitedSoFar returns the total time that creations and starts have waited for the plugin.
func (m *metered) waitedSoFar() (sum time.Duration) {
	m.Helper()
	code, body := m.metrics.get("/metrics")
	if code != http.StatusOK {
		m.Fatalf("containerd's metrics: %d %s", code, body)
	}
	for _, found := range waitedFor.FindAllStringSubmatch(body, -1) {
		sum += time.Duration(must[float64](m)(strconv.ParseFloat(found[1], 64)) * float64(time.Second))
	}
	return sum
}

// A creation is the cost of creating and starting a container: the duration, the part of it that waits for
// the plugin, and the CPU time of the plugin.
type creation struct{ took, waited, used time.Duration }

// creations are the creations of an engine.
type creations struct{ took, waited, used sample }

func (c *creations) add(one creation) {
	c.took, c.waited, c.used = append(c.took, one.took), append(c.waited, one.waited), append(c.used, one.used)
}

// beyond returns the difference of each creation from the creation of another engine in the same turn.
func (c *creations) beyond(other *creations) (s sample) {
	for i := range c.took {
		s = append(s, c.took[i]-other.took[i])
	}
	return s
}

// measureTurns creates containers on the engines in turns. Before that, it creates one container of each kind
// to warm the caches. A sensitive container takes a CPU from all flexible containers.
func measureTurns(t *testing.T, engines []*metered, turns, flexible int, kind costKind) {
	t.Helper()
	made := make([]creations, len(engines))
	for i := range turns + 1 {
		for j := range engines {
			k := (i + j) % len(engines)
			if c := engines[k].creation(kind); i > 0 {
				made[k].add(c)
			}
		}
	}
	allowed := 1.5
	if kind == aSensitive {
		allowed += 0.05 * float64(flexible)
	}
	without, empty, with := &made[0], &made[1], &made[2]
	t.Logf("%3d flexible, a %-9s more, ms: without %v, with an empty plugin %v, added %v, waited %v; with candor nri %v, added %v, waited %v, allowed %.2f; on a CPU that is %v",
		flexible, kind, without.took, empty.took, empty.beyond(without), empty.waited, with.took, with.beyond(without), with.waited, allowed, with.used)
}

// creation creates and starts a container. After an idle time, the first move of a process between groups
// waits 5 to 15 ms for the kernel. Because of the pauses, each pod and each container waits for it, as on a
// node where no other container has just started.
func (m *metered) creation(kind costKind) (c creation) {
	m.Helper()
	limit, annotations := hybrid.Milli(1000), map[string]string(nil)
	switch kind {
	case aSensitive:
		annotations = sensitivePod
	case aFlexible:
		limit = 500
	case aPreserved:
		annotations = map[string]string{"candor.dev/preserve": "true"}
	}
	before := m.waitedSoFar()
	time.Sleep(100 * time.Millisecond)
	p := must[*pod](m)(m.newPod(limit, limit, annotations))
	time.Sleep(100 * time.Millisecond)
	ran, begin := m.plugin.onCPU(), time.Now()
	must[*container](m)(p.run("app", limit, limit, kind == aSensitive))
	c.took = time.Since(begin)
	time.Sleep(100 * time.Millisecond) // later work of the plugin belongs to this container too
	c.used = m.plugin.onCPU() - ran
	if c.waited = m.waitedSoFar() - before; (c.waited > 0) != (m.plugin != nil) {
		m.Fatalf("containerd waited %v for its plugin", c.waited)
	}
	if err := p.remove(); err != nil {
		m.Fatal(err)
	}
	return c
}

// measureAtRest reports the plugin's memory after the creations, and its CPU use with 100 containers while
// nothing happens.
func (l *lab) measureAtRest(flexible int) {
	l.Helper()
	l.Logf("%d flexible: candor nri has %.1f MiB resident", flexible, float64(l.plugin.resident())/(1<<20))
	if flexible == 100 {
		l.Logf("%d flexible, idle: candor nri uses %.3f %% of a CPU", flexible, l.plugin.use(time.Minute)*100)
	}
}

// fill starts idle flexible containers, fifty in each pod.
func (l *lab) fill(n int) {
	l.Helper()
	var p *pod
	for i := range n {
		if i%50 == 0 {
			p = must[*pod](l)(l.newPod(0, 0, nil))
		}
		must[*container](l)(p.run(fmt.Sprintf("idle%d", i), 0, 0, false))
	}
}

// resident returns the resident memory of a process in bytes.
func (d *daemon) resident() int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", d.Process.Pid))
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.Atoi(string(fields[1]))
	return pages * os.Getpagesize()
}

// use returns the CPU use of a process during a time, as a fraction of a CPU.
func (d *daemon) use(during time.Duration) float64 {
	before := d.onCPU()
	time.Sleep(during)
	return float64(d.onCPU()-before) / float64(during)
}

// onCPU returns the CPU time of the threads of a process, or 0 without a process.
func (d *daemon) onCPU() (sum time.Duration) {
	if d == nil {
		return 0
	}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", d.Process.Pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		if fields := bytes.Fields(text); len(fields) > 0 {
			ns, _ := strconv.ParseInt(string(fields[0]), 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}
