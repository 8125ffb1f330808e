package kubernetes

import (
	"fmt"
	"net/http"
	"testing"
)

const notHere = "pods of this namespace may not be sensitive"

var (
	sensitivePod       = map[string]string{"candor.dev/class": "sensitive"}
	sensitiveContainer = map[string]string{"class.candor.dev/app": "sensitive"}
)

// TestSensitiveNamespaces: pods can choose the class sensitive only in the namespaces that the administrator allows, and profiles can set the
// class only there.
func TestSensitiveNamespaces(t *testing.T) {
	p := install(t)
	const may, mayNot = "/api/v1/namespaces/spark/pods", "/api/v1/namespaces/other/pods"
	for _, c := range []call{
		{"there", adminToken, "POST", may, pod("whole", sensitivePod, ""), http.StatusCreated, ""},
		{"there", adminToken, "POST", may, pod("one", sensitiveContainer, ""), http.StatusCreated, ""},
		{"there", adminToken, "POST", profilesOf("spark"), profileOf(t, "p", "sensitive"), http.StatusCreated, ""},
		{"elsewhere", adminToken, "POST", mayNot, pod("whole", sensitivePod, ""), http.StatusForbidden, notHere},
		{"elsewhere", adminToken, "POST", mayNot, pod("one", sensitiveContainer, ""), http.StatusForbidden, notHere},
		{"elsewhere", adminToken, "POST", profilesOf("other"), profileOf(t, "p", "sensitive"), http.StatusForbidden, notHere},
		{"elsewhere", adminToken, "POST", mayNot, pod("flexible", map[string]string{"candor.dev/class": "flexible", "a": "sensitive"}, ""), http.StatusCreated, ""},
		{"elsewhere", adminToken, "POST", mayNot, pod("silent", nil, ""), http.StatusCreated, ""},
		{"elsewhere", adminToken, "POST", profilesOf("other"), profileOf(t, "p", "flexible"), http.StatusCreated, ""},
		{"scheduler", tokenOf(t, p, scheduler, ""), "POST", mayNot + "/silent/binding", bindingOf("silent", sensitivePod), http.StatusCreated, ""},
	} {
		c.do(t, p)
	}
}

// TestSensitiveBefore: a pod that was sensitive before the restriction, or by the administrator's defaults, continues and can be deleted. The
// policies judge only the settings that a change adds.
func TestSensitiveBefore(t *testing.T) {
	p := install(t)
	const pods = "/api/v1/namespaces/other/pods"
	held := func(m map[string]any) { m["finalizers"] = []string{"example.com/held"} }
	free := func(m map[string]any) { m["finalizers"] = nil }
	says := func(key string) func(m map[string]any) {
		return func(m map[string]any) { m["annotations"].(map[string]any)[key] = "sensitive" }
	}
	call{"administrator", adminToken, "POST", pods, pod("before", nil, ""), http.StatusCreated, ""}.do(t, p)
	call{"scheduler", tokenOf(t, p, scheduler, ""), "POST", pods + "/before/binding", bindingOf("before", sensitivePod), http.StatusCreated, ""}.do(t, p)
	for _, c := range []struct {
		path   string
		change func(map[string]any)
		code   int
		want   string
	}{
		{"/before", held, http.StatusOK, ""},
		{"/before/status", func(map[string]any) {}, http.StatusOK, ""},
		{"/before", says("class.candor.dev/app"), http.StatusForbidden, notHere},
		{"/before/status", says("class.candor.dev/app"), http.StatusForbidden, notHere},
		{"/before", free, http.StatusOK, ""},
		{"/before", func(m map[string]any) { delete(m, "annotations") }, http.StatusOK, ""},
		{"/before", func(m map[string]any) { m["annotations"] = sensitivePod }, http.StatusForbidden, notHere},
	} {
		call{"administrator", adminToken, "PUT", pods + c.path, p.changed(t, pods+"/before", c.change), c.code, c.want}.do(t, p)
	}
}

