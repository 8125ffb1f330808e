package scheduler

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
	"github.com/candor-project/candor/trace"
)

const (
	cpus   = 16
	memory = int64(64) << 30
	half   = 5e8 // size of most machines in the trace, relative to the largest machine (trace.LargestMachine)
)

// A traceRequest is the request of a container in the trace, scaled to the nodes of the test.
type traceRequest struct {
	limit  hybrid.Milli
	memory int64
	class  hybrid.Class
}

// traceRequests returns the first count requests of a synthetic trace. Jobs with an odd number are flexible.
func traceRequests(t *testing.T, count int) (all []traceRequest) {
	t.Helper()
	r, err := trace.Open("synthetic:machines=400,days=1,seed=7", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var e trace.Event
	for len(all) < count {
		if err := r.Next(&e); err != nil {
			t.Fatal(err)
		}
		if e.Kind != trace.Submit {
			continue
		}
		a := traceRequest{limit: max(10, hybrid.Milli(float64(e.CPU)/half*cpus*1000)), memory: int64(float64(e.Memory) / half * float64(memory))}
		if e.Job%2 == 1 {
			a.class = hybrid.Flexible
		}
		all = append(all, a)
	}
	return all
}

// TestAgreesWithFleet: for each pod of a trace, the scheduler chooses the same node as package fleet, or a
// node of the same rank. The test then applies the scheduler's choice to the fleet.
func TestAgreesWithFleet(t *testing.T) {
	p := wantLab(t)
	const nodes, pods = 200, 2500
	scheduler := p.startScheduler(t, setup{onlyScore: true})
	defer p.clear(t)
	f, err := fleet.New(fleet.Options{Resources: []string{"memory"}})
	if err != nil {
		t.Fatal(err)
	}
	agents, numbers := p.addFleet(t, f, nodes)
	same, equal, refused := 0, 0, 0
	var took time.Duration
	for c, a := range traceRequests(t, pods) {
		r := fleet.Request{Class: a.class, Limit: a.limit, Resources: []int64{a.memory}}
		best, err := f.Choose(&r)
		began := time.Now()
		pod := p.submit(t, fmt.Sprint("pod-", c), &a)
		took += time.Since(began)
		if (err == nil) != (pod.Spec.NodeName != "") {
			t.Fatalf("pod %d %+v: on node %q, %v; the fleet returns %v", c, a, pod.Spec.NodeName, pod.Status.Conditions, err)
		}
		if err != nil {
			refused++
			p.remove(t, pod.Name)
			continue
		}
		chosen := numbers[pod.Spec.NodeName]
		if chosen == best {
			same++
		} else if rankOf(f, best, &r) == rankOf(f, chosen, &r) {
			equal++
		} else {
			t.Fatalf("pod %d %+v: on node %d of rank %x, want node %d of rank %x", c, a, chosen, rankOf(f, chosen, &r), best, rankOf(f, best, &r))
		}
		if _, err := f.PlaceOn(fleet.ContainerID(c), chosen, &r); err != nil {
			t.Fatal(err)
		}
		agents[chosen].create(pod)
		agents[chosen].report()
	}
	var shared hybrid.Milli
	for _, a := range agents {
		shared += a.node.Shared()
	}
	total := f.Totals()
	if shared != total.Shared {
		t.Errorf("got shared time %v, want %v as in the fleet", shared, total.Shared)
	}
	t.Logf("%d pods on %d nodes: %d on the fleet's node, %d on a node of equal rank, %d refused by both; shared time %v of %v; CPU time guaranteed %v of %v; %v a pod from its creation to its binding%s",
		pods, nodes, same, equal, refused, shared, total.Sensitive, total.Sensitive+total.Guaranteed, total.Capacity, (took / pods).Round(time.Microsecond), p.nodeTimes(t, scheduler))
}

// addFleet adds the same nodes to the cluster and to a fleet.
func (p *plane) addFleet(t *testing.T, f *fleet.Fleet, nodes int) ([]*agent, map[string]fleet.NodeID) {
	t.Helper()
	machine, err := topology.Parse(fmt.Sprint("core:", cpus))
	if err != nil {
		t.Fatal(err)
	}
	agents, numbers := make([]*agent, nodes), map[string]fleet.NodeID{}
	for i := range agents {
		name := fmt.Sprintf("node-%03d", i)
		agents[i], numbers[name] = p.addAgent(t, name, fmt.Sprint("core:", cpus)), fleet.NodeID(i)
		if err := f.AddNode(fleet.NodeID(i), machine, []int64{memory}); err != nil {
			t.Fatal(err)
		}
	}
	return agents, numbers
}

// rankOf returns the rank of a node of the fleet for a request.
func rankOf(f *fleet.Fleet, id fleet.NodeID, r *fleet.Request) fleet.Rank {
	n := f.Node(id)
	quote, err := n.Quote(&hybrid.Request{Class: r.Class, Limit: r.Limit})
	if err != nil {
		return ^fleet.Rank(0)
	}
	var s hybrid.Summary
	n.Summarize(&s)
	figures, query, scale := s.Figures(), fleet.NewQuery(r), fleet.NewScale(n.Capacity(), []int64{memory})
	return scale.Rank(&query, &quote, &figures, f.Free(id))
}

// submit creates a pod and waits until the scheduler binds or refuses it.
func (p *plane) submit(t *testing.T, name string, a *traceRequest) *v1.Pod {
	t.Helper()
	amount := v1.ResourceList{"cpu": *resource.NewMilliQuantity(int64(a.limit), resource.DecimalSI), "memory": *resource.NewQuantity(a.memory, resource.BinarySI)}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"candor.dev/class": a.class.String()}},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "none", Resources: v1.ResourceRequirements{Requests: amount, Limits: amount}}}}}
	made, err := p.client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watch, err := p.client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name, ResourceVersion: made.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	late := time.After(patience)
	for {
		select {
		case e := <-watch.ResultChan():
			if now, ok := e.Object.(*v1.Pod); ok && (now.Spec.NodeName != "" || len(now.Status.Conditions) > 0) {
				return now
			}
		case <-late:
			t.Fatalf("%s %+v is neither bound nor refused", name, *a)
		}
	}
}

// getPage returns a page of a scheduler's HTTP server. params holds alternating names and values.
func (p *plane) getPage(t *testing.T, c *child, page string, params ...string) []byte {
	t.Helper()
	config := rest.CopyConfig(p.config)
	config.Host = fmt.Sprintf("https://127.0.0.1:%d", c.port)
	request := kubernetes.NewForConfigOrDie(config).Discovery().RESTClient().Get().AbsPath(page)
	for i := 0; i < len(params); i += 2 {
		request.Param(params[i], params[i+1])
	}
	text, err := request.DoRaw(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// metrics returns the metrics of a scheduler by name.
func (p *plane) metrics(t *testing.T, c *child) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(p.getPage(t, c, "/metrics")))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// nodeTimes formats the plugin's durations from a scheduler's metrics.
func (p *plane) nodeTimes(t *testing.T, c *child) string {
	t.Helper()
	words := ""
	for _, m := range p.metrics(t, c)["candor_scheduler_node_duration_seconds"].GetMetric() {
		h := m.GetHistogram()
		for _, b := range h.GetBucket() {
			if 2*b.GetCumulativeCount() >= h.GetSampleCount() {
				words += fmt.Sprintf("; %s: median at most %v, mean %v of %d", m.GetLabel()[0].GetValue(), seconds(b.GetUpperBound()),
					seconds(h.GetSampleSum()/float64(h.GetSampleCount())), h.GetSampleCount())
				break
			}
		}
	}
	return words
}

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }
