package containerd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/hybrid"
)

// A sample is a list of measured times.
type sample []time.Duration

// quartiles are the lower one, the median and the upper one.
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

// inMemory is where the state of engine and plugin is: on nodes it is in /run, which no disk is waited for.
const inMemory = "/dev/shm"

// TestCost measures what candor nri costs, on an otherwise idle machine; docs/nri.md has the figures. Three engines make
// containers by turns: one has nothing else, one has a plugin that is asked the same and does nothing, and one has the
// plugin, and the flexible containers that are on the node.
//
//	CANDOR_COST=50 go test -run TestCost -v -timeout 40m    containers of each kind, for each number of flexible ones
//	CANDOR_COST_FLEXIBLE="0 100"                            other numbers than 0, 100 and 250
func TestCost(t *testing.T) {
	turns, err := strconv.Atoi(os.Getenv("CANDOR_COST"))
	if err != nil || turns < 1 {
		t.Skip("wants an idle machine, and CANDOR_COST: how many turns")
	}
	numbers := os.Getenv("CANDOR_COST_FLEXIBLE")
	if numbers == "" {
		numbers = "0 100 250"
	}
	without, empty, with := newEngineIn(t, inMemory), newEngineIn(t, inMemory), newEngineIn(t, inMemory)
	empty.startEmptyPlugin()
	with.write("nri.yaml", "version: 1\n") // the repair loop as it is by default
	with.startPlugin()
	there := 0
	for _, text := range strings.Fields(numbers) {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		with.fill(n - there)
		there = n
		for _, kind := range []costKind{aSensitive, aFlexible, aPreserved} {
			measureTurns(t, []*lab{without, empty, with}, turns, n, kind)
		}
		with.measureAtRest(n)
	}
}

// A costKind is a kind of container that is made: to a preserved one Candor gives nothing.
type costKind string

const (
	aSensitive costKind = "sensitive"
	aFlexible  costKind = "flexible"
	aPreserved costKind = "preserved"
)

// measureTurns makes containers on the engines by turns, and one of each before: caches are cold then. A sensitive one takes a
// CPU from all the flexible ones.
func measureTurns(t *testing.T, engines []*lab, turns, flexible int, kind costKind) {
	t.Helper()
	times := make([]sample, len(engines))
	var asked, added, own sample
	for i := range turns + 1 {
		took := make([]time.Duration, len(engines))
		var used time.Duration
		for j := range engines {
			k := (i + j) % len(engines)
			took[k], used = engines[k].creation(kind)
			if i > 0 && k == len(engines)-1 {
				own = append(own, used)
			}
		}
		if i == 0 {
			continue
		}
		for k := range times {
			times[k] = append(times[k], took[k])
		}
		asked, added = append(asked, took[1]-took[0]), append(added, took[2]-took[0])
	}
	allowed := 1.5
	if kind == aSensitive {
		allowed += 0.05 * float64(flexible)
	}
	t.Logf("%3d flexible, a %-9s more, ms: without %v, with an empty plugin %v, added %v; with candor nri %v, added %v, allowed %.2f; on a CPU that is %v",
		flexible, kind, times[0], times[1], asked, times[2], added, allowed, own)
}

// creation is how long it takes to make and start a container, in a pod that was just made, and how long the plugin is on a CPU
// for it. On cgroup v1 that takes 10 to 15 ms more or less, by how long ago processes were moved into groups: the pause has it
// always be the pod's.
func (l *lab) creation(kind costKind) (took, used time.Duration) {
	l.Helper()
	limit, annotations := hybrid.Milli(1000), map[string]string(nil)
	switch kind {
	case aSensitive:
		annotations = sensitivePod
	case aFlexible:
		limit = 500
	case aPreserved:
		annotations = map[string]string{"candor.dev/preserve": "true"}
	}
	time.Sleep(100 * time.Millisecond)
	p := must[*pod](l)(l.newPod(limit, limit, annotations))
	before, begin := l.plugin.onCPU(), time.Now()
	must[*container](l)(p.run("app", limit, limit, kind == aSensitive))
	took = time.Since(begin)
	time.Sleep(100 * time.Millisecond) // what the plugin does later is of this container, too
	used = l.plugin.onCPU() - before
	if err := p.remove(); err != nil {
		l.Fatal(err)
	}
	return took, used
}

// measureAtRest tells the plugin's memory, when it has made containers, and with 100 of them what it uses while nothing happens.
func (l *lab) measureAtRest(flexible int) {
	l.Helper()
	l.Logf("%d flexible: candor nri has %.1f MiB resident", flexible, float64(l.plugin.resident())/(1<<20))
	if flexible == 100 {
		l.Logf("%d flexible, idle: candor nri uses %.3f %% of a CPU", flexible, l.plugin.use(time.Minute)*100)
	}
}

// fill starts flexible containers that do nothing, fifty to a pod.
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

// resident is a process's memory, in bytes.
func (d *daemon) resident() int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", d.Process.Pid))
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.Atoi(string(fields[1]))
	return pages * os.Getpagesize()
}

// use is how much of a CPU a process uses in a time.
func (d *daemon) use(during time.Duration) float64 {
	before := d.onCPU()
	time.Sleep(during)
	return float64(d.onCPU()-before) / float64(during)
}

// onCPU is how long the threads of a process have run; of none, no time.
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
