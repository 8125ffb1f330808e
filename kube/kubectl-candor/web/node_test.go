package web

import (
	"net/http"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpumap"
	"github.com/candor-project/candor/internal/apitest"
	"github.com/candor-project/candor/internal/podname"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// TestNode: a node has the drawing and the style sheet of candor map -o svg, and its containers with the names of their pods.
func TestNode(t *testing.T) {
	report := reportOf(t, "a", 2500, 500)
	s := newTestServer(t, map[string]any{"/api/v1/pods": apitest.List(podOn("shop", "web-0", "a-0", "a"))}, report)
	a := answer[nodeAnswer](t, s.request("GET", "/api/node?name=a", "", ""))
	if len(a.Containers) != 2 || a.Problem != "" || len(a.Notes) != 0 {
		t.Fatalf("%+v", a)
	}
	if want := (nodeContainer{"shop", "web-0", "app", "sensitive", "2500m", "1-2,3:500m", "3"}); a.Containers[0] != want {
		t.Errorf("%+v, want %+v", a.Containers[0], want)
	}
	if got := a.Containers[1]; got.Pod != "" || got.Container != "a-1/app" {
		t.Errorf("%+v, want the UID of a pod that is not listed", got)
	}
	node, err := nodecpu.Node(&report.Status)
	if err != nil {
		t.Fatal(err)
	}
	m := cpumap.FromNode(node)
	m.Names = map[string]podname.Name{"a-0/app": {Namespace: "shop", Pod: "web-0", Container: "app"}}
	var want strings.Builder
	if err := m.UnstyledSVG(&want); err != nil || a.SVG != want.String() || a.Style != cpumap.SVGStyle {
		t.Errorf("%v, another drawing:\n%s\nwant\n%s", err, a.SVG, &want)
	}
}

// TestNodeWithoutPods: a user who cannot list pods sees the UIDs of the pods.
func TestNodeWithoutPods(t *testing.T) {
	s := newTestServer(t, nil, reportOf(t, "a", 500))
	s.access = allowReports{}
	w := s.request("GET", "/api/node?name=a", "", "")
	if a := answer[nodeAnswer](t, w); w.Code != 200 || a.Containers[0].Container != "a-0/app" || len(a.Notes) != 1 {
		t.Errorf("%d, %+v", w.Code, a)
	}
}

// TestBadReports: a report that cannot be used has the reason, with the next step if the agent has given the node back.
func TestBadReports(t *testing.T) {
	for want, change := range map[string]func(*v1alpha1.NodeCPUStatus){
		"report of node cannot be used: bad report: usable: CPUs 8-9 are not online": func(s *v1alpha1.NodeCPUStatus) { s.Usable = "1-9" },
		"no report yet": func(s *v1alpha1.NodeCPUStatus) { *s = v1alpha1.NodeCPUStatus{} },
		"no report yet: Candor has given the node's containers back (giveBack of the chart)": func(s *v1alpha1.NodeCPUStatus) { s.Phase = v1alpha1.GivenBack },
	} {
		report := reportOf(t, "a", 500)
		change(&report.Status)
		s := newTestServer(t, nil, report)
		if a := answer[nodeAnswer](t, s.request("GET", "/api/node?name=a", "", "")); a.Problem != want || a.SVG != "" {
			t.Errorf("%q, want %q", a.Problem, want)
		}
	}
}

// hostile are names that a tenant or an attacker could choose.
var hostile = []string{`<img src=x onerror=alert(1)>`, "\u202eevil", strings.Repeat("n", 253), `"><script>alert(1)</script>`, "a\x1b[2Jb"}

// TestHostileNames: names are JSON strings of an answer that no browser takes for a page, and texts of the drawing.
func TestHostileNames(t *testing.T) {
	for _, name := range hostile {
		s := newTestServer(t, map[string]any{"/api/v1/pods": apitest.List(podOn(name, name, "a-0", "a"))}, reportOf(t, "a", 500))
		w := s.request("GET", "/api/node?name=a", "", "")
		a := answer[nodeAnswer](t, w)
		if w.Header().Get("Content-Type") != "application/json" || a.Containers[0].Pod != name {
			t.Errorf("%v, %+v", w.Header(), a.Containers)
		}
		if strings.Contains(a.SVG, "<img") || strings.Contains(a.SVG, "<script") || strings.ContainsAny(a.SVG, "\u202e\x1b") {
			t.Errorf("the drawing has the name %q as it is:\n%s", name, a.SVG)
		}
	}
}

// TestSearch: a search finds pods by parts of namespace/name. Waiting pods come first. The list of pods serves several searches.
func TestSearch(t *testing.T) {
	var pods []object
	for range 3 * maxFound {
		pods = append(pods, podOn("many", "same", "u", "b"))
	}
	ended := podOn("shop", "web-ended", "e", "a")
	ended["status"] = object{"phase": "Succeeded"}
	pods = append(pods, podOn("shop", "web-0", "1", "a"), podOn("shop", "web-1", "2", ""), podOn("other", "web", "3", "b"), ended)
	objects := map[string]any{"/api/v1/pods": apitest.List(pods...)}
	s := newTestServer(t, objects, reportOf(t, "a"))
	for _, c := range []struct {
		text  string
		pods  string
		total int
		nodes string
	}{
		{"shop/web", "shop/web-1 shop/web-0", 2, "a"},
		{"WEB", "shop/web-1 other/web shop/web-0", 3, "a b"},
		{"none", "", 0, ""},
		{"%3Cimg", "", 0, ""},
		{"many", strings.TrimSpace(strings.Repeat("many/same ", maxFound)), 3 * maxFound, "b"},
	} {
		a := answer[podsAnswer](t, s.request("GET", "/api/pods?q="+c.text, "", ""))
		var found []string
		for _, p := range a.Pods {
			found = append(found, p.Namespace+"/"+p.Pod)
		}
		if strings.Join(found, " ") != c.pods || a.Total != c.total || strings.Join(a.Nodes, " ") != c.nodes {
			t.Errorf("%s: %q, %d, %q", c.text, found, a.Total, a.Nodes)
		}
		objects["/api/v1/pods"] = apitest.List[object]() // the next searches use the first list
	}
}

// pendingCluster returns the objects of a cluster of the nodes one (2.5 of 4 CPUs free) and two (tainted), and a waiting pod of 3
// CPUs.
func pendingCluster(t testing.TB, annotation string) map[string]any {
	t.Helper()
	node := func(name string, spec object) object {
		return object{"metadata": object{"name": name}, "spec": spec, "status": object{"allocatable": object{"cpu": "4", "memory": "8Gi", "pods": "10"}}}
	}
	late := object{
		"metadata": object{"name": "late", "namespace": "shop", "uid": "w", "annotations": object{"candor.dev/class": annotation}},
		"spec":     object{"schedulerName": "candor-scheduler", "containers": []object{{"name": "app", "resources": object{"limits": object{"cpu": "3"}, "requests": object{"cpu": "3"}}}}},
		"status":   object{"phase": "Pending", "conditions": []object{{"type": "PodScheduled", "message": "0/2 nodes are available."}}},
	}
	running := podOn("shop", "web", "one-0", "one")
	running["spec"].(object)["containers"] = []object{{"name": "app", "resources": object{"requests": object{"cpu": "1500m"}, "limits": object{"cpu": "1500m"}}}}
	return map[string]any{
		"/apis/candor.dev/v1alpha1/nodecpus":                    apitest.List(reportOn(t, "core:4", emptySet, "one", 1500), reportOn(t, "core:4", emptySet, "two")),
		"/api/v1/nodes":                                         apitest.List(node("one", object{}), node("two", object{"taints": []object{{"key": "gpu", "effect": "NoSchedule"}}})),
		"/api/v1/pods":                                          apitest.List(running, late),
		"/api/v1/namespaces/shop":                               object{"metadata": object{"name": "shop"}},
		"/api/v1/namespaces/shop/pods/late":                     late,
		"/api/v1/namespaces/shop/pods/web":                      running,
		"/api/v1/namespaces/shop/limitranges":                   apitest.List[object](),
		"/api/v1/namespaces/shop/resourcequotas":                apitest.List[object](),
		"/apis/candor.dev/v1alpha1/namespaces/shop/cpuprofiles": apitest.List[object](),
	}
}

// TestPod: a waiting pod has the reason against each node, in the words of the scheduler. A running pod has its node.
func TestPod(t *testing.T) {
	s := newTestServer(t, pendingCluster(t, "sensitive"), reportOf(t, "one"))
	a := answer[podAnswer](t, s.request("GET", "/api/pod?namespace=shop&name=late", "", ""))
	reasons := map[string]string{}
	for _, n := range a.Nodes {
		reasons[n.Node] = n.Reason
	}
	if a.Node != "" || reasons["one"] != "Insufficient cpu" || reasons["two"] != "node(s) had untolerated taint {gpu}" || !strings.HasPrefix(a.Refusal, "0/2 nodes are available: ") || a.Message != "0/2 nodes are available." {
		t.Errorf("%+v", a)
	}
	if a := answer[podAnswer](t, s.request("GET", "/api/pod?namespace=shop&name=web", "", "")); a.Node != "one" || len(a.Nodes) != 0 {
		t.Errorf("%+v", a)
	}
	s = newTestServer(t, pendingCluster(t, "fast"), reportOf(t, "one"))
	if a := answer[podAnswer](t, s.request("GET", "/api/pod?namespace=shop&name=late", "", "")); len(a.Notes) != 1 || !strings.Contains(a.Notes[0], `class "fast"`) {
		t.Errorf("%+v", a)
	}
	without := pendingCluster(t, "sensitive")
	delete(without, "/apis/candor.dev/v1alpha1/namespaces/shop/cpuprofiles")
	s = newTestServer(t, without, reportOf(t, "one"))
	if w := s.request("GET", "/api/pod?namespace=shop&name=late", "", ""); w.Code != http.StatusBadGateway || !strings.Contains(answer[failure](t, w).Error, "install Candor's definitions") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
