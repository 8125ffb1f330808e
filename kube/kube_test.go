package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/hybrid"
)

func TestParseTakesBothForms(t *testing.T) {
	a, err := Parse(map[string]string{
		"candor.dev/class":          "sensitive",
		"candor.dev/period":         "20ms",
		"candor.dev/burst":          "auto",
		"burst.candor.dev/log":      "20ms",
		"class.candor.dev/log":      "flexible",
		"on-resize.candor.dev/web":  "signal:HUP",
		"kubernetes.io/config.hash": "x",
		"notcandor.dev/class":       "another domain",
	})
	if err != nil {
		t.Fatal(err)
	}
	if web := a.For("web"); *web.Class != hybrid.Sensitive || *web.OnResize != "signal:HUP" || *web.Period != 20*time.Millisecond || web.Burst.String() != "auto" {
		t.Errorf("web: %v %v %v", *web.Class, *web.OnResize, *web.Period)
	}
	if log := a.For("log"); *log.Class != hybrid.Flexible || log.OnResize != nil || log.Burst.String() != "20ms" {
		t.Errorf("log: %v %v", *log.Class, log.OnResize)
	}
}

// TestInvalidAnnotations: the error of an invalid annotation is a short line that names the accepted values.
func TestInvalidAnnotations(t *testing.T) {
	for _, test := range []struct{ key, value, want string }{
		{"candor.dev/class", "sensitve", `annotation candor.dev/class: class "sensitve": must be one of sensitive, flexible`},
		{"candor.dev/klass", "sensitive", `unknown setting "klass": must be one of burst, class, env, helpers, movable,`},
		{"candor.dev/", "x", `unknown setting ""`},
		{"candor.dev", "x", `unknown setting ""`},
		{"klass.candor.dev/web", "x", `annotation klass.candor.dev/web: unknown setting "klass"`},
		{"class.candor.dev/", "sensitive", "must be class.candor.dev/NAME"},
		{"class.candor.dev", "sensitive", "must be class.candor.dev/NAME"},
		{"candor.dev/policy", "Strict", "strict, best-effort"},
		{"candor.dev/view", "", "must be affinity, cpu, full or full+stat"},
		{"candor.dev/topology", "numa", "prefer, single-numa, single-l3, whole-cores, none"},
		{"candor.dev/period", "100", "must be 1ms to 1s"},
		{"candor.dev/period", "2s", "must be 1ms to 1s"},
		{"candor.dev/period", "-20ms", "must be 1ms to 1s"},
		{"candor.dev/period", "1500500ns", "whole microseconds"},
		{"candor.dev/burst", "much", `burst "much": must be none, kernel, quota, auto, or 0s to the quota`},
		{"candor.dev/burst", "-1ms", "must be none, kernel, quota, auto"},
		{"candor.dev/helpers", "Charge", `annotation candor.dev/helpers: helpers "Charge": must be show, place or charge`},
		{"candor.dev/movable", "yes", `"yes": must be true or false`},
		{"candor.dev/env", "1", `"1": must be true or false`},
		{"candor.dev/preserve", "TRUE", "must be true or false"},
		{"candor.dev/on-resize", "exec:rm -rf /", "cannot run commands on its node"},
		{"candor.dev/on-resize", "signal:KILL", "must be none or signal:NAME"},
		{"candor.dev/a\nb", "x", `annotation "candor.dev/a\nb": unknown setting "a\nb"`},
		{"a\nb.candor.dev/", "x", `must be "a\nb.candor.dev/NAME"`},
		{"candor.dev/class", strings.Repeat("x", 5000), "must be one of sensitive"},
	} {
		_, err := Parse(map[string]string{test.key: test.value})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s=%.40q: got %v, want %q", test.key, test.value, err, test.want)
		} else if strings.Contains(err.Error(), "\n") || len(err.Error()) > 300 {
			t.Errorf("%s: want a single short line, got %q", test.key, err)
		}
	}
}

// TestFirstErrorByName: of several invalid annotations, Parse always reports the first by name.
func TestFirstErrorByName(t *testing.T) {
	bad := map[string]string{}
	for _, name := range Names() {
		bad[PodKey(name)] = "?"
	}
	for range 20 {
		if _, err := Parse(bad); err == nil || !strings.Contains(err.Error(), PodKey(Names()[0])) {
			t.Fatal(err)
		}
	}
}

// TestResolveOrder sets the topology policy in all four places and removes the places in order. Each time,
// the next place decides.
func TestResolveOrder(t *testing.T) {
	set := func(v string) (s Settings) {
		if err := s.Set("topology", v); err != nil {
			t.Fatal(err)
		}
		return s
	}
	all := map[string]string{ContainerKey("topology", "web"): "single-numa", PodKey("topology"): "single-l3"}
	namespace, node := set("whole-cores"), set("none")
	for _, want := range []hybrid.TopologyPolicy{hybrid.SingleNUMA, hybrid.SingleL3, hybrid.WholeCores, hybrid.NoTopology} {
		a, err := Parse(all)
		if err != nil {
			t.Fatal(err)
		}
		if got := *Resolve(a, "web", namespace, node).Topology; got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		switch {
		case len(all) > 0:
			delete(all, slices.Sorted(maps.Keys(all))[len(all)-1])
		default:
			namespace = Settings{}
		}
	}
	if got := Resolve(Annotations{}, "web", Settings{}, Settings{}); got != (Settings{}) {
		t.Errorf("without settings: got %+v, want no setting", got)
	}
}

