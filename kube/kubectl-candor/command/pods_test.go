package command

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/candor-project/candor/internal/apitest"
)

// TestNodes: the free CPUs of each node, and the number of containers that fit. Node two has only free fractions.
func TestNodes(t *testing.T) {
	code, out, errOut := inCluster(t, testCluster(t), "", "nodes", "--cpu", "1500m")
	const want = `NODE   CPUS  EXCLUSIVE  FRACTIONAL  SHARED  FREE   LARGEST  FITS 1500m  STATUS
four   -     -          -           -       4      -        0           no Candor on node
one    4     1          1           2       2500m  2        1           ready
three  4     0          0           4       4      4        2           ready
two    4     0          4           0       4      0        0           ready

The largest sensitive container that fits has 4 CPUs. 3 containers of 1500m fit. 1 node without a report.
`
	if code != 0 || errOut != "" || out != want {
		t.Errorf("%d, %s\n%s\nwant\n%s", code, errOut, out, want)
	}
}

// TestWhy: a running pod has the CPUs of its node's report, and each class its source. A pending pod has the reason of each node.
func TestWhy(t *testing.T) {
	objects := testCluster(t)
	container := func(name, request, limit string) object {
		return object{"name": name, "image": "spark/x", "resources": object{"requests": object{"cpu": request}, "limits": object{"cpu": limit}}}
	}
	objects["/apis/candor.dev/v1alpha1/namespaces/shop/cpuprofiles"] = apitest.List(object{"metadata": object{"name": "spark"}, "spec": object{"images": []string{"spark/*"}, "class": "sensitive"}})
	objects["/api/v1/namespaces/shop/pods/web"] = object{
		"metadata": object{"name": "web", "namespace": "shop", "uid": "one-0", "annotations": object{"class.candor.dev/app": "sensitive"}},
		"spec":     object{"nodeName": "one", "schedulerName": "candor-scheduler", "containers": []object{container("app", "1500m", "1500m"), container("log", "100m", "200m")}},
		"status":   object{"phase": "Running"},
	}
	late := objects["/api/v1/namespaces/shop/pods/late"].(object)
	late["status"] = object{"phase": "Pending", "conditions": []object{{"type": "PodScheduled", "message": "0/4 nodes are available."}}}
	for _, c := range []struct {
		pod  string
		want []string
	}{
		{"web", []string{
			"Pod shop/web is on node one (Running, scheduler candor-scheduler).",
			"app        sensitive  annotation class.candor.dev/app: sensitive  -                                       1500m  0,1:500m  2",
			"log        flexible   CPUProfile spark: sensitive                 its CPU request differs from its limit  200m   -         -",
			"- log: the node's report has no CPUs for it",
		}},
		{"late", []string{
			"Pod shop/late waits (Pending, scheduler -).", "app        sensitive  annotation candor.dev/class: sensitive  3 CPUs",
			"one    -      -                 -      Insufficient cpu", "It waits: 0/4 nodes are available:", "Message of the scheduler: 0/4 nodes are available.",
		}},
	} {
		code, out, errOut := inCluster(t, objects, "", "why", c.pod)
		for _, want := range c.want {
			if code != 0 || errOut != "" || !strings.Contains(out, want) {
				t.Errorf("%s: %d, %s\n%s\nwant %s", c.pod, code, errOut, out, want)
			}
		}
	}
	late["metadata"].(object)["annotations"] = object{"candor.dev/class": "fast"}
	if code, out, errOut := inCluster(t, objects, "", "why", "late"); code != 0 || !strings.Contains(out, `annotation candor.dev/class: class "fast"`) {
		t.Errorf("invalid annotation: %d, %s\n%s", code, errOut, out)
	}
}

// TestFits: replicas share the free CPUs, and the first replica that does not fit has its reason. Exit code 1 if not all fit.
func TestFits(t *testing.T) {
	const deployment = `{"kind":"Deployment","metadata":{"name":"d"},"spec":{"template":{"metadata":{"annotations":{"candor.dev/class":"sensitive"}},
		"spec":{"tolerations":[{"operator":"Exists"}],"containers":[{"name":"app","resources":{"limits":{"cpu":"2"}}}]}}}}`
	objects := testCluster(t)
	for _, c := range []struct {
		replicas string
		code     int
		want     []string
	}{
		{"2", 0, []string{"Pod shop/d: 2 of 2 replicas fit.\n"}},
		{"9", 1, []string{"Pod shop/d: 3 of 9 replicas fit.\n", "one    1\nthree  2\n", "The next replica waits: 0/4 nodes are available: ", "1 no Candor on node"}},
	} {
		code, out, errOut := inCluster(t, objects, deployment, "fits", "-f", "-", "--replicas", c.replicas)
		for _, want := range c.want {
			if code != c.code || !strings.Contains(out, want) {
				t.Errorf("%s: %d, %s\n%s\nwant %d, %s", c.replicas, code, errOut, out, c.code, want)
			}
		}
	}
}

const sparkProfile = `apiVersion: candor.dev/v1alpha1
kind: CPUProfile
metadata: {name: spark}
spec: {images: ["spark/*"], class: sensitive, topology: single-numa}
`

