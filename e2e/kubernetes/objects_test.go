package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/topology"
)

const nodeCPUs = "/apis/candor.dev/v1alpha1/nodecpus"

func profilesOf(namespace string) string {
	return "/apis/candor.dev/v1alpha1/namespaces/" + namespace + "/cpuprofiles"
}

// node returns a node of 64 CPUs with a number of pods.
func node(t *testing.T, pods int) *hybrid.Node {
	t.Helper()
	m, err := topology.Parse("pack:2 numa:1 l3:4 core:4 pu:2")
	if err != nil {
		t.Fatal(err)
	}
	n, err := hybrid.NewNode(m, hybrid.Options{MinShared: 500})
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"app", "web-frontend", "worker", "istio-proxy", "metrics-agent"}
	for i := range pods {
		r := hybrid.Request{ID: fmt.Sprintf("3f0c9a9e-7a55-4d4b-8b2e-%012d/%s", i, names[i%len(names)]), Class: hybrid.Flexible, Limit: 500, Guarantee: 50}
		if i%5 < 2 {
			r.Class, r.Limit, r.Guarantee = hybrid.Sensitive, hybrid.Milli(250+50*(i%8)), 0
		}
		plan, err := n.Plan(r)
		if err == nil {
			err = n.Commit(plan)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// report returns the first report of a node.
func report(t *testing.T, pods int) v1alpha1.NodeCPUStatus {
	s := nodecpu.Status(node(t, pods), nodecpu.HolderOf)
	s.Counter, s.Reported, s.Policy = 1, metav1.Now().Rfc3339Copy(), "strict"
	return s
}

// object returns an object as decoded JSON.
func object(t *testing.T, kind, name string, of any) []byte {
	t.Helper()
	text, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	fields["apiVersion"], fields["kind"] = v1alpha1.GroupVersion.String(), kind
	fields["metadata"].(map[string]any)["name"] = name
	if text, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	return text
}

// writeReport creates a NodeCPU if it is missing, and writes a report as the node's agent.
func writeReport(t *testing.T, p *controlPlane, name string, s v1alpha1.NodeCPUStatus) (code int, answer string) {
	t.Helper()
	agent := agentOf(t, p, name)
	p.try("POST", nodeCPUs, agent, object(t, "NodeCPU", name, v1alpha1.NodeCPU{}))
	var n v1alpha1.NodeCPU
	if err := json.Unmarshal([]byte(p.must(t, "GET", nodeCPUs+"/"+name, nil)), &n); err != nil {
		t.Fatal(err)
	}
	n.Status = s
	return p.try("PUT", nodeCPUs+"/"+name+"/status", agent, object(t, "NodeCPU", name, n))
}

// TestReports: the API server stores a report of 250 pods unchanged, with additions of its own in at most 30 KiB. The node that is restored
// from the report equals the original.
func TestReports(t *testing.T) {
	p := install(t)
	s := report(t, 250)
	if code, answer := writeReport(t, p, "kept", s); code != http.StatusOK {
		t.Fatalf("%d %s", code, answer)
	}
	text := p.must(t, "GET", nodeCPUs+"/kept", nil)
	t.Logf("%d bytes", len(text))
	if len(text) > 30<<10 {
		t.Errorf("%d bytes: want %d at most", len(text), 30<<10)
	}
	var back v1alpha1.NodeCPU
	if err := json.Unmarshal([]byte(text), &back); err != nil {
		t.Fatal(err)
	}
	was, _ := json.Marshal(s)
	is, _ := json.Marshal(back.Status)
	if string(was) != string(is) {
		t.Errorf("written\n%s\nkept\n%s", was, is)
	}
	if _, err := nodecpu.Node(&back.Status); err != nil {
		t.Error(err)
	}
}

// TestReportsThatAreRefused: each validation rule refuses a report that violates it, with its message.
func TestReportsThatAreRefused(t *testing.T) {
	p := install(t)
	first := report(t, 10)
	first.Counter = 7
	if code, answer := writeReport(t, p, "ruled", first); code != http.StatusOK {
		t.Fatalf("%d %s", code, answer)
	}
	sensitive, flexible := 0, 2
	for want, spoil := range map[string]func(*v1alpha1.NodeCPUStatus){
		"the counter of a report is not less":       func(s *v1alpha1.NodeCPUStatus) { s.Counter = 6 },
		"each usable CPU is in exactly one pool":    func(s *v1alpha1.NodeCPUStatus) { s.Counts.Shared++ },
		"a NUMA node has a distance to each":        func(s *v1alpha1.NodeCPUStatus) { s.Machine.NUMANodes[0].Distances = []int32{10} },
		"a sensitive container has a limit":         func(s *v1alpha1.NodeCPUStatus) { s.Grants[sensitive].Limit = "" },
		"a sensitive container has no request":      func(s *v1alpha1.NodeCPUStatus) { s.Grants[sensitive].Request = "1" },
		"a flexible container has no fraction":      func(s *v1alpha1.NodeCPUStatus) { s.Grants[flexible].CPUs = "7:500m" },
		"topologyMissed requires topology":          func(s *v1alpha1.NodeCPUStatus) { s.Grants[flexible].TopologyMissed = true },
		"status.fingerprint":                        func(s *v1alpha1.NodeCPUStatus) { s.Fingerprint = strings.Repeat("a line\n", 10000) },
		"status.algorithm: Unsupported value":       func(s *v1alpha1.NodeCPUStatus) { s.Algorithm = "best" },
		"status.policy: Unsupported value":          func(s *v1alpha1.NodeCPUStatus) { s.Policy = "hard" },
		"status.usable":                             func(s *v1alpha1.NodeCPUStatus) { s.Usable = "" },
		"status.machine.online":                     func(s *v1alpha1.NodeCPUStatus) { s.Machine.Online = "all" },
		"status.machine.sockets":                    func(s *v1alpha1.NodeCPUStatus) { s.Machine.Sockets = "0-31;32-63" },
		"status.machine.numaNodes":                  func(s *v1alpha1.NodeCPUStatus) { s.Machine.NUMANodes = []v1alpha1.NUMANode{} },
		"distances[0]":                              func(s *v1alpha1.NodeCPUStatus) { s.Machine.NUMANodes[0].Distances[0] = 0 },
		"status.counts.cpus":                        func(s *v1alpha1.NodeCPUStatus) { s.Counts = v1alpha1.Counts{CPUs: 2000, Shared: 2000} },
		"status.pools.exclusive":                    func(s *v1alpha1.NodeCPUStatus) { s.Pools.Exclusive = "none" },
		"status.sharedTime":                         func(s *v1alpha1.NodeCPUStatus) { s.SharedTime = "a lot" },
		"status.grants[0].class: Unsupported value": func(s *v1alpha1.NodeCPUStatus) { s.Grants[0].Class = "best" },
		"status.grants[0].pod":                      func(s *v1alpha1.NodeCPUStatus) { s.Grants[0].Pod = "a/b" },
		"status.grants[0].container":                func(s *v1alpha1.NodeCPUStatus) { s.Grants[0].Container = "" },
		"status.grants[0].limit":                    func(s *v1alpha1.NodeCPUStatus) { s.Grants[0].Limit = "1.5" },
		"status.grants[0].cpus":                     func(s *v1alpha1.NodeCPUStatus) { s.Grants[0].CPUs = "all" },
		"status.grants[0].topology":                 func(s *v1alpha1.NodeCPUStatus) { s.Grants[0].Topology = "near" },
		"status.grants: Too many: 4097":             func(s *v1alpha1.NodeCPUStatus) { s.Grants = make([]v1alpha1.Grant, 4097) },
		"status.counter":                            func(s *v1alpha1.NodeCPUStatus) { s.Counter = 0 },
	} {
		s := *first.DeepCopy()
		spoil(&s)
		if code, answer := writeReport(t, p, "ruled", s); code != http.StatusUnprocessableEntity || !strings.Contains(answer, want) {
			t.Errorf("%d %.400s\nwant 422 %q", code, answer, want)
		}
	}
	first.Counter++
	if code, answer := writeReport(t, p, "ruled", first); code != http.StatusOK {
		t.Errorf("the next good one: %d %s", code, answer)
	}
}

func TestProfiles(t *testing.T) {
	p := install(t)
	all := &v1alpha1.PodSelector{}
	expression := func(operator metav1.LabelSelectorOperator, values ...string) *v1alpha1.PodSelector {
		return &v1alpha1.PodSelector{MatchExpressions: []v1alpha1.PodSelectorRequirement{{Key: "app", Operator: operator, Values: values}}}
	}
	for i, c := range []struct {
		spec v1alpha1.CPUProfileSpec
		want string // "": taken
	}{
		{v1alpha1.CPUProfileSpec{Selector: all, Class: "sensitive", Policy: "strict", Topology: "single-l3", View: "full", Burst: "kernel"}, ""},
		{v1alpha1.CPUProfileSpec{Images: []string{"*/spark/*"}, Class: "sensitive"}, ""},
		{v1alpha1.CPUProfileSpec{Selector: expression("In", "web"), View: "affinity"}, ""},
		{v1alpha1.CPUProfileSpec{Class: "sensitive"}, "selector or images is required"},
		{v1alpha1.CPUProfileSpec{Selector: all}, "no setting"},
		{v1alpha1.CPUProfileSpec{Selector: all, Class: "sensitve"}, "spec.class: Unsupported value"},
		{v1alpha1.CPUProfileSpec{Selector: all, Policy: "hard"}, "spec.policy: Unsupported value"},
		{v1alpha1.CPUProfileSpec{Selector: all, Topology: "near"}, "spec.topology: Unsupported value"},
		{v1alpha1.CPUProfileSpec{Selector: all, View: "all"}, "spec.view: Unsupported value"},
		{v1alpha1.CPUProfileSpec{Selector: all, Burst: "much"}, "spec.burst: Unsupported value"},
		{v1alpha1.CPUProfileSpec{Images: []string{""}, Class: "sensitive"}, "spec.images[0]"},
		{v1alpha1.CPUProfileSpec{Images: []string{"a", "a"}, Class: "sensitive"}, "Duplicate value"},
		{v1alpha1.CPUProfileSpec{Selector: expression("In"), Class: "sensitive"}, "In and NotIn require values"},
		{v1alpha1.CPUProfileSpec{Selector: expression("Exists", "x"), Class: "sensitive"}, "Exists and DoesNotExist accept none"},
		{v1alpha1.CPUProfileSpec{Selector: expression("Like", "x"), Class: "sensitive"}, "operator: Unsupported value"},
	} {
		code, answer := p.try("POST", profilesOf("spark"), adminToken, object(t, "CPUProfile", fmt.Sprint("profile-", i), v1alpha1.CPUProfile{Spec: c.spec}))
		if taken := code == http.StatusCreated; taken != (c.want == "") || !strings.Contains(answer, c.want) {
			t.Errorf("%+v: %d %.400s\nwant %q", c.spec, code, answer, c.want)
		}
	}
}

// TestKubectl: kubectl get shows the pools of a node in a line, and kubectl describe the grants.
func TestKubectl(t *testing.T) {
	p := install(t)
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip(err)
	}
	if code, answer := writeReport(t, p, "shown", report(t, 5)); code != http.StatusOK {
		t.Fatalf("%d %s", code, answer)
	}
	show := func(args ...string) string {
		t.Helper()
		args = append([]string{"--server=" + p.url, "--token=" + adminToken, "--certificate-authority=" + p.path("pki/apiserver.crt")}, args...)
		c := exec.Command(kubectl, args...)
		c.Env = append(os.Environ(), "HOME="+p.dir, "KUBECONFIG="+os.DevNull)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	columns := strings.Join(strings.Fields(show("get", "ncpu", "shown")), " ")
	if want := "NAME CPUS EXCLUSIVE FRACTIONAL SHARED SENSITIVE SHARED TIME AGE shown 64 0 2 62 550m 0 "; !strings.HasPrefix(columns, want) {
		t.Errorf("%s\nwant %s", columns, want)
	}
	page := strings.Join(strings.Fields(show("describe", "nodecpu", "shown")), " ")
	for _, want := range []string{"Class: sensitive Container: app Cpus: 0:250m Limit: 250m", "Description: pack:2 numa:1 l3:4 core:4 pu:2", "Min Shared: 500m"} {
		if !strings.Contains(page, want) {
			t.Errorf("describe does not have %q", want)
		}
	}
	show("explain", "nodecpu.status.grants")
}
