package scheduler

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// staticContainer returns the request of a sensitive container that the scheduler has not placed.
func staticContainer(id string, limit hybrid.Milli) hybrid.Request {
	return hybrid.Request{ID: id, Class: hybrid.Sensitive, Limit: limit}
}

// TestPlacement: a sensitive pod goes to the node with free exclusive CPUs. Its annotations record its
// settings and its reserved CPUs, and the next pod gets other CPUs.
func TestPlacement(t *testing.T) {
	p := wantLab(t)
	p.startScheduler(t, setup{})
	defer p.clear(t)
	one, two := p.addAgent(t, "one", "core:4"), p.addAgent(t, "two", "core:4")
	p.addNode(t, "bare", 64)
	one.put(staticContainer("a", 600), staticContainer("b", 600), staticContainer("c", 600))
	p.addPod(t, "web", "1500m", ofSensitive(), annotated("example.com/other", "kept"))
	web := p.bound(t, "web")
	two.create(web)
	hint, err := kube.ParseHint(web.Annotations[kube.HintKey])
	if err != nil || hint.Node != "two" || hint.Containers["app"] != "0,1:500m" {
		t.Errorf("hint %+v, %v", hint, err)
	}
	delete(web.Annotations, kube.HintKey)
	is := map[string]string{"example.com/other": "kept", "candor.dev/class": "sensitive", "candor.dev/policy": "strict", "candor.dev/topology": "prefer"}
	if !maps.Equal(web.Annotations, is) {
		t.Errorf("annotations besides the hint %v, want %v", web.Annotations, is)
	}
	p.addPod(t, "db", "2500m", ofSensitive()) // node two has not reported web yet
	two.create(p.bound(t, "db"))
	p.addPod(t, "none", "10m", ofSensitive(), annotated("candor.dev/policy", "best-effort"), func(pod *v1.Pod) {
		pod.Spec.NodeSelector = map[string]string{"never": "there"}
	})
	p.refused(t, "none", "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. "+
		"preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.")
	p.addPod(t, "log", "20") // flexible pods can run on nodes without Candor
	if got := p.bound(t, "log"); got.Spec.NodeName != "bare" || got.Annotations[kube.PodKey("class")] != "flexible" {
		t.Errorf("log is on %s with annotations %v, want node bare and class flexible", got.Spec.NodeName, got.Annotations)
	}
}

// TestRefusalAndWakeUp checks the message of a refused pod. Later reports of fewer containers wake the pod,
// and it is bound to the node with enough whole CPUs.
func TestRefusalAndWakeUp(t *testing.T) {
	p := wantLab(t)
	p.startScheduler(t, setup{})
	defer p.clear(t)
	p.addNode(t, "bare1", 64)
	p.addNode(t, "bare2", 64)
	full := staticContainer("f", 600)
	agents := map[string]*agent{}
	for _, name := range []string{"a", "b", "c"} {
		agents[name] = p.addAgent(t, name, "core:8")
		var all []hybrid.Request
		for i := range 7 {
			all = append(all, full)
			all[i].ID = string(rune('a' + i))
		}
		if name == "c" {
			all = all[:5]
		}
		agents[name].put(all...)
	}
	p.addPod(t, "web", "3500m", ofSensitive())
	p.refused(t, "web", "0/5 nodes are available: 1 fraction does not fit (500m), 2 no Candor on node, 2 view impossible (2 whole CPUs missing). "+
		"preemption: 0/5 nodes are available: 2 Preemption is not helpful for scheduling, 3 No preemption victims found for incoming pod.")
	agents["a"].release("a")
	agents["a"].report()
	agents["b"].release("a")
	agents["b"].release("b")
	agents["b"].report()
	agents["c"].release("a")
	agents["c"].report()
	agents["c"].create(p.bound(t, "web"))
}

// release removes a container that the scheduler has not placed from the node.
func (a *agent) release(id string) {
	a.t.Helper()
	plan, err := a.node.PlanRelease(id)
	if err == nil {
		err = a.node.Commit(plan)
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// TestPreemption: a pod of higher priority preempts a single pod. It gets the CPUs when the node has reported
// them as free, even if another pod arrives in between.
func TestPreemption(t *testing.T) {
	p := wantLab(t)
	p.startScheduler(t, setup{})
	defer p.clear(t)
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000}
	if _, err := p.client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.client.SchedulingV1().PriorityClasses().Delete(ctx, "high", metav1.DeleteOptions{}) }()
	n := p.addAgent(t, "n", "core:4")
	var low []*v1.Pod
	for _, name := range []string{"low1", "low2"} {
		p.addPod(t, name, "1600m", ofSensitive())
		low = append(low, p.bound(t, name))
		n.create(low[len(low)-1])
	}
	n.report()
	p.addPod(t, "high", "2400m", ofSensitive(), func(pod *v1.Pod) { pod.Spec.PriorityClassName = "high" })
	var gone *v1.Pod
	until(t, "one of the low pods is preempted", func() bool {
		for _, pod := range low {
			if now := p.pod(t, pod.Name); now.DeletionTimestamp != nil {
				gone = pod
			}
		}
		return gone != nil
	})
	p.remove(t, gone.Name)
	until(t, "high waits for the report", func() bool {
		for _, c := range p.pod(t, "high").Status.Conditions {
			if strings.Contains(c.Message, "report still contains pods that have ended") {
				return true
			}
		}
		return false
	})
	if p.pod(t, "high").Spec.NodeName != "" {
		t.Error("high is bound while the node still has the containers of the preempted pod")
	}
	p.addPod(t, "small", "400m", ofSensitive()) // fits only on CPUs that high needs
	until(t, "small is tried", func() bool { return len(p.pod(t, "small").Status.Conditions) > 0 })
	n.end(gone)
	n.report()
	n.create(p.bound(t, "high"))
	if node := p.pod(t, "small").Spec.NodeName; node != "" {
		t.Error("small got CPUs that are held for high")
	}
	for _, pod := range low {
		if pod != gone && p.pod(t, pod.Name).DeletionTimestamp != nil {
			t.Errorf("%s was preempted as well, want a single preempted pod", pod.Name)
		}
	}
}

