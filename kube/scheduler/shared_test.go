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

// A noHandle is the handle of a profile without an API server.
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

// TestProfilesOfOneScheduler: all profiles of a scheduler share their reservations. The factory refuses a
// profile with other options than the first profile.
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
	demand := func(uid string) *cluster.Pod {
		p, err := boundPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u-1", Annotations: map[string]string{"candor.dev/class": "sensitive"}},
			Spec: v1.PodSpec{Containers: []v1.Container{container(uid, "3")}}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if _, refusal := plugins[0].cluster.Reserve("n", demand("a"), time.Now()); refusal != nil {
		t.Fatal(refusal)
	}
	if plugins[1].cluster.Fits("n", demand("b")) == nil { // before the binding is recorded
		t.Error("the second profile ignores the reservation of the first profile")
	}
	for _, text := range []string{`{}`, `{"defaults": {"class": "flexible"}}`, `{"reservationTimeout": "90s", "defaults": {"class": "sensitive"}}`} {
		if _, err := factory(ctx, argsOf(text), noHandle{}); err == nil || !strings.Contains(err.Error(), "they differ between profiles") {
			t.Errorf("%s: got %v, want an error about different options", text, err)
		}
	}
}

// TestUnreserveOfBoundPod: if the response to a binding is lost, the scheduler cancels the reservation of a
// pod that is bound. The pod keeps its CPUs.
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
		demand, err := readDemand(pod, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		cycle := framework.NewCycleState()
		cycle.Write(stateKey, &state{pod: demand})
		if status := p.Reserve(ctx, cycle, pod, "n"); !status.IsSuccess() {
			t.Fatal(status)
		}
		if bound {
			boundCopy := pod.DeepCopy()
			boundCopy.Spec.NodeName = "n"
			p.storePod(boundCopy)
		}
		p.Unreserve(ctx, cycle, pod, "n")
		if got := p.cluster.Totals().Reserved == 1; got != bound {
			t.Errorf("bound %v: got reserved %v, want %v", bound, got, bound)
		}
	}
}

// TestLateProfiles: profile events come from two informers, and can be repeated or late. An old event never
// replaces newer data.
func TestLateProfiles(t *testing.T) {
	p := &settingSources{namespaces: corelisters.NewNamespaceLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)), log: klog.Background()}
	profile := func(version, class string) *unstructured.Unstructured {
		return toUnstructured(t, &v1alpha1.CPUProfile{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "default", ResourceVersion: version},
			Spec: v1alpha1.CPUProfileSpec{Selector: &v1alpha1.PodSelector{}, Class: class}})
	}
	for _, step := range []struct {
		name string
		do   func(any)
		obj  any
		want string // class from the profile; "" without a valid profile
	}{
		{"created", p.store, profile("5", "sensitive"), "sensitive"},
		{"deleted", p.remove, profile("7", "sensitive"), ""},
		{"created, repeated event", p.store, profile("5", "sensitive"), ""},
		{"recreated", p.store, profile("8", "flexible"), "flexible"},
		{"deleted, repeated event", p.remove, profile("7", "sensitive"), "flexible"},
		{"made invalid", p.store, profile("9", "best"), ""},
		{"recreated, repeated event", p.store, profile("8", "flexible"), ""},
		{"fixed", p.store, profile("10", "sensitive"), "sensitive"},
		{"deleted, found by a relist", p.remove, cache.DeletedFinalStateUnknown{Obj: profile("10", "sensitive")}, ""},
		{"fixed, repeated event", p.store, profile("10", "sensitive"), ""},
	} {
		step.do(step.obj)
		pod, got := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}, Spec: v1.PodSpec{Containers: []v1.Container{container("app", "1")}}}, ""
		if all, _ := p.sourcesFor(pod); len(all) > 0 {
			demand, err := readDemand(pod, all, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			got = demand.annotations[kube.PodKey("class")]
		}
		if got != step.want {
			t.Errorf("%s: got class %q, want %q", step.name, got, step.want)
		}
	}
}