// TestResolveHelpers: the annotation of a container precedes the pod's annotation, and no annotation lowers the level of the namespace
// or the node.
func TestResolveHelpers(t *testing.T) {
	set := func(v string) (s Settings) {
		if v == "" {
			return s
		}
		if err := s.Set("helpers", v); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct{ container, pod, namespace, node, want string }{
		{"show", "charge", "", "", "show"},
		{"", "charge", "", "show", "charge"},
		{"show", "", "place", "", "place"},
		{"show", "place", "", "charge", "charge"},
		{"", "show", "charge", "place", "charge"},
		{"", "", "place", "show", "place"},
	} {
		a := Annotations{Pod: set(c.pod), Containers: map[string]Settings{"web": set(c.container)}}
		if got := Resolve(a, "web", set(c.namespace), set(c.node)).Helpers; got == nil || got.String() != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}

// maxError is the maximum length of an error in bytes.
const maxError = 700

// TestParseManyAnnotations: Parse refuses settings of more than maxSize bytes, which bounds its time and
// memory. Other annotations do not count.
func TestParseManyAnnotations(t *testing.T) {
	many := map[string]string{}
	for i := range 100_000 {
		many[fmt.Sprintf("class.candor.dev/c%d", i)] = "sensitive"
	}
	if a, err := Parse(many); err == nil || len(err.Error()) > maxError || len(a.Containers) != 0 || !strings.Contains(err.Error(), "the maximum is 65536") {
		t.Errorf("%.200v", err)
	}
	ignored := map[string]string{"x/y": strings.Repeat("x", 1<<22), HintKey: strings.Repeat("x", 1<<22), "candor.dev/class": "sensitive"}
	if a, err := Parse(ignored); err != nil || a.Pod.Class == nil {
		t.Errorf("large annotations that are not settings: got %.200v, want no error", err)
	}
	for _, size := range []int{maxSize, maxSize + 1} {
		key := "candor.dev/class"
		_, err := Parse(map[string]string{key: strings.Repeat("x", size-len(key))})
		if isTooMany := err != nil && strings.Contains(err.Error(), "the maximum is"); isTooMany != (size > maxSize) {
			t.Errorf("%d bytes: got %.200v, want an error above %d bytes", size, err, maxSize)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("candor.dev/class", "sensitive")
	f.Add("period.candor.dev/web", "20ms")
	f.Add("on-resize.candor.dev/a", "signal:USR1")
	f.Add("view.candor.dev/", "exec:")
	long := strings.Repeat("\x1b\n", 10_000)
	for _, name := range Names() {
		f.Add(PodKey(name), long)
	}
	f.Add(PodKey(long), "x")
	f.Add(ContainerKey(long, long), "x")
	f.Add(ContainerKey("class", long), "x")
	f.Add(HintKey, long)
	f.Fuzz(func(t *testing.T, key, value string) {
		a, err := Parse(map[string]string{key: value})
		isSetting := key != HintKey && strings.HasPrefix(key, Domain+"/") || key == Domain || strings.HasSuffix(strings.SplitN(key, "/", 2)[0], "."+Domain)
		isSet := a.Pod != (Settings{}) || len(a.Containers) > 0
		if err != nil && (strings.ContainsAny(err.Error(), "\n\r\x1b") || len(err.Error()) > maxError) {
			t.Errorf("%.99q=%.99q: want a single short line, got %q", key, value, err)
		}
		switch {
		case err != nil && isSet:
			t.Errorf("%.99q=%.99q: both an error and settings", key, value)
		case !isSetting && (err != nil || isSet):
			t.Errorf("%.99q=%.99q: parsed as a setting of Candor (%v)", key, value, err)
		case isSetting && err == nil && !isSet:
			t.Errorf("%.99q=%.99q: neither a setting nor an error", key, value)
		}
	})
}

// TestHighestHelpers: the highest level of accounting counts, whichever source has it.
func TestHighestHelpers(t *testing.T) {
	level := func(word string) (s Settings) {
		if word != "" {
			if err := s.Set("helpers", word); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	for _, c := range []struct{ pod, node, want string }{
		{"", "", ""}, {"", "place", "place"}, {"charge", "", "charge"},
		{"show", "charge", "charge"}, {"charge", "place", "charge"}, {"place", "place", "place"},
	} {
		got := Resolve(Annotations{Pod: level(c.pod)}, "web", Settings{}, level(c.node)).Helpers
		if (got == nil) != (c.want == "") || got != nil && got.String() != c.want {
			t.Errorf("pod %q, node %q: got %v, want %q", c.pod, c.node, got, c.want)
		}
	}
}
