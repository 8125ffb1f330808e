package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/candor-project/candor/kube/v1alpha1"
)

// A call is a request to the API server by a user, with the expected result.
type call struct {
	who, token   string
	method, path string
	body         []byte
	code         int
	want         string // in the answer
}

func (c call) do(t *testing.T, p *controlPlane) {
	t.Helper()
	code, answer := p.try(c.method, c.path, c.token, c.body)
	if code != c.code || !strings.Contains(answer, c.want) {
		t.Errorf("%s: %s %s: %d %.300s\nwant %d %q", c.who, c.method, c.path, code, answer, c.code, c.want)
	}
}

// pod returns a pod with annotations. more has further fields of its spec.
func pod(name string, annotations map[string]string, more string) []byte {
	notes, _ := json.Marshal(annotations) // strings always have a text
	return fmt.Appendf(nil, `{"metadata":{"name":%q,"annotations":%s},"spec":{%s"containers":[{"name":"app","image":"web"}]}}`, name, notes, more)
}

// bindingOf returns a binding of a pod to a node, with annotations for the pod, as a scheduler writes it.
func bindingOf(pod string, annotations map[string]string) []byte {
	notes, _ := json.Marshal(annotations) // strings always have a text
	return fmt.Appendf(nil, `{"metadata":{"name":%q,"annotations":%s},"target":{"kind":"Node","name":"node-a"}}`, pod, notes)
}

// changed returns the object at a path with other metadata.
func (p *controlPlane) changed(t *testing.T, path string, change func(metadata map[string]any)) []byte {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(p.must(t, "GET", path, nil)), &fields); err != nil {
		t.Fatal(err)
	}
	change(fields["metadata"].(map[string]any))
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func profileOf(t *testing.T, name, class string) []byte {
	return object(t, "CPUProfile", name, v1alpha1.CPUProfile{Spec: v1alpha1.CPUProfileSpec{Images: []string{"*"}, Class: class}})
}

// TestOnlyTheAgentWrites: the agent of a node writes the report of that node. No other user can write a report, and the agent can write
// nothing else.
func TestOnlyTheAgentWrites(t *testing.T) {
	p := install(t)
	a, b := agentOf(t, p, "node-a"), agentOf(t, p, "node-b")
	anywhere := tokenOf(t, p, agents, "")
	empty := func(name string) []byte { return object(t, "NodeCPU", name, v1alpha1.NodeCPU{}) }
	const elsewhere = "only the agent of node node-b writes its NodeCPU, not that of node-a"
	for _, c := range []call{
		{"agent of another", a, "POST", nodeCPUs, empty("node-b"), http.StatusForbidden, elsewhere},
		{"agent of no node", anywhere, "POST", nodeCPUs, empty("node-a"), http.StatusForbidden, "a node that its token does not name"},
		{"administrator", adminToken, "POST", nodeCPUs, empty("node-a"), http.StatusForbidden, "only the agent of node node-a"},
		{"agent", a, "POST", nodeCPUs, empty("node-a"), http.StatusCreated, ""},
		{"agent", b, "POST", nodeCPUs, empty("node-b"), http.StatusCreated, ""},
	} {
		c.do(t, p)
	}
	reported := func(name string) []byte {
		var n v1alpha1.NodeCPU
		if err := json.Unmarshal([]byte(p.must(t, "GET", nodeCPUs+"/"+name, nil)), &n); err != nil {
			t.Fatal(err)
		}
		n.Status = report(t, 3)
		return object(t, "NodeCPU", name, n)
	}
	onA, onB := nodeCPUs+"/node-a", nodeCPUs+"/node-b"
	collector, labeled := collectorOf(t, p), object(t, "NodeCPU", "node-a", v1alpha1.NodeCPU{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}})
	for _, c := range []call{
		{"agent of another", a, "PUT", onB + "/status", reported("node-b"), http.StatusForbidden, elsewhere},
		{"agent of no node", anywhere, "PUT", onA + "/status", reported("node-a"), http.StatusForbidden, "does not name"},
		{"administrator", adminToken, "PUT", onA + "/status", reported("node-a"), http.StatusForbidden, "only the agent of node node-a"},
		{"administrator", adminToken, "PUT", onA, reported("node-a"), http.StatusForbidden, "only the agent of node node-a"},
		{"collector", collector, "PUT", onA + "/status", reported("node-a"), http.StatusForbidden, "only the agent of node node-a"},
		{"agent", a, "PUT", onA + "/status", reported("node-a"), http.StatusOK, ""},
		{"collector", collector, "PATCH", onA + "?fieldManager=gc", labeled, http.StatusOK, ""},
		{"agent", a, "GET", "/api/v1/nodes/node-a", nil, http.StatusOK, ""},
		{"agent", a, "GET", nodeCPUs, nil, http.StatusForbidden, "cannot list"},
		{"agent of another", a, "PUT", onB, reported("node-b"), http.StatusForbidden, elsewhere},
		{"agent", a, "DELETE", onB, nil, http.StatusForbidden, "cannot delete"},
		{"agent", a, "GET", "/api/v1/namespaces/candor-system/pods", nil, http.StatusForbidden, "cannot list"},
		{"agent", a, "DELETE", "/api/v1/nodes/node-b", nil, http.StatusForbidden, "cannot delete"},
		{"agent", a, "GET", profilesOf("spark"), nil, http.StatusForbidden, "cannot list"},
	} {
		c.do(t, p)
	}
	for _, c := range []call{
		{"agent", a, "PUT", onA, reported("node-a"), http.StatusOK, ""}, // it takes over the NodeCPU of a former node
		{"administrator", adminToken, "DELETE", onA, nil, http.StatusOK, ""},
		{"administrator", adminToken, "DELETE", onB, nil, http.StatusOK, ""},
	} {
		c.do(t, p)
	}
}