// TestReportIsParsedOnce: the plugin parses a report once, even if many pods wait for it.
func TestReportIsParsedOnce(t *testing.T) {
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

// TestDemandOfBoundPod: the demand of a bound pod comes from its annotations alone, or from its requests if
// an annotation is invalid. Containers that have ended and do not restart count nothing.
func TestDemandOfBoundPod(t *testing.T) {
	byRequests := hybrid.Request{ID: "u/app", Class: hybrid.Flexible, Limit: 1000, Guarantee: 1000}
	view := hybrid.Request{ID: "u/app", Class: hybrid.Sensitive, Limit: 1000}
	ended := func(code int32) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}}
	}
	runs := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	never, failure := v1.ContainerRestartPolicyNever, v1.ContainerRestartPolicyOnFailure
	for name, test := range map[string]struct {
		annotations      map[string]string
		policy           v1.RestartPolicy
		containerPolicy  *v1.ContainerRestartPolicy
		state            v1.ContainerState
		want             []hybrid.Request
		planned, started bool
	}{
		"no annotations":                     {want: []hybrid.Request{byRequests}},
		"sensitive, with a hint":             {annotations: map[string]string{"candor.dev/class": "sensitive", "candor.dev/hint": "{}"}, want: []hybrid.Request{view}, planned: true},
		"invalid class":                      {annotations: map[string]string{"candor.dev/class": "sensitve"}, want: []hybrid.Request{byRequests}},
		"running":                            {state: runs, want: []hybrid.Request{byRequests}, started: true},
		"failed, Never":                      {policy: v1.RestartPolicyNever, state: ended(1)},
		"succeeded, OnFailure":               {policy: v1.RestartPolicyOnFailure, state: ended(0)},
		"failed, OnFailure":                  {policy: v1.RestartPolicyOnFailure, state: ended(1), want: []hybrid.Request{byRequests}},
		"succeeded, Always":                  {policy: v1.RestartPolicyAlways, state: ended(0), want: []hybrid.Request{byRequests}},
		"failed, container policy Never":     {policy: v1.RestartPolicyAlways, containerPolicy: &never, state: ended(1)},
		"failed, container policy OnFailure": {policy: v1.RestartPolicyNever, containerPolicy: &failure, state: ended(1), want: []hybrid.Request{byRequests}},
		"waiting, Never":                     {policy: v1.RestartPolicyNever, state: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}, want: []hybrid.Request{byRequests}},
	} {
		c := container("app", "1")
		c.RestartPolicy = test.containerPolicy
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Annotations: test.annotations},
			Spec:   v1.PodSpec{RestartPolicy: test.policy, Containers: []v1.Container{c}},
			Status: v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "app", State: test.state}}}}
		demand, err := boundPod(pod)
		if err != nil || !slices.Equal(demand.Lasting(), test.want) || demand.Planned != test.planned || demand.Started != test.started {
			t.Errorf("%s: %+v, %v; want %+v, planned %v, started %v", name, demand, err, test.want, test.planned, test.started)
		}
	}
}

// TestNominatedPods: the class of a pending pod comes from its settings and the defaults, and the class of a
// bound pod from its annotations.
func TestNominatedPods(t *testing.T) {
	s := &shared{options: options{defaults: map[string]string{"class": "sensitive"}}}
	s.sources.namespaces = corelisters.NewNamespaceLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil))
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: v1.PodSpec{Containers: []v1.Container{container("app", "1")}}}
	for node, want := range map[string]hybrid.Class{"": hybrid.Sensitive, "n": hybrid.Flexible} {
		pod.Spec.NodeName = node
		demand, err := s.clusterPod(pod)
		if err != nil || demand.Lasting()[0].Class != want {
			t.Errorf("on node %q: %+v, %v; want %v", node, demand, err, want)
		}
	}
}

// TestAwaitSync: after the start of the scheduler, pods wait for the first lists of the informers. If the
// lists do not arrive, later pods do not wait, because pods of other profiles would wait too.
func TestAwaitSync(t *testing.T) {
	const never = math.MaxInt
	for name, test := range map[string]struct {
		age      time.Duration // of the scheduler
		after    int           // number of calls until all lists are read
		want     bool
		maxCalls int
	}{
		"read":       {time.Hour, 0, true, 1},
		"read soon":  {0, 3, true, 4},
		"never read": {time.Hour, never, false, 2},
	} {
		calls := 0
		s := &shared{startedAt: time.Now().Add(-test.age), synced: []func() bool{func() bool { calls++; return calls > test.after }}}
		if got := s.awaitSync(t.Context()); got != test.want || calls > test.maxCalls {
			t.Errorf("%s: got %v after %d calls, want %v after at most %d", name, got, calls, test.want, test.maxCalls)
		}
	}
}
