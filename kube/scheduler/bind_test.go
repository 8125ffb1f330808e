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

// A bindHandle is the handle of a profile. Its client records bindings and returns the error that
// newBindHandle got.
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

// TestBind: a single API call binds a pod and writes its annotations. The next binder binds a pod without new
// annotations. An event reports a profile conflict only after a successful binding.
func TestBind(t *testing.T) {
	refuses := errors.New("no")
	sensitive := grants{{Request: hybrid.Request{ID: "u/app", Class: hybrid.Sensitive}, Exclusive: cpuset.Of(3)}}
	flexible := grants{{Request: hybrid.Request{ID: "u/app", Class: hybrid.Flexible}}}
	hint := `{"node":"n","containers":{"app":"3"}}`
	for name, test := range map[string]struct {
		missing map[string]string // annotations that the pod lacks
		granted grants
		fails   error
		want    map[string]string // annotations of the binding; nil if the next binder binds
		events  int
	}{
		"class and hint": {missing: map[string]string{"candor.dev/class": "sensitive"}, granted: sensitive,
			want: map[string]string{"candor.dev/class": "sensitive", "candor.dev/hint": hint}, events: 1},
		"hint":           {granted: sensitive, want: map[string]string{"candor.dev/hint": hint}, events: 1},
		"class":          {missing: map[string]string{"candor.dev/class": "flexible"}, granted: flexible, want: map[string]string{"candor.dev/class": "flexible"}, events: 1},
		"no annotation":  {granted: flexible},
		"failed binding": {missing: map[string]string{"candor.dev/class": "flexible"}, fails: refuses, want: map[string]string{"candor.dev/class": "flexible"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newBindHandle(test.fails)
			p := &Plugin{handle: h}
			cycle := framework.NewCycleState()
			missing := maps.Clone(test.missing)
			if missing == nil {
				missing = map[string]string{}
			}
			cycle.Write(stateKey, &state{pod: &podDemand{annotations: missing, conflicts: []string{"they differ"}}})
			cycle.Write(grantsKey, test.granted)
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u", Annotations: map[string]string{"a": "b"}}}
			status := p.Bind(ctx, cycle, pod, "n")
			made := h.bindings()
			if test.want == nil {
				if !status.IsSkip() || len(made) != 0 {
					t.Errorf("got %v, bindings %v; want status Skip and no binding", status, made)
				}
				return
			}
			if status.IsSuccess() != (test.fails == nil) || len(made) != 1 {
				t.Fatalf("%v, bindings %v", status, made)
			}
			if b := made[0]; b.Name != "web" || b.UID != "u" || b.Target.Name != "n" || b.Target.Kind != "Node" || !maps.Equal(b.Annotations, test.want) {
				t.Errorf("got binding %+v, want annotations %v", b, test.want)
			}
			if len(h.events.Events) != test.events {
				t.Errorf("%d events, want %d", len(h.events.Events), test.events)
			}
			if test.missing != nil && !maps.Equal(missing, test.missing) {
				t.Errorf("the binding changed the pod's missing annotations to %v", missing)
			}
		})
	}
}

// TestBinderOrder: if the default binder comes before Candor, the scheduler exits with an error that names
// the missing setting.
func TestBinderOrder(t *testing.T) {
	p := wantLab(t)
	defer p.clear(t)
	c := p.startScheduler(t, setup{bindLate: true})
	late := time.AfterFunc(patience, func() { _ = c.Process.Kill() }) // if the scheduler does not exit
	defer late.Stop()
	err := c.Wait()
	text, readErr := os.ReadFile(c.log)
	const want = "profile default-scheduler: plugin Candor must bind before other plugins: use bind: {enabled: [{name: Candor}]} beside multiPoint"
	if err == nil || readErr != nil || !strings.Contains(string(text), want) {
		t.Errorf("%v, %v: want %q in\n%s", err, readErr, want, text)
	}
}