// TestOnlyTheSchedulerHints: only the scheduler can write the hint of a pod, by each request that changes annotations.
func TestOnlyTheSchedulerHints(t *testing.T) {
	p := install(t)
	const pods, refused = "/api/v1/namespaces/other/pods", "only the scheduler writes the annotation candor.dev/hint"
	byScheduler := tokenOf(t, p, scheduler, "")
	hint := func(text string) map[string]string { return map[string]string{"candor.dev/hint": text} }
	changed := func(change func(metadata map[string]any)) []byte { return p.changed(t, pods+"/hinted", change) }
	set := func(annotations map[string]string) []byte {
		return changed(func(m map[string]any) { m["annotations"] = annotations })
	}
	binding := func(annotations map[string]string) []byte { return bindingOf("hinted", annotations) }
	call{"somebody", adminToken, "POST", pods, pod("hinted", hint("x"), ""), http.StatusForbidden, refused}.do(t, p)
	call{"somebody", adminToken, "POST", pods, pod("hinted", map[string]string{"a": "b"}, ""), http.StatusCreated, ""}.do(t, p)
	call{"somebody", adminToken, "PUT", pods + "/hinted", set(hint("x")), http.StatusForbidden, refused}.do(t, p)
	call{"somebody", adminToken, "PUT", pods + "/hinted/status", set(hint("x")), http.StatusForbidden, refused}.do(t, p)
	call{"somebody", adminToken, "POST", pods + "/hinted/binding", binding(hint("x")), http.StatusForbidden, refused}.do(t, p)
	call{"somebody", adminToken, "POST", "/api/v1/namespaces/other/bindings", binding(hint("x")), http.StatusForbidden, refused}.do(t, p)
	call{"scheduler", byScheduler, "POST", pods + "/hinted/binding", binding(hint("y")), http.StatusCreated, ""}.do(t, p)
	if is := p.must(t, "GET", pods+"/hinted", nil); !strings.Contains(is, `"candor.dev/hint":"y"`) || !strings.Contains(is, `"a":"b"`) {
		t.Errorf("bound, it has not both its own annotation and the hint: %s", is)
	}
	call{"somebody", adminToken, "PUT", pods + "/hinted", set(hint("x")), http.StatusForbidden, refused}.do(t, p)
	call{"somebody", adminToken, "PUT", pods + "/hinted", set(nil), http.StatusForbidden, refused}.do(t, p)
	call{"somebody", adminToken, "PUT", pods + "/hinted", changed(func(m map[string]any) { m["labels"] = map[string]string{"a": "b"} }), http.StatusOK, ""}.do(t, p)
	call{"somebody", adminToken, "PUT", pods + "/hinted/status", changed(func(map[string]any) {}), http.StatusOK, ""}.do(t, p)
	call{"scheduler", byScheduler, "PATCH", pods + "/hinted?fieldManager=test", bindingOf("hinted", nil), http.StatusForbidden, "cannot patch"}.do(t, p)
}

// TestChartIsAccepted: the API server accepts each object of the chart with all test values, and knows each field.
func TestChartIsAccepted(t *testing.T) {
	p := install(t)
	files, err := filepath.Glob(strings.Replace(chart, "publish", "*", 1))
	if err != nil || len(files) < 4 {
		t.Fatalf("%v: %q", err, files)
	}
	p.try("DELETE", places["DaemonSet"]+"/candor", adminToken, nil) // or its ports would be there besides those of a file
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p.each(t, string(text), func(path, name string, body []byte) {
			path += "/" + name + "?fieldManager=test&force=true&dryRun=All&fieldValidation=Strict"
			if code, answer := p.try("PATCH", path, adminToken, body); code/100 != 2 {
				t.Errorf("%s: %s: %d %s", file, path, code, answer)
			}
		})
	}
}
