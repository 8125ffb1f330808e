package kubernetes

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A restriction is a setting that pods may have in the namespace spark only, as testdata/publish.yaml of the chart has it.
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

// Each setting that takes from other containers is refused outside of its namespaces, on each way to a pod.
func TestRestrictedSettings(t *testing.T) {
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
		})
	}
}

// changes checks updates of the pod of that name in the namespace other, whose value is harmless.
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
		p.try("PUT", path+at, adminToken, p.changed(t, path, with("candor.dev/"+r.setting, r.refused)))
	}
	if is := p.must(t, "GET", path, nil); strings.Contains(is, fmt.Sprintf(`"candor.dev/%s":%q`, r.setting, r.refused)) {
		t.Errorf("the pod has the refused value: %s", is)
	}
	notes := map[string]string{"candor.dev/" + r.setting: r.refused, r.setting + ".candor.dev/app": r.refused}
	call{"scheduler", tokenOf(t, p, scheduler, ""), "POST", path + "/binding", bindingOf(name, notes), http.StatusCreated, ""}.do(t, p)
	call{"from before", adminToken, "PUT", path, p.changed(t, path, with("example.com/other", "again")), http.StatusOK, ""}.do(t, p)
	call{"from before", adminToken, "DELETE", path + "?gracePeriodSeconds=0", nil, http.StatusOK, ""}.do(t, p)
}