// TestSensitiveByBinding: a binding, which can add annotations to its pod, cannot make a pod sensitive outside of these namespaces, by the
// current and by the old path of the API.
func TestSensitiveByBinding(t *testing.T) {
	p := install(t)
	const pods = "/api/v1/namespaces/other/pods"
	call{"somebody", adminToken, "POST", pods, pod("unbound", nil, ""), http.StatusCreated, ""}.do(t, p)
	for _, path := range []string{pods + "/unbound/binding", "/api/v1/namespaces/other/bindings"} {
		for _, notes := range []map[string]string{sensitivePod, sensitiveContainer} {
			call{"somebody", adminToken, "POST", path, bindingOf("unbound", notes), http.StatusForbidden, notHere}.do(t, p)
		}
	}
	call{"somebody", adminToken, "POST", pods + "/unbound/binding", bindingOf("unbound", nil), http.StatusCreated, ""}.do(t, p)
}

// TestSensitiveByLabel: the label of a namespace, which sets the class of its pods, cannot make them sensitive outside of these namespaces.
func TestSensitiveByLabel(t *testing.T) {
	p := install(t)
	path := places["Namespace"]
	says := func(class string) func(m map[string]any) {
		return func(m map[string]any) { m["labels"].(map[string]any)["candor.dev/class"] = class }
	}
	change := func(name string, how func(m map[string]any)) []byte { return p.changed(t, path+"/"+name, how) }
	for _, c := range []call{
		{"administrator", adminToken, "POST", path, namespaceOf("third", "sensitive"), http.StatusForbidden, notHere},
		{"administrator", adminToken, "POST", path, namespaceOf("third", "flexible"), http.StatusCreated, ""},
		{"administrator", adminToken, "PUT", path + "/other", change("other", says("sensitive")), http.StatusForbidden, notHere},
		{"administrator", adminToken, "PUT", path + "/spark", change("spark", says("sensitive")), http.StatusOK, ""},
		{"administrator", adminToken, "PUT", path + "/other", change("other", says("flexible")), http.StatusOK, ""},
	} {
		c.do(t, p)
	}
}

func namespaceOf(name, class string) []byte {
	return fmt.Appendf(nil, `{"metadata":{"name":%q,"labels":{"candor.dev/class":%q}}}`, name, class)
}

// TestSensitiveProfilesBefore: profiles and namespaces that set the class before the restriction can change in other fields, and cannot extend
// the class to more pods.
func TestSensitiveProfilesBefore(t *testing.T) {
	p := install(t)
	profiles, namespace := profilesOf("other"), places["Namespace"]+"/before"
	for _, name := range []string{"candor-sensitive-profiles", "candor-sensitive-namespaces"} {
		p.must(t, "DELETE", places["ValidatingAdmissionPolicyBinding"]+"/"+name, nil)
	}
	made := func(path string, body []byte) func() bool {
		return func() bool { code, _ := p.try("POST", path, adminToken, body); return code == http.StatusCreated }
	}
	eventually(t, "profiles may say it everywhere", made(profiles, profileOf(t, "before", "sensitive")))
	eventually(t, "namespaces may say it", made(places["Namespace"], namespaceOf("before", "sensitive")))
	install(t)
	images := func(which string) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"candor.dev/v1alpha1","kind":"CPUProfile","metadata":{"name":"before"},"spec":{"images":[%q],"class":"sensitive"}}`, which)
	}
	label := func(m map[string]any) { m["labels"] = map[string]string{"a": "b", "candor.dev/class": "sensitive"} }
	for _, c := range []call{
		{"administrator", adminToken, "PUT", profiles + "/before", p.changed(t, profiles+"/before", label), http.StatusOK, ""},
		{"administrator", adminToken, "PATCH", profiles + "/before?fieldManager=t&force=true", images("other"), http.StatusForbidden, notHere},
		{"administrator", adminToken, "DELETE", profiles + "/before", nil, http.StatusOK, ""},
		{"administrator", adminToken, "PUT", namespace, p.changed(t, namespace, label), http.StatusOK, ""},
	} {
		c.do(t, p)
	}
}