// TestProfileTest: the settings that a profile changes, for pending and running pods. The settings that the scheduler has written
// into a pod do not hide the change: the pod's template does not have them.
func TestProfileTest(t *testing.T) {
	objects := testCluster(t)
	spark := []object{{"name": "app", "image": "spark/executor", "resources": object{"limits": object{"cpu": "1"}}}}
	pod := func(name, node string, annotations, owner object) object {
		m := object{"name": name, "namespace": "shop", "uid": name, "annotations": annotations}
		if owner != nil {
			m["ownerReferences"] = []object{owner}
		}
		return object{"metadata": m, "spec": object{"nodeName": node, "containers": spark}, "status": object{"phase": "Running"}}
	}
	scheduled := object{"candor.dev/class": "flexible", "candor.dev/topology": "prefer", "example.com/x": "y"}
	objects["/api/v1/namespaces/shop/pods"] = apitest.List(
		pod("pending", "", object{}, nil), pod("running", "one", scheduled, object{"uid": "rs"}), pod("explicit", "one", object{"candor.dev/class": "flexible"}, nil),
		object{"metadata": object{"name": "other", "namespace": "shop"}, "spec": object{"containers": []object{{"name": "app", "image": "nginx"}}}})
	objects["/apis/apps/v1/namespaces/shop/replicasets"] = apitest.List(object{"metadata": object{"uid": "rs"}, "spec": object{"template": object{"metadata": object{"annotations": object{"example.com/x": "y"}}}}})
	for _, w := range []string{"apps/v1/namespaces/shop/statefulsets", "apps/v1/namespaces/shop/daemonsets", "batch/v1/namespaces/shop/jobs"} {
		objects["/apis/"+w] = apitest.List[object]()
	}
	const want = `POD            CONTAINER  SETTING   NOW  WITH THE FILE  EFFECTIVE
shop/pending   app        class     -    sensitive      when it is scheduled
shop/pending   app        topology  -    single-numa    when it is scheduled
shop/running   app        class     -    sensitive      when it is created again
shop/running   app        topology  -    single-numa    when it is created again
shop/explicit  app        topology  -    single-numa    when it is created again

3 pods would change.
`
	code, out, errOut := inCluster(t, objects, sparkProfile, "profile", "test", "-f", "-")
	if code != 0 || errOut != "" || out != want {
		t.Errorf("%d, %s\n%s\nwant\n%s", code, errOut, out, want)
	}
	without := maps.Clone(objects)
	delete(without, "/apis/apps/v1/namespaces/shop/replicasets")
	if _, out, _ := inCluster(t, without, sparkProfile, "profile", "test", "-f", "-"); !strings.Contains(out, "- cannot read replicasets: ") {
		t.Errorf("%s\nwant a note on ReplicaSets", out)
	}
}

// TestProfileValidate: an invalid manifest exits with code 2 and a single line. No cluster is needed.
func TestProfileValidate(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for in, want := range map[string]string{
		sparkProfile + "---\n" + strings.Replace(sparkProfile, "name: spark", "name: other", 1): "",
		"":            "no CPUProfile: must be of apiVersion candor.dev/v1alpha1",
		"kind: Pod\n": "must be apiVersion candor.dev/v1alpha1 and kind CPUProfile",
		strings.Replace(sparkProfile, "class: sensitive", "class: fast", 1):       `class "fast"`,
		strings.Replace(sparkProfile, "class: sensitive", "klass: sensitive", 1):  `document 1: unknown field "klass"`,
		strings.Replace(sparkProfile, "name: spark", "name: Spark", 1):            `name "Spark": must be lower case letters`,
		strings.Replace(sparkProfile, `images: ["spark/*"], `, "", 1):             "must have a selector of pods",
		strings.Replace(sparkProfile, "class: sensitive", "class: [sensitive", 1): "document 1",
	} {
		var out, errOut strings.Builder
		code := run(t.Context(), []string{"profile", "validate", "-f", "-"}, strings.NewReader(in), &out, &errOut)
		text := errOut.String()
		switch {
		case want == "" && (code != 0 || out.String() != "CPUProfile spark is valid\nCPUProfile other is valid\n"):
			t.Errorf("%d, %s%s", code, &out, text)
		case want != "" && (code != 2 || out.String() != "" || !strings.Contains(text, want) || strings.Count(text, "\n") != 1):
			t.Errorf("%q: %d, %s%s; want %s", in, code, &out, text, want)
		}
	}
}

// TestExecPluginHangs: a login program that does not answer ends the command with the name of the program and the next step.
func TestExecPluginHangs(t *testing.T) {
	s := apitest.Objects(t, testCluster(t))
	user := `exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sleep, args: ["3"], interactiveMode: Never}`
	t.Setenv("KUBECONFIG", apitest.Write(t, t.TempDir(), "kubeconfig", apitest.Kubeconfig(s.URL, apitest.Trust(s), user)))
	var out, errOut strings.Builder
	code := run(t.Context(), []string{"nodes", "--request-timeout", "200ms"}, nil, &out, &errOut)
	if want := `the exec plugin "/bin/sleep" of the kubeconfig does not answer within 200ms; run it by hand`; code != 1 || !strings.Contains(errOut.String(), want) || strings.Count(errOut.String(), "\n") != 1 {
		t.Errorf("%d, %q, want %q", code, errOut.String(), want)
	}
}

// TestExplanationJSON: the sources of a class are in order of precedence.
func TestExplanationJSON(t *testing.T) {
	objects := testCluster(t)
	objects["/api/v1/namespaces/shop"] = object{"metadata": object{"name": "shop", "labels": object{"candor.dev/class": "flexible"}}}
	_, out, errOut := inCluster(t, objects, "", "why", "late", "-o", "json")
	var e explanation
	if err := json.Unmarshal([]byte(out), &e); err != nil || len(e.Containers) != 1 || len(e.Containers[0].Sources) != 3 || e.Containers[0].Sources[1].Name != "label candor.dev/class of the namespace" || e.Refusal == "" {
		t.Errorf("%v, %+v\n%s%s", err, e, out, errOut)
	}
}
