package scheduler

import (
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/cluster"
	"github.com/candor-project/candor/topology"
)

// A recorder is a handle that has nothing but events.
type recorder struct {
	fwk.Handle
	*events.FakeRecorder
}

func (r *recorder) EventRecorder() events.EventRecorderLogger { return r.FakeRecorder }

// A reservation whose time has passed is given up, and an event of the pod says so; but not of one that somebody else has bound.
func TestExpired(t *testing.T) {
	registerMetrics()
	m, err := topology.Parse("core:4")
	if err != nil {
		t.Fatal(err)
	}
	n, err := hybrid.NewNode(m, hybrid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, now := &recorder{FakeRecorder: events.NewFakeRecorder(10)}, time.Unix(0, 0)
	p := &Plugin{handle: r, options: options{patience: 10 * time.Minute}, cluster: cluster.New(10 * time.Minute), now: func() time.Time { return now }}
	p.cluster.Report("n", 1, n, now)
	for _, name := range []string{"ours", "others"} {
		asks, err := p.boundAs(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "u-1"}, Spec: v1.PodSpec{Containers: []v1.Container{container("app", "1")}}})
		if err != nil {
			t.Fatal(err)
		}
		if name == "others" {
			p.cluster.Bound("n", asks, now)
		} else if _, refusal := p.cluster.Reserve("n", asks, now); refusal != nil {
			t.Fatal(refusal)
		}
		p.expire()
		if len(r.Events) > 0 {
			t.Error("too early: ", <-r.Events)
		}
		now = now.Add(10*time.Minute + time.Second)
		p.expire()
		switch {
		case name == "others" && len(r.Events) > 0:
			t.Error("of a pod of others: ", <-r.Events)
		case name == "ours" && len(r.Events) != 1:
			t.Errorf("%d events, want 1", len(r.Events))
		case name == "ours":
			if e := <-r.Events; !strings.Contains(e, "CandorReservationExpired its node has not reported it for 10m0s") {
				t.Error(e)
			}
		}
		if got := p.cluster.Totals(); got.Reserved != 0 {
			t.Errorf("%+v", got)
		}
		p.cluster.Forget("u-1")
	}
}
