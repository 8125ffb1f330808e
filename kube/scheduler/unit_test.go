package scheduler

import (
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/profile"
	"github.com/candor-project/candor/kube/v1alpha1"
)

func TestArgs(t *testing.T) {
	read := func(text string) (options, error) {
		return readArgs(&runtime.Unknown{Raw: []byte(text), ContentType: runtime.ContentTypeJSON})
	}
	if o, err := readArgs(nil); err != nil || o.reservationTimeout != 10*time.Minute || o.nodesToScore != 64 {
		t.Errorf("without args: %+v, %v", o, err)
	}
	o, err := read(`{"reservationTimeout": "90s", "defaults": {"class": "sensitive", "policy": "best-effort"}, "nodesToScore": 0}`)
	if err != nil || o.reservationTimeout != 90*time.Second || o.nodesToScore != 0 || !maps.Equal(o.defaults, profile.Values{"class": "sensitive", "policy": "best-effort"}) {
		t.Errorf("%+v, %v", o, err)
	}
	for text, want := range map[string]string{
		`{"reservationTimeOut": "1m", "x": 1}`: `args of plugin Candor: json: unknown field "x": must be reservationTimeout, defaults, nodesToScore`,
		`{"reservationTimeout": "5s"}`:         `args of plugin Candor: reservationTimeout "5s": must be 1m to 24h, such as 10m`,
		`{"reservationTimeout": "soon"}`:       `args of plugin Candor: reservationTimeout "soon": must be 1m to 24h, such as 10m`,
		`{"nodesToScore": 3}`:                  `args of plugin Candor: nodesToScore 3: must be 16 to 100, or 0 for all nodes that kube-scheduler filters`,
		`{"nodesToScore": 6000}`:               `args of plugin Candor: nodesToScore 6000: must be 16 to 100`,
		`{"defaults": {"class": "sensitve"}}`:  `args of plugin Candor: defaults: class "sensitve": must be one of sensitive, flexible`,
		`{"defaults": {"klass": "sensitive"}}`: `args of plugin Candor: defaults: unknown setting "klass"`,
		`{"defaults": {}} {}`:                  `args of plugin Candor: must be a single JSON object`,
		`[]`:                                   `args of plugin Candor: json: cannot unmarshal array`,
	} {
		if _, err := read(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}

// TestNormalizeScore: for any ranks, only nodes of the best rank get the score 100, and scores keep the order
// of the ranks.
func TestNormalizeScore(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ranks := rapid.SliceOfN(rapid.Uint64(), 1, 300).Draw(rt, "ranks")
		scores := make(fwk.NodeScoreList, len(ranks))
		least := uint64(math.MaxUint64)
		for i, rank := range ranks {
			scores[i].Score = scoreOf(fleet.Rank(rank))
			least = min(least, rank)
		}
		(*Plugin)(nil).NormalizeScore(ctx, nil, nil, scores)
		for i := range ranks {
			if got := scores[i].Score; (got == 100) != (ranks[i] == least) || got < 0 || got > 100 {
				rt.Fatalf("rank %d of %v: got score %d", ranks[i], ranks, got)
			}
			for j := range ranks {
				if ranks[i] < ranks[j] && scores[i].Score < scores[j].Score {
					rt.Fatalf("rank %d: score %d, rank %d: score %d; want the order of the ranks", ranks[i], scores[i].Score, ranks[j], scores[j].Score)
				}
			}
		}
	})
}

// TestRequests: the scheduler computes the same request for a container as candor nri computes from its quota
// and shares.
func TestRequests(t *testing.T) {
	sensitive := profile.Values{"class": "sensitive"}
	for _, test := range []struct {
		request, limit string
		defaults       profile.Values
		want           hybrid.Request
	}{
		{"1500m", "1500m", sensitive, hybrid.Request{Class: hybrid.Sensitive, Limit: 1500}},
		{"", "1500m", sensitive, hybrid.Request{Class: hybrid.Sensitive, Limit: 1500}},
		{"1", "1500m", sensitive, hybrid.Request{Class: hybrid.Flexible, Limit: 1500, Guarantee: 1000}},
		{"1", "", sensitive, hybrid.Request{Class: hybrid.Flexible, Guarantee: 1000}},
		{"", "", nil, hybrid.Request{Class: hybrid.Flexible, Guarantee: hybrid.NoGuarantee}},
		{"2m", "1", nil, hybrid.Request{Class: hybrid.Flexible, Limit: 1000, Guarantee: hybrid.NoGuarantee}},
		{"5m", "5m", nil, hybrid.Request{Class: hybrid.Flexible, Limit: 10, Guarantee: 5}},
		{"", "1500m", nil, hybrid.Request{Class: hybrid.Flexible, Limit: 1500, Guarantee: 1500}},
		{"2", "2", profile.Values{"class": "sensitive", "policy": "best-effort", "topology": "single-l3", "movable": "false"},
			hybrid.Request{Class: hybrid.Sensitive, Policy: hybrid.BestEffort, Topology: hybrid.SingleL3, Immovable: true, Limit: 2000}},
	} {
		c := v1.Container{Name: "app", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}}
		if test.request != "" {
			c.Resources.Requests["cpu"] = resource.MustParse(test.request)
		}
		if test.limit != "" {
			c.Resources.Limits["cpu"] = resource.MustParse(test.limit)
		}
		demand, err := readDemand(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: v1.PodSpec{Containers: []v1.Container{c}}}, nil, nil, test.defaults)
		test.want.ID = "u/app"
		if err != nil || demand.Lasting()[0] != test.want {
			t.Errorf("request %q, limit %q, %v: %+v, %v; want %+v", test.request, test.limit, test.defaults, demand, err, test.want)
		}
	}
}

