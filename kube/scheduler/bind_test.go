package scheduler

import (
	"errors"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// A bindHandle is a profile's handle that takes bindings, or fails.
type bindHandle struct {
	fwk.Handle
	client *fake.Clientset
	events *events.FakeRecorder
}

func newBindHandle(fails error) *bindHandle {
	h := &bindHandle{client: fake.NewClientset(), events: events.NewFakeRecorder(10)}
	h.client.PrependReactor("create", "pods/binding", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, fails })
	return h
}

func (h *bindHandle) ClientSet() kubernetes.Interface           { return h.client }
func (h *bindHandle) EventRecorder() events.EventRecorderLogger { return h.events }
func (*bindHandle) APICacher() fwk.APICacher                    { return nil }

// bindings returns the requested bindings.
func (h *bindHandle) bindings() (all []*v1.Binding) {
	for _, a := range h.client.Actions() {
		all = append(all, a.(clienttesting.CreateAction).GetObject().(*v1.Binding))
	}
	return all
}

// TestBind: one call binds a pod and writes its plan. A pod that lacks no annotation is left to the next binder. If
// profiles conflict, an event reports it when the pod is bound, and not before.
func TestBind(t *testing.T) {
	refuses := errors.New("no")
	its := grants{{Request: hybrid.Request{ID: "u/app", Class: hybrid.Sensitive}, Exclusive: cpuset.Of(3)}}
	flexible := grants{{Request: hybrid.Request{ID: "u/app", Class: hybrid.Flexible}}}
	hint := `{"node":"n","containers":{"app":"3"}}`
	for name, test := range map[string]struct {
		notes  map[string]string
		given  grants
		fails  error
		want   map[string]string // nil: it does not bind
		events int
	}{
		"a note and a hint": {notes: map[string]string{"candor.dev/class": "sensitive"}, given: its,
			want: map[string]string{"candor.dev/class": "sensitive", "candor.dev/hint": hint}, events: 1},
		"a hint":    {given: its, want: map[string]string{"candor.dev/hint": hint}, events: 1},
		"a note":    {notes: map[string]string{"candor.dev/class": "flexible"}, given: flexible, want: map[string]string{"candor.dev/class": "flexible"}, events: 1},
		"nothing":   {given: flexible},
		"a refusal": {notes: map[string]string{"candor.dev/class": "flexible"}, fails: refuses, want: map[string]string{"candor.dev/class": "flexible"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newBindHandle(test.fails)
			p := &Plugin{handle: h}
			cycle := framework.NewCycleState()
			notes := maps.Clone(test.notes)
			if notes == nil {
				notes = map[string]string{}
			}
			cycle.Write(stateKey, &state{pod: &podDemand{annotations: notes, conflicts: []string{"they differ"}}})
			cycle.Write(grantsKey, test.given)
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u", Annotations: map[string]string{"a": "b"}}}
			status := p.Bind(ctx, cycle, pod, "n")
			made := h.bindings()
			if test.want == nil {
				if !status.IsSkip() || len(made) != 0 {
					t.Errorf("%v, bindings %v: want it to be left to the next binder", status, made)
				}
				return
			}
			if status.IsSuccess() != (test.fails == nil) || len(made) != 1 {
				t.Fatalf("%v, bindings %v", status, made)
			}
			if b := made[0]; b.Name != "web" || b.UID != "u" || b.Target.Name != "n" || b.Target.Kind != "Node" || !maps.Equal(b.Annotations, test.want) {
				t.Errorf("%+v, want annotations %v", b, test.want)
			}
			if len(h.events.Events) != test.events {
				t.Errorf("%d events, want %d", len(h.events.Events), test.events)
			}
			if test.notes != nil && !maps.Equal(notes, test.notes) {
				t.Errorf("the pod's notes have become %v", notes)
			}
		})
	}
}

// TestBindsFirst: a configuration with the default binder first ends the scheduler with a line that names the missing
// setting.
func TestBindsFirst(t *testing.T) {
	p := wantLab(t)
	defer p.clear(t)
	c := p.startScheduler(t, setup{late: true})
	late := time.AfterFunc(patience, func() { _ = c.Process.Kill() }) // where it does not end by itself
	defer late.Stop()
	err := c.Wait()
	text, readErr := os.ReadFile(c.log)
	const want = "profile default-scheduler: plugin Candor must bind before other plugins: use bind: {enabled: [{name: Candor}]} beside multiPoint"
	if err == nil || readErr != nil || !strings.Contains(string(text), want) {
		t.Errorf("%v, %v: want %q in\n%s", err, readErr, want, text)
	}
}
