package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/apitest"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/topology"
)

type object = map[string]any

// reportOf returns the NodeCPU of a node with 4 CPUs and sensitive containers with the given limits.
func reportOf(t *testing.T, name string, limits ...hybrid.Milli) v1alpha1.NodeCPU {
	t.Helper()
	machine, err := topology.Parse("core:4")
	if err != nil {
		t.Fatal(err)
	}
	n, err := hybrid.NewNode(machine, hybrid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, limit := range limits {
		r := hybrid.Request{ID: fmt.Sprintf("%s-%d/app", name, i), Class: hybrid.Sensitive, Limit: limit}
		if _, _, err := n.Place(&r); err != nil {
			t.Fatal(err)
		}
	}
	report := v1alpha1.NodeCPU{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: nodecpu.Status(n, nodecpu.HolderOf)}
	report.Status.Counter = 1
	return report
}

// listedNode returns a node as the API server lists it.
func listedNode(name string, spec object) object {
	return object{"metadata": object{"name": name, "labels": object{"host": name}}, "spec": spec,
		"status": object{"allocatable": object{"cpu": "4", "memory": "8Gi", "pods": "10"}, "conditions": []object{{"type": "Ready", "status": "True"}}}}
}

// testCluster returns the API objects of four nodes: one has 2.5 free CPUs, two has free fractions only, three is
// tainted, and four runs without Candor.
func testCluster(t *testing.T) map[string]any {
	t.Helper()
	running := object{"metadata": object{"name": "web", "namespace": "shop", "uid": "one-0"}, "spec": object{"nodeName": "one",
		"affinity":   object{"podAntiAffinity": object{"required": []int{1}}},
		"containers": []object{{"name": "app", "resources": object{"requests": object{"cpu": "1500m"}, "limits": object{"cpu": "1500m"}}}}}}
	waiting := object{"metadata": object{"name": "late", "namespace": "shop", "uid": "w", "annotations": object{"candor.dev/class": "sensitive"}},
		"spec": object{"containers": []object{{"name": "app", "resources": object{"limits": object{"cpu": "3"}, "requests": object{"cpu": "3"}}}}}}
	return map[string]any{
		"/apis/candor.dev/v1alpha1/nodecpus": apitest.List(reportOf(t, "one", 1500), reportOf(t, "two", 600, 600, 600, 600), reportOf(t, "three")),
		"/version":                           object{"major": "1"},
		"/api/v1/nodes": apitest.List(listedNode("one", object{}), listedNode("two", object{}), listedNode("four", object{}),
			listedNode("three", object{"taints": []object{{"key": "gpu", "effect": "NoSchedule"}}})),
		"/api/v1/pods":                                          apitest.List(running, waiting),
		"/api/v1/namespaces/shop":                               object{"metadata": object{"name": "shop"}},
		"/api/v1/namespaces/shop/pods/late":                     waiting,
		"/api/v1/namespaces/shop/pods/web":                      running,
		"/api/v1/namespaces/shop/limitranges":                   apitest.List(object{}),
		"/api/v1/namespaces/shop/resourcequotas":                apitest.List[object](),
		"/apis/candor.dev/v1alpha1/namespaces/shop/cpuprofiles": apitest.List[object](),
	}
}

// inCluster runs a command line with a kubeconfig for an API server that has the objects.
func inCluster(t *testing.T, objects map[string]any, in string, args ...string) (code int, out, errOut string) {
	t.Helper()
	s := apitest.Objects(t, objects)
	file := apitest.Write(t, t.TempDir(), "kubeconfig", strings.Replace(apitest.Kubeconfig(s.URL, apitest.Trust(s), "token: secret"), "user: u}", "user: u, namespace: shop}", 1))
	t.Setenv("KUBECONFIG", file)
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(in), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestPlan(t *testing.T) {
	objects := testCluster(t)
	for _, c := range []struct {
		in   string
		args string
		want string
	}{
		{"", "plan --cpu 1500m", `Pod shop/planned: app sensitive, limit 1500m

NODE   PLACE  ADDS SHARED TIME  MOVES  WHAT IT WOULD HAVE
one    1      0                 0      CPUs 2,3:500m
four   -      -                 -      no Candor on node
three  -      -                 -      node(s) had untolerated taint {gpu}
two    -      -                 -      view impossible (1 whole CPU missing)

It goes to node one.

Not evaluated here, and can change the result (2):
- 1 LimitRange of the namespace: its defaults and bounds
- 1 running pod with anti-affinity, which can exclude nodes
`},
		{"", "plan late", "It waits: 0/4 nodes are available: 1 Insufficient cpu, 1 no Candor on node, 1 no capacity (1400m missing), 1 node(s) had untolerated taint {gpu}."},
		{`{"kind":"Deployment","metadata":{"name":"d"},"spec":{"template":{"metadata":{"annotations":{"candor.dev/class":"sensitive"}},"spec":{
			"tolerations":[{"operator":"Exists"}],"nodeSelector":{"host":"three"},"affinity":{"nodeAffinity":{"x":1}},
			"containers":[{"name":"app","ports":[{"hostPort":80}],"resources":{"limits":{"cpu":"3500m"}}},{"name":"log","resources":{"requests":{"cpu":"100m"}}}]}}}}`,
			"plan -f -", "three  1      500m              0      app: CPUs 0-2,3:500m; log: shared 3"},
		{"", "plan --cpu 1 --class flexible --request 500m", "four   1      0                 0      no Candor there: what the kubelet gives"},
	} {
		code, out, errOut := inCluster(t, objects, c.in, strings.Fields(c.args)...)
		if code != 0 || errOut != "" || !strings.Contains(out, c.want) {
			t.Errorf("kubectl candor %s: %d, %s\n%s\nwant %s", c.args, code, errOut, out, c.want)
		}
	}
	_, out, _ := inCluster(t, objects, `{"kind":"Pod","spec":{"affinity":{"podAffinity":{"x":1}},"topologySpreadConstraints":[{}],"schedulingGates":[{"name":"g"}],
		"runtimeClassName":"kata","priorityClassName":"high","resourceClaims":[{}],"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}],"tolerations":[{"key":"k","operator":"Gt"}],
		"containers":[{"name":"app","ports":[{"hostPort":80}]}]}}`, "plan", "-f", "-", "-o", "json")
	for _, want := range []string{"affinity to other pods", "topologySpreadConstraints", "schedulingGates", "runtimeClassName", "priorityClassName", "resourceClaims", "1 volume", "1 host port", `operator \"Gt\"`, "class of container app", `"node": "`} {
		if !strings.Contains(out, want) {
			t.Errorf("%s\nwant %s", out, want)
		}
	}
}

// TestBadInput: bad input exits with code 2 and a missing object with code 1, both with an error
// of a single line.
func TestBadInput(t *testing.T) {
	objects := testCluster(t)
	without := maps.Clone(objects)
	maps.DeleteFunc(without, func(path string, _ any) bool { return strings.Contains(path, "candor.dev") })
	for _, c := range []struct {
		objects map[string]any
		line    string
		code    int
		want    string
	}{
		{objects, "plan", 2, "must have one of POD, -f FILE and --cpu CPU"},
		{objects, "plan a --cpu 1", 2, "must have one of POD"},
		{objects, "plan a b", 2, "2 arguments: must be at most 1, the POD"},
		{objects, "plan --cpu 1 -o svg", 2, `--output "svg": must be one of table, wide, json`},
		{objects, "plan --class flexible -f x", 2, "--class: add --cpu"},
		{objects, "plan --cpu much", 2, `--cpu "much": `},
		{objects, "plan --cpu 1 --memory much", 2, `--memory "much": must be an amount such as 512Mi`},
		{objects, "plan --cpu 1 --request 2", 2, "--request 2: must be at most --cpu, with --class flexible"},
		{objects, "plan --cpu 1 --context no", 2, `context "no" does not exist`},
		{objects, "plan --cpu 1 --kubeconfig /none", 2, "/none: no such file"},
		{objects, "plan --cpu 1 -n ../x", 2, `"../x": must be the name of a namespace`},
		{objects, "plan --cpu 1 -n none", 1, `no namespace "none"`},
		{objects, "plan a/b", 2, `pod "a/b": must be the name of a pod`},
		{objects, "plan web", 2, "pod web: is on node one: must be a pending pod"},
		{objects, "plan none", 1, "not found"},
		{objects, "plan -f /none", 2, "-f: open /none: no such file"},
		{without, "plan --cpu 1", 1, "the cluster does not know NodeCPUs: install Candor's definitions: kubectl apply"},
		{without, "map", 1, "the cluster does not know NodeCPUs"},
		{objects, "map five", 2, `no node "five"`},
		{objects, "map -o svg", 2, "-o svg: a picture shows one node"},
		{objects, "map -o svg four", 2, "node four: no Candor on node"},
		{objects, "nodes five", 2, `no node "five"`},
		{objects, "audit x", 2, `argument "x": the command takes no arguments`},
		{objects, "nodes --cpu 5m", 2, "--cpu 5m: must be 10m to 1024"},
		{objects, "why", 2, "0 arguments: must be 1, the POD"},
		{objects, "why none", 1, "not found"},
		{objects, "fits", 2, "missing -f; must be the manifest"},
		{objects, "fits -f /none", 2, "no such file"},
		{objects, "fits -f /none --replicas 0", 2, "--replicas 0: must be 1 to 100000"},
		{objects, "audit --timeout 1h", 2, "--timeout 1h0m0s: must be 1s to 1m50s"},
		{objects, "audit --timeout soon", 2, `--timeout "soon": must be a duration such as`},
		{objects, "audit --rows many", 2, `--rows "many": must be a whole number`},
		{objects, "plan --cpu 1 --class fast", 2, `--class "fast": `},
		{objects, "audit --helpers 1m", 2, "--helpers 1m0s: must be 0 to 30s"},
		{objects, "audit -l a=b=c", 2, "--selector"},
		{objects, "audit", 2, "missing --image; must be the image of candor"},
		{objects, "audit --node five", 2, `--node "five": no such Linux node`},
		{objects, "top --interval 1h", 2, "--interval 1h0m0s: must be 100ms to 1m0s"},
		{objects, "top", 1, "no agent of Candor runs on these nodes"},
		{objects, "doctor", 1, "no agent of Candor runs on these nodes"},
		{objects, "profile validate", 2, "missing -f; must be the manifest"},
		{objects, "profile test -f /none", 2, "no such file"},
		{objects, "profile apply", 2, `unknown command "apply"; use validate or test`},
		{objects, "drain", 2, `unknown command "drain"; kubectl candor --help`},
		{objects, "nodes --frobnicate", 2, "unknown flag: --frobnicate; kubectl candor nodes --help lists the flags"},
	} {
		code, out, errOut := inCluster(t, c.objects, "", strings.Fields(c.line)...)
		if code != c.code || out != "" || !strings.Contains(errOut, c.want) || strings.Count(errOut, "\n") != 1 || strings.Contains(errOut, "secret") {
			t.Errorf("kubectl candor %s: code %d, %q, %q; want %d, %q", c.line, code, out, errOut, c.code, c.want)
		}
	}
	if code, out, errOut := inCluster(t, objects, "", "plan", "-f", ""); code != 2 || out != "" || !strings.Contains(errOut, "must have one of POD") {
		t.Errorf("-f with an empty value: code %d, %q, %q", code, out, errOut)
	}
	for in, want := range map[string]string{
		"":                    "0 objects with pods",
		"kind: Pod":           "the pod has no spec",
		"kind: [":             "yaml",
		"kind: Pod\nspec: {}": "the pod has no containers",
		"kind: Pod\nspec: {containers: [{name: a}, {name: a}]}":                                         "must have a name of its own",
		"kind: Pod\nspec: {containers: [{name: \"a\\nb\", resources: {limits: {cpu: 3000}}}]}":          `container "a\nb": must`,
		"kind: Pod\nspec: {containers: [{name: a, resources: {limits: {cpu: much}}}]}":                  "manifest: ",
		"kind: Pod\nspec: {containers: [{name: a, resources: {limits: {cpu: -1}}}]}":                    "less than nothing",
		"kind: Pod\nspec: {containers: [{name: a, resources: {limits: {cpu: 1}, requests: {cpu: 2}}}]}": "more CPU than its limit",
	} {
		code, out, errOut := inCluster(t, objects, in, "plan", "-f", "-")
		if code != 2 || out != "" || !strings.Contains(errOut, want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%q: code %d, %q, %q; want %q", in, code, out, errOut, want)
		}
	}
}

func TestMap(t *testing.T) {
	objects := testCluster(t)
	_, out, errOut := inCluster(t, objects, "", "map")
	for _, want := range []string{"Node four: no Candor on node\n", "Node one: 1 socket", "A shop/web/app  sensitive", "\nNode two: "} {
		if !strings.Contains(out, want) {
			t.Errorf("%s%s\nwant %s", out, errOut, want)
		}
	}
	_, out, _ = inCluster(t, objects, "", "map", "one", "-o", "json")
	var line struct {
		Node string
		Map  struct{ Containers []struct{ Pod string } }
	}
	if err := json.Unmarshal([]byte(out), &line); err != nil || line.Node != "one" || len(line.Map.Containers) != 1 || line.Map.Containers[0].Pod != "web" {
		t.Errorf("%v, %+v of %s", err, line, out)
	}
	if _, out, _ = inCluster(t, objects, "", "map", "one", "-o", "svg"); !strings.HasPrefix(out, "<svg") {
		t.Errorf("%.100s", out)
	}
}
