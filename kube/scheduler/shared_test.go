package scheduler

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/kube/cluster"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// A noHandle is a profile's handle without an API server.
type noHandle struct{ fwk.Handle }

func (noHandle) KubeConfig() *rest.Config { return &rest.Config{Host: "https://127.0.0.1:1"} }
func (noHandle) EventRecorder() events.EventRecorderLogger {
	return events.NewFakeRecorder(1)
}
func (noHandle) SharedInformerFactory() informers.SharedInformerFactory {
	return informers.NewSharedInformerFactory(fake.NewClientset(), 0)
}

func argsOf(text string) runtime.Object {
	return &runtime.Unknown{Raw: []byte(text), ContentType: runtime.ContentTypeJSON}
}

// TestProfilesOfOneScheduler: all profiles of a scheduler share their reservations. Profiles with conflicting options
// are refused.
func TestProfilesOfOneScheduler(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	factory := Factory()
	var plugins []*Plugin
	for _, text := range []string{`{"defaults": {"class": "sensitive"}}`, `{"reservationTimeout": "600s", "defaults": {"class": "sensitive"}}`} {
		made, err := factory(ctx, argsOf(text), noHandle{})
		if err != nil {
			t.Fatal(err)
		}
		plugins = append(plugins, made.(*Plugin))
	}
	object := newReport(t, 1)
	report, err := asReport(object)
	if err != nil {
		t.Fatal(err)
	}
	plugins[0].storeReport(report)
	asks := func(uid string) *cluster.Pod {
		p, err := boundPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u-1", Annotations: map[string]string{"candor.dev/class": "sensitive"}},
			Spec: v1.PodSpec{Containers: []v1.Container{container(uid, "3")}}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if _, refusal := plugins[0].cluster.Reserve("n", asks("a"), time.Now()); refusal != nil {
		t.Fatal(refusal)
	}
	if plugins[1].cluster.Fits("n", asks("b")) == nil { // before the binding is recorded
		t.Error("the second profile gives what the first one has given")
	}
	for _, text := range []string{`{}`, `{"defaults": {"class": "flexible"}}`, `{"reservationTimeout": "90s", "defaults": {"class": "sensitive"}}`} {
		if _, err := factory(ctx, argsOf(text), noHandle{}); err == nil || !strings.Contains(err.Error(), "they differ between profiles") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestUnreserveOfBoundPod: if the answer of a binding is lost, the scheduler counts the binding as failed although the
// cluster has it. The pod keeps its CPUs.
func TestUnreserveOfBoundPod(t *testing.T) {
	for _, bound := range []bool{false, true} {
		p := &Plugin{shared: newTestShared()}
		report, err := asReport(newReport(t, 1))
		if err != nil {
			t.Fatal(err)
		}
		p.storeReport(report)
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u-1", Annotations: map[string]string{"candor.dev/class": "sensitive"}},
			Spec: v1.PodSpec{Containers: []v1.Container{container("app", "3")}}}
		asks, err := readDemand(pod, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		cycle := framework.NewCycleState()
		cycle.Write(stateKey, &state{pod: asks})
		if status := p.Reserve(ctx, cycle, pod, "n"); !status.IsSuccess() {
			t.Fatal(status)
		}
		if bound {
			told := pod.DeepCopy()
			told.Spec.NodeName = "n"
			p.storePod(told)
		}
		p.Unreserve(ctx, cycle, pod, "n")
		if got := p.cluster.Totals().Reserved == 1; got != bound {
			t.Errorf("bound %v: reserved %v", bound, got)
		}
	}
}

// TestLateProfiles: events of profiles arrive on two ways, also repeated and late. An old event never replaces newer
// data.
func TestLateProfiles(t *testing.T) {
	p := &settingSources{namespaces: corelisters.NewNamespaceLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)), log: klog.Background()}
	profile := func(version, class string) *unstructured.Unstructured {
		return toUnstructured(t, &v1alpha1.CPUProfile{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "default", ResourceVersion: version},
			Spec: v1alpha1.CPUProfileSpec{Selector: &v1alpha1.PodSelector{}, Class: class}})
	}
	for _, step := range []struct {
		what string
		do   func(any)
		obj  any
		want string // the class that counts; "": none
	}{
		{"made", p.store, profile("5", "sensitive"), "sensitive"},
		{"gone", p.remove, profile("7", "sensitive"), ""},
		{"made, once more", p.store, profile("5", "sensitive"), ""},
		{"recreated", p.store, profile("8", "flexible"), "flexible"},
		{"gone, once more", p.remove, profile("7", "sensitive"), "flexible"},
		{"spoilt", p.store, profile("9", "best"), ""},
		{"made anew, once more", p.store, profile("8", "flexible"), ""},
		{"mended", p.store, profile("10", "sensitive"), "sensitive"},
		{"found gone", p.remove, cache.DeletedFinalStateUnknown{Obj: profile("10", "sensitive")}, ""},
		{"mended, once more", p.store, profile("10", "sensitive"), ""},
	} {
		step.do(step.obj)
		pod, got := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}, Spec: v1.PodSpec{Containers: []v1.Container{container("app", "1")}}}, ""
		if all, _ := p.sourcesFor(pod); len(all) > 0 {
			asks, err := readDemand(pod, all, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			got = asks.annotations[kube.PodKey("class")]
		}
		if got != step.want {
			t.Errorf("%s: %q counts, want %q", step.what, got, step.want)
		}
	}
}