func TestInvalidPods(t *testing.T) {
	whole := v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("2")}}
	for want, pod := range map[string]*v1.Pod{
		"annotation candor.dev/class: class \"sensitve\"": {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"candor.dev/class": "sensitve"}},
			Spec: v1.PodSpec{Containers: []v1.Container{container("app", "1")}}},
		"CPU of the whole pod (spec.resources)": {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"candor.dev/class": "sensitive"}},
			Spec: v1.PodSpec{Resources: &whole, Containers: []v1.Container{container("app", "1")}}},
		"container app: limit 2000": {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"candor.dev/class": "sensitive"}},
			Spec: v1.PodSpec{Containers: []v1.Container{container("app", "2000")}}},
	} {
		if _, err := readDemand(pod, nil, nil, nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestAnnotations: a pod gets the annotations that it lacks. A setting that all containers share becomes an
// annotation of the whole pod.
func TestAnnotations(t *testing.T) {
	for _, test := range []struct {
		present, app, log, want map[string]string
	}{
		{nil, nil, nil, map[string]string{"candor.dev/class": "flexible", "candor.dev/policy": "strict", "candor.dev/topology": "prefer"}},
		{nil, map[string]string{"class": "sensitive"}, map[string]string{"class": "flexible"},
			map[string]string{"class.candor.dev/app": "sensitive", "class.candor.dev/log": "flexible", "candor.dev/policy": "strict", "candor.dev/topology": "prefer"}},
		{map[string]string{"candor.dev/class": "sensitive", "policy.candor.dev/log": "best-effort"},
			map[string]string{"class": "sensitive", "view": "affinity"}, map[string]string{"class": "sensitive", "policy": "best-effort"},
			map[string]string{"policy.candor.dev/app": "strict", "candor.dev/topology": "prefer", "view.candor.dev/app": "affinity"}},
	} {
		n := newPodSettings(test.present)
		n.add("app", test.app)
		n.add("log", test.log)
		if got := n.missing(); !maps.Equal(got, test.want) {
			t.Errorf("%v: got %v, want %v", test.present, got, test.want)
		}
	}
}

// TestConflictReportedOnce: a conflict of two profiles is reported once for a pod with several containers.
func TestConflictReportedOnce(t *testing.T) {
	var profiles []profile.Profile
	for name, class := range map[string]string{"a": "sensitive", "b": "flexible"} {
		p, err := profile.Read(&v1alpha1.CPUProfile{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.CPUProfileSpec{Images: []string{"*"}, Class: class}})
		if err != nil {
			t.Fatal(err)
		}
		profiles = append(profiles, p)
	}
	pod := &v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{container("first", "1")}, Containers: []v1.Container{container("app", "1"), container("log", "1")}}}
	demand, err := readDemand(pod, profiles, nil, nil)
	if err != nil || len(demand.conflicts) != 1 || !strings.Contains(demand.conflicts[0], "differ in class") {
		t.Errorf("got conflicts %q, %v; want a single line", demand.conflicts, err)
	}
}

// TestUnreadableReport: asReport returns an unreadable report without a node, with its error and its version.
func TestUnreadableReport(t *testing.T) {
	bad := toUnstructured(t, &v1alpha1.NodeCPU{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "7"}})
	bad.Object["status"] = "none"
	got, err := asReport(bad)
	if r, ok := got.(*report); err != nil || !ok || r.err == nil || r.Name != "n" || r.version() != 7 {
		t.Errorf("%+v, %v", got, err)
	}
}
