package profile

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/kube/v1alpha1"
)

func mustRead(t testing.TB, name string, spec v1alpha1.CPUProfileSpec) Profile {
	t.Helper()
	p, err := Read(&v1alpha1.CPUProfile{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func selector(labels map[string]string) *v1alpha1.PodSelector {
	s := &v1alpha1.PodSelector{MatchLabels: map[string]v1alpha1.LabelValue{}}
	for name, value := range labels {
		s.MatchLabels[name] = v1alpha1.LabelValue(value)
	}
	return s
}

// TestOrder sets a value in all five places and removes the places in order. Each time, the next place
// decides.
func TestOrder(t *testing.T) {
	pod := &Pod{Labels: map[string]string{"app": "web"}, Annotations: map[string]string{
		kube.ContainerKey("topology", "app"): "single-numa", kube.PodKey("topology"): "single-l3", "other.example/x": "y",
	}}
	profiles := []Profile{mustRead(t, "a", v1alpha1.CPUProfileSpec{Selector: selector(pod.Labels), Topology: "whole-cores"})}
	namespace, defaults := Values{"topology": "none"}, Values{"topology": "prefer"}
	steps := []struct {
		want string
		then func()
	}{
		{"single-numa", func() { delete(pod.Annotations, kube.ContainerKey("topology", "app")) }},
		{"single-l3", func() { delete(pod.Annotations, kube.PodKey("topology")) }},
		{"whole-cores", func() { profiles = nil }},
		{"none", func() { namespace = nil }},
		{"prefer", func() { defaults = nil }},
		{"", func() {}},
	}
	for _, step := range steps {
		r, err := Resolve(pod, Container{Name: "app", Image: "web:1"}, profiles, namespace, defaults)
		if err != nil || r.Values["topology"] != step.want || len(r.Conflicts) > 0 {
			t.Fatalf("%+v, %v; want %q", r, err, step.want)
		}
		if got := r.Settings.Topology; (got == nil) != (step.want == "") || got != nil && got.String() != step.want {
			t.Errorf("got setting %v, want %q", got, step.want)
		}
		step.then()
	}
}

// TestSettingsResolveSeparately: each setting is resolved separately. The pod can set the class, and a
// profile the policy.
func TestSettingsResolveSeparately(t *testing.T) {
	pod := &Pod{Labels: map[string]string{"app": "web"}, Annotations: map[string]string{kube.PodKey("class"): "sensitive"}}
	profiles := []Profile{mustRead(t, "a", v1alpha1.CPUProfileSpec{Selector: &v1alpha1.PodSelector{}, Class: "flexible", Policy: "best-effort"})}
	r, err := Resolve(pod, Container{Name: "app"}, profiles, Values{"view": "affinity", "policy": "strict"}, Values{"period": "20ms"})
	want := Values{"class": "sensitive", "policy": "best-effort", "view": "affinity", "period": "20ms"}
	if err != nil || !maps.Equal(r.Values, want) || len(r.Conflicts) > 0 {
		t.Errorf("got %v, conflicts %v, %v; want %v", r.Values, r.Conflicts, err, want)
	}
}

func TestSelection(t *testing.T) {
	web := selector(map[string]string{"app": "web"})
	notOld := &v1alpha1.PodSelector{MatchExpressions: []v1alpha1.PodSelectorRequirement{{Key: "age", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"old"}}}}
	for _, c := range []struct {
		selector *v1alpha1.PodSelector
		images   []string
		label    string // value of the pod's label app
		image    string
		want     bool
	}{
		{web, nil, "web", "x", true},
		{web, nil, "db", "x", false},
		{web, []string{"spark*"}, "web", "spark:3", true},
		{web, []string{"spark*"}, "web", "registry/spark:3", false},
		{web, []string{"spark*"}, "db", "spark:3", false},
		{nil, []string{"nginx", "*/spark/*:3.*"}, "db", "registry.example/spark/driver:3.5", true},
		{nil, []string{"nginx", "*/spark/*:3.*"}, "db", "registry.example/spark/driver:2.4", false},
		{nil, []string{"nginx"}, "db", "nginx", true},
		{nil, []string{"nginx"}, "db", "nginx:1", false},
		{nil, []string{"a*a"}, "db", "a", false},
		{nil, []string{"a*a"}, "db", "aa", true},
		{nil, []string{"*"}, "db", "", true},
		{nil, []string{"*a*b*"}, "db", "xaxbx", true},
		{nil, []string{"*a*b*"}, "db", "xbxax", false},
		{notOld, nil, "db", "x", true},
		{&v1alpha1.PodSelector{}, nil, "db", "x", true},
	} {
		p := mustRead(t, "p", v1alpha1.CPUProfileSpec{Selector: c.selector, Images: c.images, Class: "sensitive"})
		pod := &Pod{Labels: map[string]string{"app": c.label}}
		r, err := Resolve(pod, Container{Name: "app", Image: c.image}, []Profile{p}, nil, nil)
		if got := r.Values["class"] == "sensitive"; err != nil || got != c.want {
			t.Errorf("%v %v: image %q in a pod with app=%s: got %v, %v; want %v", c.selector, c.images, c.image, c.label, got, err, c.want)
		}
	}
}

// TestConflicts: if profiles have different values, the strictest value wins in any order of the profiles,
// and a line reports the conflict. An annotation of the pod avoids the conflict.
func TestConflicts(t *testing.T) {
	all := &v1alpha1.PodSelector{}
	a := mustRead(t, "a", v1alpha1.CPUProfileSpec{Selector: all, Class: "flexible", Topology: "single-l3"})
	b := mustRead(t, "b", v1alpha1.CPUProfileSpec{Selector: all, Class: "sensitive", Policy: "best-effort"})
	c := mustRead(t, "c", v1alpha1.CPUProfileSpec{Selector: all, Class: "flexible", Policy: "strict", Topology: "single-l3"})
	want := []string{
		"CPUProfiles b and c differ in class: sensitive, the stricter, counts",
		"CPUProfiles c and b differ in policy: strict, the stricter, counts",
	}
	for _, profiles := range [][]Profile{{a, b, c}, {c, b, a}, {b, a, c}} {
		r, err := Resolve(&Pod{}, Container{Name: "app"}, profiles, nil, nil)
		if err != nil || !maps.Equal(r.Values, Values{"class": "sensitive", "policy": "strict", "topology": "single-l3"}) || !slices.Equal(r.Conflicts, want) {
			t.Errorf("got %v, conflicts %q, %v; want conflicts %q", r.Values, r.Conflicts, err, want)
		}
	}
	annotated := &Pod{Annotations: map[string]string{kube.PodKey("class"): "flexible"}}
	r, err := Resolve(annotated, Container{Name: "app"}, []Profile{a, b}, nil, nil)
	if err != nil || r.Values["class"] != "flexible" || len(r.Conflicts) > 0 {
		t.Errorf("with an annotation: got %v, conflicts %q, %v; want flexible without a conflict", r.Values, r.Conflicts, err)
	}
}

// TestStrictness: the order of strictness contains exactly the values that a profile accepts.
func TestStrictness(t *testing.T) {
	for _, name := range settingNames {
		for _, value := range strictness[name] {
			if _, err := (Values{name: value}).settings(); err != nil {
				t.Error(err)
			}
		}
		_, err := (Values{name: "?"}).settings()
		if err == nil {
			t.Fatalf("%s: the value \"?\" is accepted", name)
		}
		for _, value := range strictness[name] {
			if !strings.Contains(err.Error(), value) {
				t.Errorf("%s: error %q does not list %q", name, err, value)
			}
		}
	}
}

func TestInvalidProfiles(t *testing.T) {
	all := &v1alpha1.PodSelector{}
	for want, spec := range map[string]v1alpha1.CPUProfileSpec{
		"must have a selector of pods, patterns of images, or both": {Class: "sensitive"},
		"no setting: must have one of class, policy":                {Selector: all},
		`class "sensitve": must be one of sensitive, flexible`:      {Selector: all, Class: "sensitve"},
		`view "all": must be affinity, cpu, full or full+stat`:      {Selector: all, View: "all"},
		"images: must be 1 to 64 patterns":                          {Images: []string{""}, Class: "sensitive"},
		"none of them empty":                                        {Images: make([]string, 65), Class: "sensitive"},
		"selector: ":                                                {Selector: selector(map[string]string{"a b": "c"}), Class: "sensitive"},
		`is not a valid label selector operator`:                    {Selector: &v1alpha1.PodSelector{MatchExpressions: []v1alpha1.PodSelectorRequirement{{Key: "a", Operator: "Like"}}}, Class: "sensitive"},
	} {
		_, err := Read(&v1alpha1.CPUProfile{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: spec})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), `CPUProfile "p": `) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestNamespace(t *testing.T) {
	v, err := Namespace(map[string]string{"candor.dev/class": "sensitive", "kubernetes.io/metadata.name": "spark"})
	if err != nil || !maps.Equal(v, Values{"class": "sensitive"}) {
		t.Errorf("got %v, %v; want class sensitive", v, err)
	}
	for label, want := range map[string]string{"candor.dev/klass": "unknown setting", "class.candor.dev/web": "single container"} {
		if v, err := Namespace(map[string]string{label: "sensitive"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v; want %q", label, v, err, want)
		}
	}
}

func TestInvalidAnnotation(t *testing.T) {
	r, err := Resolve(&Pod{Annotations: map[string]string{"candor.dev/class": "best"}}, Container{Name: "app"}, nil, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "annotation candor.dev/class") {
		t.Errorf("got %+v, %v; want an error about annotation candor.dev/class", r, err)
	}
}

// TestRandomPlaces sets random values in the annotations, the profiles and the namespace. The first place
// that sets a value decides, and the order of the profiles has no effect. A conflict is reported exactly if
// the profiles decide and differ.
func TestRandomPlaces(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(place string) Values {
			v := Values{}
			for _, name := range []string{"class", "policy", "topology", "view"} {
				if rapid.Bool().Draw(rt, place) {
					v[name] = rapid.SampledFrom(strictness[name]).Draw(rt, name)
				}
			}
			return v
		}
		annotations := map[string]string{}
		for name, value := range draw("annotation") {
			annotations[kube.PodKey(name)] = value
		}
		var profiles []Profile
		for i := range rapid.IntRange(0, 3).Draw(rt, "profiles") {
			v := draw("profile")
			if len(v) > 0 {
				profiles = append(profiles, mustRead(t, fmt.Sprint("p", i), v1alpha1.CPUProfileSpec{
					Selector: &v1alpha1.PodSelector{}, Class: v["class"], Policy: v["policy"], Topology: v["topology"], View: v["view"]}))
			}
		}
		namespace := draw("namespace")
		r, err := Resolve(&Pod{Annotations: annotations}, Container{Name: "c"}, profiles, namespace, nil)
		if err != nil {
			rt.Fatal(err)
		}
		slices.Reverse(profiles)
		again, _ := Resolve(&Pod{Annotations: annotations}, Container{Name: "c"}, profiles, namespace, nil)
		if !maps.Equal(r.Values, again.Values) || !slices.Equal(r.Conflicts, again.Conflicts) {
			rt.Fatalf("got %v, conflicts %q; in reverse order %v, conflicts %q", r.Values, r.Conflicts, again.Values, again.Conflicts)
		}
		conflicts := 0
		for _, name := range []string{"class", "policy", "topology", "view"} {
			want, differ := annotations[kube.PodKey(name)], false
			if want == "" {
				want, differ = oracle(name, profiles)
			}
			if want == "" {
				want = namespace[name]
			}
			if differ {
				conflicts++
			}
			if r.Values[name] != want {
				rt.Fatalf("%s: got %q, want %q", name, r.Values[name], want)
			}
		}
		if len(r.Conflicts) != conflicts {
			rt.Fatalf("got conflicts %q, want %d", r.Conflicts, conflicts)
		}
	})
}

// oracle returns the strictest value of a setting in the profiles, and whether the profiles differ.
func oracle(name string, profiles []Profile) (value string, differ bool) {
	values := map[string]bool{}
	for _, p := range profiles {
		if v := p.values[name]; v != "" {
			values[v] = true
		}
	}
	for _, v := range strictness[name] {
		if values[v] {
			return v, len(values) > 1
		}
	}
	return "", false
}

// FuzzProfile: Read accepts a profile or returns an error of a single line. An accepted profile sets values
// exactly for the containers that it applies to.
func FuzzProfile(f *testing.F) {
	f.Add([]byte(`{"selector":{"matchLabels":{"app":"web"}},"class":"sensitive","policy":"strict"}`), "app", "web", "nginx:1")
	f.Add([]byte(`{"images":["*/spark/*","a*b*c"],"topology":"single-l3"}`), "", "", "x/spark/y")
	f.Add([]byte(`{"selector":{"matchExpressions":[{"key":"a","operator":"Exists"}]},"view":"full"}`), "a", "", "")
	f.Fuzz(func(t *testing.T, data []byte, label, value, image string) {
		var spec v1alpha1.CPUProfileSpec
		if json.Unmarshal(data, &spec) != nil {
			return
		}
		p, err := Read(&v1alpha1.CPUProfile{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: spec})
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("error of more than one line: %q", err)
			}
			return
		}
		pod := &Pod{Labels: map[string]string{label: value}}
		r, err := Resolve(pod, Container{Name: "c", Image: image}, []Profile{p}, nil, nil)
		if err != nil || len(r.Conflicts) > 0 {
			t.Errorf("%s: got %v, conflicts %q; want none", data, err, r.Conflicts)
		}
		if isSet := len(r.Values) > 0; isSet != p.appliesTo(pod, Container{Image: image}) {
			t.Errorf("%s: applies to the container: %v, but the values are %v", data, !isSet, r.Values)
		}
	})
}
