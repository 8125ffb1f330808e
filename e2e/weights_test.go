package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

const (
	measuredFor = 2 * time.Second // length of each window

	// least is the smallest accepted share of a container's limit or guarantee. The goal is 0.95, and the median of
	// many windows reaches it (docs/benchmarks/weights.md); the median of three differs by a few hundredths.
	least = 0.9
	// On a quiet machine, other programs use at most this share of the two CPUs. On a busier machine the kernel moves
	// threads more often, and the smallest accepted share is lower by noise; on a loud machine the test has no result.
	quiet, loud = 0.02, 0.15
	noise       = 0.1
)

// A busyTenant is a container, or several equal containers, whose threads are always busy.
type busyTenant struct {
	flags   string
	threads int
	promise int // its limit, or its guarantee, in milli-CPU; 0: nothing
	count   int
}

func sensitive(limit int) busyTenant {
	return busyTenant{fmt.Sprintf("--cpu %dm", limit), (limit + 999) / 1000, limit, 1}
}

func five(flags string, threads, promise int) busyTenant {
	return busyTenant{"--class flexible " + flags, threads, promise, 5}
}

// A neighborhood is a set of busy containers that fill two CPUs and share a CPU.
type neighborhood struct {
	name    string
	always  bool // not only when there is time for many rounds
	tenants []busyTenant
	least   float64 // 0: least
}

var neighborhoods = []neighborhood{
	{"1500m, five of 100m", true, []busyTenant{sensitive(1500), five("--cpu 100m", 1, 100)}, 0},
	{"1500m, five without a limit", true, []busyTenant{sensitive(1500), five("", 1, 0)}, 0},
	{"1100m, 900m", true, []busyTenant{sensitive(1100), sensitive(900)}, 0},
	{"1500m, 500m", false, []busyTenant{sensitive(1500), sensitive(500)}, 0},
	{"1250m, 750m", false, []busyTenant{sensitive(1250), sensitive(750)}, 0},
	{"1000m, 500m, 500m", false, []busyTenant{sensitive(1000), sensitive(500), sensitive(500)}, 0},
	{"1500m, five of 100m with 2 threads", false, []busyTenant{sensitive(1500), five("--cpu 100m", 2, 100)}, 0},
	// No fixed weight suffices for all of them; docs/benchmarks/weights.md has the reason.
	{"1500m, five of 100m or more", false, []busyTenant{sensitive(1500), five("--request 100m", 1, 100)}, 0.75},
	{"1250m, five of 150m or more", false, []busyTenant{sensitive(1250), five("--request 150m", 1, 150)}, 0.7},
}

func (n neighborhood) String() string { return n.name }

func (n neighborhood) isAlways() bool { return n.always }

// TestWeights measures the CPU time that busy containers get on a CPU that they share, in interleaved rounds.
//
//	CANDOR_WEIGHTS_ROUNDS=9 go test ./e2e -run TestWeights -v     more neighborhoods and rounds, and a table for the docs
func TestWeights(t *testing.T) {
	if os.Getenv("CANDOR_IN_GUEST") != "" {
		t.Skip("emulated CPUs stand still while others run: the CPU time of a thread there does not show the choice of the kernel")
	}
	rounds, all := 3, false
	if text := os.Getenv("CANDOR_WEIGHTS_ROUNDS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil || rounds < 1 {
			t.Fatalf("CANDOR_WEIGHTS_ROUNDS=%s: want a number of 1 or more", text)
		}
		all = true
	}
	table := inTurns(t, neighborhoods, rounds, all)
	t.Logf("shares of the limit or guarantee: median of up to %d windows of %v (lowest to highest)\n%s", rounds, measuredFor, table)
}

// A window is a measured interval: the CPU time of each tenant.
type window struct {
	use     []float64 // by kind of tenant: CPU time per time in milli-CPU; the mean of those that are alike
	foreign float64   // use of their CPUs by other processes
}

// measure starts the tenants one after the other and measures a window.
func (n neighborhood) measure(t *testing.T) window {
	l := newLab(t)
	cpus := l.twoCPUs()
	var groups [][]string
	common := cpus
	for kind, b := range n.tenants {
		groups = append(groups, nil)
		for i := range b.count {
			name := fmt.Sprintf("%c%d", 'a'+kind, i)
			l.start(append([]string{"--name", name, "--view", "affinity"}, strings.Fields(b.flags)...), "spin", strconv.Itoa(b.threads))
			groups[kind] = append(groups[kind], name)
		}
	}
	for _, r := range l.ps() {
		if r.CPUs != r.Exclusive {
			common = common.Intersect(r.CPUs)
		}
	}
	if common.Count() != 1 {
		t.Fatalf("the CPUs that all have are %v, want one", common)
	}
	l.outweighOthers()
	time.Sleep(measuredFor / 6) // until the kernel has measured their load

	before, start := l.used(groups, cpus), time.Now()
	time.Sleep(measuredFor)
	after, took := l.used(groups, cpus), time.Since(start)
	milli := func(before, after time.Duration) float64 { return 1000 * float64(after-before) / float64(took) }
	w := window{use: make([]float64, len(groups)), foreign: milli(before.all, after.all)}
	for kind := range groups {
		use := milli(before.kind[kind], after.kind[kind])
		w.use[kind] = use / float64(len(groups[kind]))
		w.foreign -= use
	}
	return w
}

// judge returns the tenants that got too little CPU time, and writes a line of the table. If other
// programs of the machine used CPU time, judge accepts less, or does not judge, because they reduce the time
// of all tenants.
func (n neighborhood) judge(t *testing.T, table *strings.Builder, windows []window) (wrong []string) {
	want := n.least
	if want == 0 {
		want = least
	}
	var foreign []float64
	for _, w := range windows {
		foreign = append(foreign, max(0, w.foreign/2000))
	}
	switch {
	case median(foreign) > loud:
		t.Logf("%s: not judged, other programs took %.0f %% of the CPUs", n.name, 100*median(foreign))
		want = 0
	case median(foreign) > quiet:
		want -= noise
	}
	for kind, b := range n.tenants {
		var shares, fair []float64
		for _, w := range windows {
			if b.promise > 0 {
				share := w.use[kind] / float64(b.promise)
				shares = append(shares, share)
				fair = append(fair, share/(1-max(0, w.foreign/2000)))
			}
		}
		name := fmt.Sprintf("%dm", b.promise)
		if b.count > 1 {
			name = fmt.Sprintf("%d x %s", b.count, name)
		}
		fmt.Fprintf(table, "| %s | %s | %s | others %s |\n", n.name, name, spread(shares), spread(foreign))
		if len(fair) > 0 && median(fair) < want {
			wrong = append(wrong, fmt.Sprintf("%s: the container with %s gets %.3f of its amount without the use of other programs, want %.2f; windows: %.3f",
				n.name, name, median(fair), want, fair))
		}
	}
	return wrong
}

func spread(x []float64) string {
	if len(x) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", median(x), slices.Min(x), slices.Max(x))
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}

// twoCPUs reserves all CPUs except two for other programs. The two CPUs are on different cores if the machine
// has two cores.
func (l *lab) twoCPUs() cpuset.Set {
	l.need(2)
	machine, err := topology.ReadHost()
	if err != nil {
		l.Fatal(err)
	}
	first := l.usable.First()
	second := l.usable.Minus(machine.Cores[machine.CPU(first).Core].CPUs)
	if second.IsEmpty() {
		second = l.usable.Minus(cpuset.Of(first))
	}
	two := cpuset.Of(first, second.First())
	config := filepath.Join(filepath.Dir(l.state), "host.json")
	if err := host.SaveOptions(config, host.NodeOptions{Reserved: l.usable.Minus(two), Algorithm: hybrid.Candor}); err != nil {
		l.Fatal(err)
	}
	return two
}

// outweighOthers sets the weight of the lab's parent group to the kernel's maximum.
func (l *lab) outweighOthers() {
	err := os.WriteFile("/sys/fs/cgroup/cpu"+l.parent+"/cpu.shares", []byte("262144"), 0)
	if os.IsNotExist(err) {
		err = os.WriteFile("/sys/fs/cgroup"+l.parent+"/cpu.weight", []byte("10000"), 0)
	}
	if err != nil {
		l.Fatal(err)
	}
}

// cpuTime returns the CPU time so far of each kind of tenant, and of all programs on their CPUs.
type cpuTime struct {
	kind []time.Duration
	all  time.Duration
}

func (l *lab) used(groups [][]string, cpus cpuset.Set) cpuTime {
	l.Helper()
	u := cpuTime{kind: make([]time.Duration, len(groups))}
	for kind, names := range groups {
		for _, name := range names {
			s, err := l.tree.Group(name).Stat()
			if err != nil {
				l.Fatal(err)
			}
			u.kind[kind] += s.CPU
		}
	}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		l.Fatal(err)
	}
	for line := range strings.Lines(string(stat)) {
		// cpu0 user nice system idle iowait irq softirq steal …, in hundredths of a second
		f := strings.Fields(line)
		if id, err := strconv.Atoi(strings.TrimPrefix(f[0], "cpu")); err == nil && f[0] != "cpu" && cpus.Contains(id) {
			for i, text := range f[1:9] {
				ticks, _ := strconv.Atoi(text)
				if i != 3 && i != 4 {
					u.all += time.Duration(ticks) * 10 * time.Millisecond
				}
			}
		}
	}
	return u
}

// spin keeps a number of threads busy for an hour.
func spin(threads int) int {
	runtime.GOMAXPROCS(threads)
	end := time.Now().Add(time.Hour)
	for range threads {
		go func() {
			for time.Now().Before(end) {
			}
			os.Exit(0)
		}()
	}
	fmt.Println("ready")
	select {}
}