// TestSeveralContainers: the plan of a pod includes its sidecars, and the CPUs of init containers are
// available to later containers.
func TestSeveralContainers(t *testing.T) {
	p := wantLab(t)
	p.startScheduler(t, setup{})
	defer p.clear(t)
	n := p.addAgent(t, "n", "core:4")
	always := v1.ContainerRestartPolicyAlways
	several := func(pod *v1.Pod) {
		sidecar := container("sidecar", "500m")
		sidecar.RestartPolicy = &always
		pod.Spec.InitContainers = []v1.Container{container("init", "3"), sidecar}
		pod.Spec.Containers = []v1.Container{container("app", "2500m"), container("log", "250m")}
	}
	p.addPod(t, "web", "0", ofSensitive(), annotated("class.candor.dev/log", "flexible"), several)
	web := p.bound(t, "web")
	hint, err := kube.ParseHint(web.Annotations[kube.HintKey])
	if err != nil || len(hint.Containers) != 2 || hint.Containers["sidecar"] == "" || hint.Containers["app"] == "" {
		t.Errorf("hint %v, %v: want app and sidecar", hint, err)
	}
	n.create(web)
	p.addPod(t, "more", "0", ofSensitive(), several)
	p.refused(t, "more", "0/1 nodes are available: 1 Insufficient cpu. "+
		"preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.")
}

// TestStaleAndMissingReports: bound pods keep their CPUs although reports of the node lack them. A node whose
// report is deleted takes no sensitive pods.
func TestStaleAndMissingReports(t *testing.T) {
	p := wantLab(t)
	p.startScheduler(t, setup{})
	defer p.clear(t)
	n := p.addAgent(t, "n", "core:4")
	p.addPod(t, "web", "1600m", ofSensitive())
	p.addPod(t, "db", "1600m", ofSensitive())
	web, db := p.bound(t, "web"), p.bound(t, "db")
	n.report() // still without the pods
	p.addPod(t, "next", "800m", ofSensitive())
	const none = "0/1 nodes are available: 1 fraction does not fit (800m). preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
	p.refused(t, "next", none)
	n.create(web)
	n.report()
	n.create(db)
	n.report()
	p.refused(t, "next", none)
	n.end(web)
	p.remove(t, "web")
	n.report()
	n.create(p.bound(t, "next"))
	if err := p.dynamic.Resource(nodeCPUs).Delete(ctx, "n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.addPod(t, "lost", "10m", ofSensitive())
	p.refused(t, "lost", "0/1 nodes are available: 1 no Candor on node. "+
		"preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.")
	p.addPod(t, "any", "10m")
	p.bound(t, "any")
}

// TestProfiles: two profiles select a pod and differ in the class. The pod's annotations get the stricter
// class and the policy, and an event reports the conflict.
func TestProfiles(t *testing.T) {
	p := wantLab(t)
	p.startScheduler(t, setup{})
	defer p.clear(t)
	n := p.addAgent(t, "n", "core:4")
	p.addNode(t, "bare", 64)
	profiles := p.dynamic.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.CPUProfiles)).Namespace("default")
	add := func(name string, spec v1alpha1.CPUProfileSpec) {
		t.Helper()
		object := &v1alpha1.CPUProfile{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
		object.APIVersion, object.Kind = v1alpha1.GroupVersion.String(), "CPUProfile"
		if _, err := profiles.Create(ctx, toUnstructured(t, object), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p.addPod(t, "big", "64") // fills the node bare, so that the following pods go to n
	p.bound(t, "big")
	all := &v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{"app": "web"}}
	add("strict", v1alpha1.CPUProfileSpec{Selector: all, Class: "sensitive"})
	add("images", v1alpha1.CPUProfileSpec{Images: []string{"none"}, Class: "flexible", Policy: "best-effort"})
	for i := 0; ; i++ { // the profiles reach the scheduler's informer after an unknown time
		name := fmt.Sprint("web", i)
		p.addPod(t, name, "10m", func(pod *v1.Pod) { pod.Labels = map[string]string{"app": "web"} })
		web := p.bound(t, name)
		n.create(web)
		is := web.Annotations
		if is[kube.PodKey("class")] == "sensitive" && is[kube.PodKey("policy")] == "best-effort" {
			break
		}
		if i == 100 {
			t.Fatalf("got annotations %v, want class sensitive and policy best-effort", is)
		}
	}
	until(t, "an event reports the conflict", func() bool {
		events, err := p.client.EventsV1().Events("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events.Items {
			if e.Reason == "CandorProfilesDiffer" && e.Note == "CPUProfiles strict and images differ in class: sensitive, the stricter, counts" {
				return true
			}
		}
		return false
	})
}
