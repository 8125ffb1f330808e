package scheduler

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/topology"
)

// TestCost measures the cost of the plugin on an idle machine; docs/benchmarks/scheduler.md has the results.
// candor-scheduler places the same pods on the same nodes, alternately with the plugin and without it.
//
//	make cost-kubernetes NODES=1000,5000 PODS=2000 ROUNDS=7
func TestCost(t *testing.T) {
	sizes := os.Getenv("CANDOR_COST_NODES")
	if sizes == "" {
		t.Skip("needs an idle machine and CANDOR_COST_NODES: make cost-kubernetes")
	}
	p := wantLab(t)
	pods, rounds := number(t, "CANDOR_COST_PODS"), number(t, "CANDOR_COST_ROUNDS")
	there := 0
	defer func() { p.clear(t) }()
	for text := range strings.SplitSeq(sizes, ",") {
		nodes, err := strconv.Atoi(text)
		if err != nil || nodes < there {
			t.Fatalf("CANDOR_COST_NODES %q: want rising numbers, such as 1000,5000", sizes)
		}
		inParallel(t, nodes-there, func(i int) error { return p.addUsedNode(there + i) })
		there = nodes
		var with, without []run
		for round := range rounds {
			for turn := range 2 {
				if (round+turn)%2 == 0 {
					with = append(with, p.place(t, setup{}, pods))
				} else {
					without = append(without, p.place(t, setup{without: true}, pods))
				}
			}
			a, b := with[round], without[round]
			t.Logf("round %d: with %s\n         without %s", round+1, a, b)
		}
		t.Logf("%d nodes, %d pods, %d rounds: %s", nodes, pods, rounds, compare(with, without, nodes))
	}
}

func number(t *testing.T, name string) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil || n < 1 {
		t.Fatalf("%s %q: want a number, 1 at least", name, os.Getenv(name))
	}
	return n
}

// A run holds the measurements of a scheduler that placed all pods.
type run struct {
	rate     float64 // pods per second, from the first binding to the last
	heap     float64 // bytes of live heap at the end
	resident float64 // bytes of resident memory at the end
	own      float64 // CPU time of the scheduler per pod, in ms
	control  float64 // CPU time of API server and etcd per pod, in ms
	times    string  // durations of the plugin per pod and per node
}

func (r run) String() string {
	return fmt.Sprintf("%.1f pods/s, CPU time a pod %.2f ms and %.2f ms of API server and etcd, heap %.1f MiB, resident %.1f MiB%s",
		r.rate, r.own, r.control, r.heap/(1<<20), r.resident/(1<<20), r.times)
}

// compare formats the medians, minima and maxima of all rounds.
func compare(with, without []run, nodes int) string {
	var rates, bare, ratios, own, bareOwn, all, bareAll, times, heaps []float64
	for i := range with {
		rates, bare = append(rates, with[i].rate), append(bare, without[i].rate)
		ratios = append(ratios, 100*with[i].rate/without[i].rate)
		own, bareOwn = append(own, with[i].own), append(bareOwn, without[i].own)
		a, b := with[i].own+with[i].control, without[i].own+without[i].control
		all, bareAll, times = append(all, a), append(bareAll, b), append(times, 100*b/a)
		heaps = append(heaps, (with[i].heap-without[i].heap)/float64(nodes)/1024)
	}
	return fmt.Sprintf("%s pods/s with the plugin, %s without: %s %%; CPU time a pod of the scheduler %s ms, without %s ms; "+
		"with API server and etcd %s ms, without %s ms: %s %%; memory a node, of the heap that lives: %s KiB",
		spread(rates), spread(bare), spread(ratios), spread2(own), spread2(bareOwn), spread2(all), spread2(bareAll), spread(times), spread(heaps))
}

func spread(values []float64) string  { return spreadIn("%.1f [%.1f %.1f]", values) }
func spread2(values []float64) string { return spreadIn("%.2f [%.2f %.2f]", values) }

// spreadIn formats the median, the minimum and the maximum of the values.
func spreadIn(form string, values []float64) string {
	sorted := slices.Sorted(slices.Values(values))
	return fmt.Sprintf(form, (sorted[len(sorted)/2]+sorted[(len(sorted)-1)/2])/2, sorted[0], sorted[len(sorted)-1])
}

// inParallel calls do for each number below count, with 16 workers.
func inParallel(t *testing.T, count int, do func(i int) error) {
	t.Helper()
	const workers = 16
	var all sync.WaitGroup
	errs := make([]error, workers)
	for w := range workers {
		all.Go(func() {
			for i := w; i < count && errs[w] == nil; i += workers {
				errs[w] = do(i)
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// addUsedNode adds a node of 16 CPUs and its report. Containers use about half of the CPUs.
func (p *plane) addUsedNode(i int) error {
	m, err := topology.Parse(fmt.Sprint("core:", cpus))
	if err != nil {
		return err
	}
	n, err := hybrid.NewNode(m, hybrid.Options{MinShared: 500})
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(1, uint64(i)))
	for j := 0; n.Sensitive()+n.Guaranteed() < n.Capacity()/2; j++ {
		r := hybrid.Request{ID: fmt.Sprint("app-", j), Limit: hybrid.Milli(100 + 100*rng.IntN(25)), Class: hybrid.Class(rng.IntN(2))}
		if _, _, err := n.Place(&r); err != nil {
			return err
		}
	}
	name := fmt.Sprintf("node-%05d", i)
	left := n.Capacity() - n.Sensitive() - n.Guaranteed()
	has := v1.ResourceList{"cpu": *resource.NewMilliQuantity(int64(left), resource.DecimalSI), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("250")}
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Capacity: has, Allocatable: has}}
	if _, err := p.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	o := &v1alpha1.NodeCPU{ObjectMeta: metav1.ObjectMeta{Name: name}}
	o.APIVersion, o.Kind = v1alpha1.GroupVersion.String(), "NodeCPU"
	bare, err := unstructuredOf(&struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
	}{o.TypeMeta, o.ObjectMeta})
	if err != nil {
		return err
	}
	made, err := p.dynamic.Resource(nodeCPUs).Create(ctx, bare, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	o.ResourceVersion = made.GetResourceVersion()
	o.Status = nodecpu.Status(n, nodecpu.HolderOf)
	o.Status.Counter, o.Status.Reported = 1, metav1.NewTime(time.Now())
	full, err := unstructuredOf(o)
	if err == nil {
		_, err = p.dynamic.Resource(nodeCPUs).UpdateStatus(ctx, full, metav1.UpdateOptions{})
	}
	return err
}

// place creates pods of 0.1 to 2.5 CPUs, half of them sensitive. Then it starts a scheduler, waits until the
// scheduler has bound all pods, and returns the measurements.
func (p *plane) place(t *testing.T, s setup, pods int) run {
	t.Helper()
	inParallel(t, pods, func(i int) error {
		rng := rand.New(rand.NewPCG(2, uint64(i)))
		amount := v1.ResourceList{"cpu": *resource.NewMilliQuantity(int64(100+100*rng.IntN(25)), resource.DecimalSI), "memory": resource.MustParse("64Mi")}
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pod-", i), Annotations: map[string]string{"candor.dev/class": hybrid.Class(rng.IntN(2)).String()}},
			Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "none", Resources: v1.ResourceRequirements{Requests: amount, Limits: amount}}}}}
		_, err := p.client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	s.sampleNodes = true
	c := p.startScheduler(t, s)
	var own, control float64
	cpu := func() {
		own, control = cpuTime(t, c.Cmd)-own, cpuTime(t, p.running...)-control
	}
	took := p.untilBound(t, pods, cpu)
	cpu()
	each := 1000 / float64(pods-1)
	r := run{rate: float64(pods-1) / took.Seconds(), own: each * own, control: each * control, heap: p.heap(t, c), resident: resident(t, c)}
	if !s.without {
		r.times = p.nodeTimes(t, c)
	}
	kill(c.Cmd)
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	if err := p.client.CoreV1().Pods("default").DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	return r
}

// untilBound waits until all pods are bound, and returns the time from the first binding to the last. It
// calls began at the first binding.
func (p *plane) untilBound(t *testing.T, pods int, began func()) time.Duration {
	t.Helper()
	seen := make(chan time.Time, 2*pods)
	factory := informers.NewSharedInformerFactoryWithOptions(p.client, 0, informers.WithNamespace("default"),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = "spec.nodeName!=" }))
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { seen <- time.Now() }})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	defer close(done)
	factory.Start(done)
	var first, last time.Time
	late := time.After(10 * time.Minute)
	for bound := range pods {
		select {
		case last = <-seen:
		case <-late:
			t.Fatalf("%d of %d pods are bound after 10 minutes, want all", bound, pods)
		}
		if bound == 0 {
			first = last
			began()
		}
	}
	return last.Sub(first)
}

// cpuTime returns the CPU time of processes in seconds.
func cpuTime(t *testing.T, all ...*exec.Cmd) (sum float64) {
	t.Helper()
	for _, c := range all {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		// The fields after the name start with field 3. Fields 14 and 15 are utime and stime in 1/100 s.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		for _, ticks := range fields[11:13] {
			n, err := strconv.ParseFloat(ticks, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += n / 100
		}
	}
	return sum
}

var heapAlloc = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// heap returns the size of a scheduler's heap after a garbage collection, in bytes.
func (p *plane) heap(t *testing.T, c *child) float64 {
	t.Helper()
	found := heapAlloc.FindSubmatch(p.getPage(t, c, "/debug/pprof/heap", "gc", "1", "debug", "1"))
	if found == nil {
		t.Fatal("the heap profile has no HeapAlloc line")
	}
	bytes, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// resident returns the resident memory of a scheduler in bytes.
func resident(t *testing.T, c *child) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", c.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseFloat(strings.Fields(string(text))[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * float64(os.Getpagesize())
}