// TestReportIsReadOnce: if many pods wait for a report, it is parsed once.
func TestReportIsReadOnce(t *testing.T) {
	p := &Plugin{shared: newTestShared()}
	p.sources.namespaces = corelisters.NewNamespaceLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil))
	waits := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u-1", Annotations: map[string]string{"candor.dev/class": "sensitive"}},
		Spec: v1.PodSpec{Containers: []v1.Container{container("app", "5")}}}
	wake := func(report *unstructured.Unstructured) float64 {
		return testing.AllocsPerRun(10, func() {
			if got, err := p.afterReport(p.log, waits, nil, report); got != fwk.QueueSkip || err != nil {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	var many []hybrid.Request
	for i := range 200 {
		many = append(many, hybrid.Request{ID: "c" + string(rune('a'+i)), Class: hybrid.Flexible, Limit: 10})
	}
	few, lots := wake(newReport(t, 1)), wake(newReport(t, 2, many...))
	if lots > few+100 {
		t.Errorf("%v allocations with 200 containers in the report, %v with none", lots, few)
	}
}

// A bound pod counts by its annotations alone; if they are invalid, by its requests.
func TestBoundAs(t *testing.T) {
	whole := hybrid.Request{ID: "u/app", Class: hybrid.Flexible, Limit: 1000, Guarantee: 1000}
	view := hybrid.Request{ID: "u/app", Class: hybrid.Sensitive, Limit: 1000}
	ended := func(code int32) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}}
	}
	runs := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	never, failure := v1.ContainerRestartPolicyNever, v1.ContainerRestartPolicyOnFailure
	for what, test := range map[string]struct {
		annotations      map[string]string
		policy           v1.RestartPolicy
		own              *v1.ContainerRestartPolicy
		state            v1.ContainerState
		want             []hybrid.Request
		planned, started bool
	}{
		"nothing said":             {want: []hybrid.Request{whole}},
		"sensitive, and ours":      {annotations: map[string]string{"candor.dev/class": "sensitive", "candor.dev/hint": "{}"}, want: []hybrid.Request{view}, planned: true},
		"misspelled":               {annotations: map[string]string{"candor.dev/class": "sensitve"}, want: []hybrid.Request{whole}},
		"runs":                     {state: runs, want: []hybrid.Request{whole}, started: true},
		"has ended":                {policy: v1.RestartPolicyNever, state: ended(1)},
		"has done its work":        {policy: v1.RestartPolicyOnFailure, state: ended(0)},
		"has failed":               {policy: v1.RestartPolicyOnFailure, state: ended(1), want: []hybrid.Request{whole}},
		"is started again":         {policy: v1.RestartPolicyAlways, state: ended(0), want: []hybrid.Request{whole}},
		"has ended, by its own":    {policy: v1.RestartPolicyAlways, own: &never, state: ended(1)},
		"has failed, by its own":   {policy: v1.RestartPolicyNever, own: &failure, state: ended(1), want: []hybrid.Request{whole}},
		"nothing runs, but others": {policy: v1.RestartPolicyNever, state: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}, want: []hybrid.Request{whole}},
	} {
		c := container("app", "1")
		c.RestartPolicy = test.own
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Annotations: test.annotations},
			Spec:   v1.PodSpec{RestartPolicy: test.policy, Containers: []v1.Container{c}},
			Status: v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "app", State: test.state}}}}
		asks, err := boundPod(pod)
		if err != nil || !slices.Equal(asks.Lasting(), test.want) || asks.Planned != test.planned || asks.Started != test.started {
			t.Errorf("%s: %+v, %v; want %+v, planned %v, started %v", what, asks, err, test.want, test.planned, test.started)
		}
	}
}

// TestNominatedPods: the class of a pod without a node comes from its profiles, also if the pod is nominated for a
// node.
func TestNominatedPods(t *testing.T) {
	s := &shared{options: options{defaults: map[string]string{"class": "sensitive"}}}
	s.sources.namespaces = corelisters.NewNamespaceLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil))
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: v1.PodSpec{Containers: []v1.Container{container("app", "1")}}}
	for node, want := range map[string]hybrid.Class{"": hybrid.Sensitive, "n": hybrid.Flexible} {
		pod.Spec.NodeName = node
		asks, err := s.clusterPod(pod)
		if err != nil || asks.Lasting()[0].Class != want {
			t.Errorf("on node %q: %+v, %v; want %v", node, asks, err, want)
		}
	}
}

// TestAwaitSync: pods wait until the first lists are read at the start of the scheduler. If that fails, later pods do
// not wait, because the pods of other profiles would wait with them.
func TestAwaitSync(t *testing.T) {
	const never = math.MaxInt
	for name, test := range map[string]struct {
		ago   time.Duration // the scheduler was started
		after int           // number of calls until all lists are read
		want  bool
		asked int // at most
	}{
		"read":           {time.Hour, 0, true, 1},
		"read soon":      {0, 3, true, 4},
		"not to be read": {time.Hour, never, false, 2},
	} {
		asked := 0
		s := &shared{startedAt: time.Now().Add(-test.ago), synced: []func() bool{func() bool { asked++; return asked > test.after }}}
		if got := s.awaitSync(t.Context()); got != test.want || asked > test.asked {
			t.Errorf("%s: %v after it was asked for %d times, want %v and %d at most", name, got, asked, test.want, test.asked)
		}
	}
}
