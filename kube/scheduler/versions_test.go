package scheduler

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/candor-project/candor/kube/cluster"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// TestDifferentVersions: pods go to a node whose report has fields that the CRD and the scheduler do not
// define, and to a node whose report lacks all optional fields.
func TestDifferentVersions(t *testing.T) {
	p := wantLab(t)
	defer p.clear(t)
	later, earlier := p.addAgent(t, "later", "core:4"), p.addAgent(t, "earlier", "core:4")
	later.more = map[string]any{"cache": map[string]any{"ways": "0-3"}, "power": "500m"}
	earlier.edit = removeOptionalFields
	agents := map[string]*agent{}
	for _, a := range []*agent{later, earlier} {
		a.put(staticContainer("a", 2000))
		agents[a.name] = a
	}
	p.startScheduler(t, setup{})
	for _, name := range []string{"one", "two"} {
		p.addPod(t, name, "1500m", ofSensitive())
		pod := p.bound(t, name)
		a := agents[pod.Spec.NodeName]
		if a == nil {
			t.Fatalf("%s is on %q, want one pod on each node", name, pod.Spec.NodeName)
		}
		a.create(pod)
		a.report()
		delete(agents, a.name)
	}
	p.addPod(t, "three", "1500m", ofSensitive())
	p.refused(t, "three", "0/2 nodes are available: 2 no capacity (1 CPU missing). preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.")
}

// removeOptionalFields clears the optional fields of a report, except those of containers.
func removeOptionalFields(s *v1alpha1.NodeCPUStatus) {
	s.Policy, s.MinShared, s.Reserved = "", "", ""
	m := &s.Machine
	m.Description, m.Offline, m.Isolated, m.L3s, m.Cores, m.Speeds = "", "", "", "", "", ""
}

// TestLaterReport: a report of a later CRD version has unknown fields. The scheduler ignores them and reads
// the rest.
func TestLaterReport(t *testing.T) {
	object := newReport(t, 7, staticContainer("a", 1500))
	status := object.Object["status"].(map[string]any)
	status["power"] = "500m"
	for _, inside := range []any{status["machine"], status["pools"], status["grants"].([]any)[0]} {
		inside.(map[string]any)["later"] = []any{"x"}
	}
	read, err := asReport(object)
	if err != nil {
		t.Fatal(err)
	}
	s := newTestShared()
	s.storeReport(read)
	fits := func(cpu string) *cluster.Refusal {
		demand, err := boundPod(&v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{container("app", cpu)}}})
		if err != nil {
			t.Fatal(err)
		}
		return s.cluster.Fits("n", demand)
	}
	if s.cluster.Totals().Reporting != 1 || fits("2500m") != nil || fits("2600m") == nil {
		t.Errorf("%+v; 2500m: %v, 2600m: %v: want a node of 4 CPUs with 1500m in use", s.cluster.Totals(), fits("2500m"), fits("2600m"))
	}
}

// TestClockSkew runs nodes whose clocks are two days off. A reservation stays until a report contains the
// pod, and the scheduler accepts each report regardless of its time.
func TestClockSkew(t *testing.T) {
	p := wantLab(t)
	defer p.clear(t)
	var agents []*agent
	for name, skew := range map[string]time.Duration{"ahead": 48 * time.Hour, "behind": -48 * time.Hour} {
		n := p.addAgent(t, name, "core:4")
		n.clock = skew
		n.put(staticContainer("a", 1000))
		agents = append(agents, n)
	}
	p.startScheduler(t, setup{})
	for _, n := range agents {
		name, here := n.name, func(pod *v1.Pod) { pod.Spec.Affinity = onNode(n.name) }
		p.addPod(t, name+"-web", "2", ofSensitive(), here)
		web := p.bound(t, name+"-web")
		n.report() // still without the pod
		p.addPod(t, name+"-next", "1500m", ofSensitive(), here)
		until(t, name+"-next is refused", func() bool { return slices.ContainsFunc(p.pod(t, name+"-next").Status.Conditions, isRefusal) })
		n.create(web)
		n.clock = -n.clock // the clock was set
		n.report()
		n.release("a")
		n.report()
		n.create(p.bound(t, name+"-next"))
	}
}

func isRefusal(c v1.PodCondition) bool {
	return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse
}

// onNode returns an affinity that requires the node of this name.
func onNode(name string) *v1.Affinity {
	is := v1.NodeSelectorRequirement{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{name}}
	return &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{is}}},
	}}}
}
