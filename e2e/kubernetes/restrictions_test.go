package kubernetes

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A restriction is a setting that only pods in the namespace spark may have, as in testdata/publish.yaml of the chart.
type restriction struct {
	policy, setting string
	refused         string // value
	harmless        string // value
	message         string
	inProfiles      bool
}

var restrictions = []restriction{
	{"sensitive", "class", "sensitive", "flexible", "may not be sensitive", true},
	{"preserve", "preserve", "true", "false", "may not be preserved", false},
	{"view", "view", "full", "affinity", "may not ask for a full view", true},
	{"topology", "topology", "single-l3", "prefer", "may not have a topology policy", true},
	{"burst", "burst", "auto", "none", "may not burst", true},
	{"period", "period", "1ms", "100ms", "may not have a period", false},
}

// profile returns a CPUProfile with the setting.
func (r restriction) profile(name, value string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"candor.dev/v1alpha1","kind":"CPUProfile","metadata":{"name":%q},"spec":{"images":["*"],%q:%q}}`, name, r.setting, value)
}

// namespace returns a namespace with the setting as a label.
func (r restriction) namespace(name, value string) []byte {
	return fmt.Appendf(nil, `{"metadata":{"name":%q,"labels":{"candor.dev/%s":%q}}}`, name, r.setting, value)
}

// TestRestrictions: outside of its namespaces, each setting that takes CPUs or time from other containers is refused, by each request that
// sets it.
func TestRestrictions(t *testing.T) {
	p := install(t)
	for _, r := range restrictions {
		t.Run(r.setting, func(t *testing.T) {
			const may, mayNot = "/api/v1/namespaces/spark/pods", "/api/v1/namespaces/other/pods"
			forPod, forOne, name := "candor.dev/"+r.setting, r.setting+".candor.dev/app", "restricted-"+r.setting
			notes := func(key, value string) map[string]string { return map[string]string{key: value} }
			for _, c := range []call{
				{"there", adminToken, "POST", may, pod(name, notes(forPod, r.refused), ""), http.StatusCreated, ""},
				{"there", adminToken, "POST", may, pod(name+"-1", notes(forOne, r.refused), ""), http.StatusCreated, ""},
				{"elsewhere", adminToken, "POST", mayNot, pod(name, notes(forPod, r.refused), ""), http.StatusForbidden, r.message},
				{"elsewhere", adminToken, "POST", mayNot, pod(name, notes(forOne, r.refused), ""), http.StatusForbidden, r.message},
				{"unknown value", adminToken, "POST", mayNot, pod(name, notes(forPod, strings.ToUpper(r.refused)), ""), http.StatusForbidden, r.message},
				{"empty value", adminToken, "POST", mayNot, pod(name, notes(forPod, ""), ""), http.StatusForbidden, r.message},
				{"other domain", adminToken, "POST", mayNot + "?dryRun=All", pod(name, notes("example.com/"+r.setting, r.refused), ""), http.StatusCreated, ""},
				{"harmless", adminToken, "POST", mayNot, pod(name, notes(forPod, r.harmless), ""), http.StatusCreated, ""},
				{"binding", adminToken, "POST", mayNot + "/" + name + "/binding", bindingOf(name, notes(forPod, r.refused)), http.StatusForbidden, r.message},
				{"binding", adminToken, "POST", "/api/v1/namespaces/other/bindings", bindingOf(name, notes(forOne, r.refused)), http.StatusForbidden, r.message},
				{"namespace", adminToken, "POST", places["Namespace"], r.namespace(name, r.refused), http.StatusForbidden, r.message},
				{"namespace", adminToken, "POST", places["Namespace"], r.namespace(name, r.harmless), http.StatusCreated, ""},
			} {
				c.do(t, p)
			}
			if r.inProfiles {
				call{"there", adminToken, "POST", profilesOf("spark"), r.profile(name, r.refused), http.StatusCreated, ""}.do(t, p)
				call{"elsewhere", adminToken, "POST", profilesOf("other"), r.profile(name, r.refused), http.StatusForbidden, r.message}.do(t, p)
				call{"harmless", adminToken, "POST", profilesOf("other"), r.profile(name, r.harmless), http.StatusCreated, ""}.do(t, p)
			}
			r.changes(t, p, name)
			r.relabels(t, p, name)
		})
	}
}

// changes checks updates of a pod in the namespace other whose value is harmless.
func (r restriction) changes(t *testing.T, p *controlPlane, name string) {
	t.Helper()
	path := "/api/v1/namespaces/other/pods/" + name
	with := func(key, value string) func(m map[string]any) {
		return func(m map[string]any) { m["annotations"].(map[string]any)[key] = value }
	}
	for _, c := range []struct {
		at     string
		change func(m map[string]any)
		code   int
		want   string
	}{
		{"", with("candor.dev/"+r.setting, r.refused), http.StatusForbidden, r.message},
		{"", with(r.setting+".candor.dev/late", r.refused), http.StatusForbidden, r.message},
		{"", with(r.setting+".candor.dev/late", ""), http.StatusForbidden, r.message},
		{"/status", with("candor.dev/"+r.setting, r.refused), http.StatusForbidden, r.message},
		{"", with("example.com/other", r.refused), http.StatusOK, ""},
	} {
		call{"administrator", adminToken, "PUT", path + c.at, p.changed(t, path, c.change), c.code, c.want}.do(t, p)
	}
	// The API server drops annotations that come by these ways.
	for _, at := range []string{"/resize", "/ephemeralcontainers"} {
		call{"administrator", adminToken, "PUT", path + at, p.changed(t, path, with("candor.dev/"+r.setting, r.refused)), http.StatusOK, ""}.do(t, p)
	}
	if is := p.must(t, "GET", path, nil); strings.Contains(is, fmt.Sprintf(`"candor.dev/%s":%q`, r.setting, r.refused)) {
		t.Errorf("the pod has the refused value: %s", is)
	}
	notes := map[string]string{"candor.dev/" + r.setting: r.refused, r.setting + ".candor.dev/app": r.refused}
	call{"scheduler", tokenOf(t, p, scheduler, ""), "POST", path + "/binding", bindingOf(name, notes), http.StatusCreated, ""}.do(t, p)
	call{"from before", adminToken, "PUT", path, p.changed(t, path, with("example.com/other", "again")), http.StatusOK, ""}.do(t, p)
	call{"from before", adminToken, "DELETE", path + "?gracePeriodSeconds=0", nil, http.StatusOK, ""}.do(t, p)
}

// relabels checks updates of a namespace, by each request that changes labels.
func (r restriction) relabels(t *testing.T, p *controlPlane, name string) {
	t.Helper()
	path := places["Namespace"] + "/" + name
	with := func(value string) func(m map[string]any) {
		return func(m map[string]any) { m["labels"].(map[string]any)["candor.dev/"+r.setting] = value }
	}
	for _, at := range []string{"", "/status", "/finalize"} {
		call{"administrator", adminToken, "PUT", path + at, p.changed(t, path, with(r.refused)), http.StatusForbidden, r.message}.do(t, p)
		call{"administrator", adminToken, "PUT", path + at, p.changed(t, path, with(r.harmless)), http.StatusOK, ""}.do(t, p)
	}
}

// TestManyAnnotations: the API server's time for a rule grows with the square of the number of annotations. Their number has a bound, up to
// which the rules are exact.
func TestManyAnnotations(t *testing.T) {
	p := install(t)
	const pods, many = "/api/v1/namespaces/other/pods", "may not have more than 1,000 annotations"
	notes := map[string]string{}
	for i := range 999 {
		notes[fmt.Sprintf("view.candor.dev/c%d", i)] = "affinity"
	}
	refused := maps.Clone(notes)
	refused["view.candor.dev/last"] = "full"
	call{"author", adminToken, "POST", pods, pod("refused", refused, ""), http.StatusForbidden, "may not ask for a full view"}.do(t, p)
	call{"author", adminToken, "POST", pods, pod("many", notes, ""), http.StatusCreated, ""}.do(t, p)
	more := func(m map[string]any) {
		m["annotations"].(map[string]any)["a"], m["annotations"].(map[string]any)["b"] = "", ""
	}
	call{"author", adminToken, "PUT", pods + "/many", p.changed(t, pods+"/many", more), http.StatusForbidden, many}.do(t, p)
	for i := range 40000 {
		notes[fmt.Sprintf("%x", i)] = ""
	}
	begin := time.Now()
	call{"author", adminToken, "POST", pods, pod("more", notes, ""), http.StatusForbidden, many}.do(t, p)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("41,000 annotations took the API server %v", took)
	}
	binding := bindingOf("many", map[string]string{"candor.dev/view": "full"})
	call{"scheduler", tokenOf(t, p, scheduler, ""), "POST", pods + "/many/binding", binding, http.StatusCreated, ""}.do(t, p)
	label := func(m map[string]any) { m["labels"] = map[string]string{"a": "b"} }
	call{"author", adminToken, "PUT", pods + "/many", p.changed(t, pods+"/many", label), http.StatusOK, ""}.do(t, p)
}
