package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/nodecpu"
	"github.com/candor-project/candor/kube/v1alpha1"
	"github.com/candor-project/candor/topology"
)

// buildPlugin builds kubectl-candor once for all tests.
var buildPlugin = sync.OnceValue(func() error {
	build := exec.Command("go", "build", "-o", plane.path("kubectl-candor"), "./cmd/kubectl-candor")
	build.Dir, build.Env = "../../kube/kubectl-candor", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
})

// kubectlCandor runs kubectl candor with a kubeconfig and returns its output.
func kubectlCandor(t *testing.T, kubeconfig string, args ...string) (out string, code int) {
	t.Helper()
	if err := buildPlugin(); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(plane.path("kubectl-candor"), args...)
	c.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	text, err := c.CombinedOutput()
	if err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return string(text), c.ProcessState.ExitCode()
}

// kubeconfigOf writes a kubeconfig for the control plane, with the fields of the user in YAML.
func kubeconfigOf(t *testing.T, p *controlPlane, user string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf("current-context: c\ncontexts: [{name: c, context: {cluster: c, user: u, namespace: spark}}]\n"+
		"clusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}]\nusers: [{name: u, user: {%s}}]\n", p.url, p.path("pki/apiserver.crt"), user)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// planned returns the node that kubectl candor plan finds for a pending pod of the namespace spark, and the CPUs of its container
// app there.
func planned(t *testing.T, p *controlPlane, pod string) (node, cpus string) {
	t.Helper()
	out, code := kubectlCandor(t, kubeconfigOf(t, p, "token: "+adminToken), "plan", pod, "-o", "json")
	var answer struct {
		Node  string
		Nodes []struct{ Containers []struct{ Name, CPUs string } }
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil || code != 0 {
		t.Fatalf("%d %s: %v", code, out, err)
	}
	if answer.Node == "" || len(answer.Nodes[0].Containers) != 1 {
		t.Fatalf("no place for it: %s", out)
	}
	return answer.Node, answer.Nodes[0].Containers[0].CPUs
}

// TestPlanFromOutside: a user with the right to read the cluster sees the CPUs of its nodes, with each kind of credentials. A user without
// the right gets an error that names the missing right.
func TestPlanFromOutside(t *testing.T) {
	p := install(t)
	if code, answer := writeReport(t, p, "outside", report(t, 5)); code != http.StatusOK {
		t.Fatalf("%d %s", code, answer)
	}
	p.try("POST", "/api/v1/nodes", adminToken, []byte(`{"metadata":{"name":"without-candor"}}`))
	login := filepath.Join(t.TempDir(), "login")
	err := os.WriteFile(login, []byte("#!/bin/sh\necho '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\""+adminToken+"\"}}'\n"), 0o700)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{
		"token: " + adminToken,
		"token: " + adminToken + ", as: someone, as-groups: ['system:masters']",
		"exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: '" + login + "'}",
	} {
		out, code := kubectlCandor(t, kubeconfigOf(t, p, user), "map")
		for _, want := range []string{"Node outside: 2 sockets · 2 NUMA nodes", "Node without-candor: no Candor on node", "/app"} {
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("%s: %d %s\nwant %s", user, code, out, want)
			}
		}
	}
	p.must(t, "PUT", "/api/v1/nodes/outside/status", []byte(`{"metadata":{"name":"outside"},"status":{"allocatable":{"cpu":"64","memory":"64Gi","pods":"250"}}}`))
	out, code := kubectlCandor(t, kubeconfigOf(t, p, "token: "+adminToken), "plan", "--cpu", "3500m", "--memory", "1Gi")
	t.Log("\n" + out)
	for _, want := range []string{"Pod spark/planned: app sensitive, limit 3500m\n", "NODE ", "outside ", "CPUs 1-2,33,34:500m", "without-candor  -      -                 -      Insufficient cpu\n", "\nIt goes to "} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%d %s\nwant %s", code, out, want)
		}
	}
	for user, want := range map[string]string{
		"token: wrong": "Unauthorized",
		"exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: /none}": "/none",
		"token: " + adminToken + ", as: someone":                                                      `nodecpus.candor.dev is forbidden: User "someone" cannot list resource "nodecpus"`,
	} {
		out, code := kubectlCandor(t, kubeconfigOf(t, p, user), "map")
		if code != 1 || !strings.Contains(out, want) || strings.Count(out, "\n") != 1 || strings.Contains(out, adminToken) {
			t.Errorf("%s: %d %s\nwant %s", user, code, out, want)
		}
	}
}

// reportOfPod returns a report of a node of 8 CPUs whose only container is app of a pod, with a limit of 1500m.
func reportOfPod(t *testing.T, uid string) v1alpha1.NodeCPUStatus {
	t.Helper()
	machine, err := topology.Parse("pack:1 core:4 pu:2")
	if err != nil {
		t.Fatal(err)
	}
	n, err := hybrid.NewNode(machine, hybrid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if uid != "" {
		if _, _, err := n.Place(&hybrid.Request{ID: uid + "/app", Class: hybrid.Sensitive, Limit: 1500}); err != nil {
			t.Fatal(err)
		}
	}
	s := nodecpu.Status(n, nodecpu.HolderOf)
	s.Counter, s.Reported, s.Policy = 1, metav1.Now().Rfc3339Copy(), "strict"
	return s
}

// TestKubectlCandor: the rights of candor-view suffice for the commands that read, and each command has the facts of a real API
// server. The output is the example of docs/kubectl.md.
func TestKubectlCandor(t *testing.T) {
	p := install(t)
	p.must(t, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", []byte(`{"metadata":{"name":"viewer"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"candor-view"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"viewer"}]}`))
	for _, name := range []string{"node-1", "node-2", "node-3"} {
		p.must(t, "POST", "/api/v1/nodes", fmt.Appendf(nil, `{"metadata":{"name":%q},"spec":{"unschedulable":%t}}`, name, name == "node-3"))
		p.must(t, "PUT", "/api/v1/nodes/"+name+"/status", fmt.Appendf(nil, `{"metadata":{"name":%q},"status":{"allocatable":{"cpu":"8","memory":"16Gi","pods":"110"},
			"conditions":[{"type":"Ready","status":"True"}]}}`, name))
	}
	const pods = "/api/v1/namespaces/spark/pods"
	const sensitive = `{"metadata":{"name":%q,"annotations":{"candor.dev/class":"sensitive"}},"spec":{%s"containers":[{"name":"app","image":"web",
		"resources":{"requests":{"cpu":%q},"limits":{"cpu":%q,"memory":"1Mi"}}}]}}`
	var web struct{ Metadata struct{ UID string } }
	if err := json.Unmarshal([]byte(p.must(t, "POST", pods, fmt.Appendf(nil, sensitive, "web-0", `"nodeName":"node-1",`, "1500m", "1500m"))), &web); err != nil {
		t.Fatal(err)
	}
	p.must(t, "POST", pods, fmt.Appendf(nil, sensitive, "big-0", `"nodeSelector":{"none":"x"},`, "12", "12"))
	p.must(t, "POST", pods, fmt.Appendf(nil, sensitive, "loose-0", `"nodeName":"node-1",`, "500m", "1"))
	for name, s := range map[string]v1alpha1.NodeCPUStatus{"node-1": reportOfPod(t, web.Metadata.UID), "node-2": reportOfPod(t, "")} {
		if code, answer := writeReport(t, p, name, s); code != http.StatusOK {
			t.Fatalf("%d %s", code, answer)
		}
	}
	file := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, sensitive, "web", "", "3500m", "3500m"), 0o600); err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, bytes.Replace(manifest, []byte("{"), []byte(`{"apiVersion":"v1","kind":"Pod",`), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	profiles := filepath.Join(t.TempDir(), "profile.yaml")
	if err := os.WriteFile(profiles, []byte("apiVersion: candor.dev/v1alpha1\nkind: CPUProfile\nmetadata: {name: compact}\nspec: {images: [web], topology: single-numa}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	viewer := kubeconfigOf(t, p, "token: "+adminToken+", as: viewer")
	eventually(t, "the viewer has the rights", func() bool { _, code := kubectlCandor(t, viewer, "nodes"); return code == 0 })
	for _, c := range []struct {
		line string
		code int
		want []string
	}{
		{"nodes --cpu 3500m node-1 node-2 node-3", 0, []string{"node-1 8 1", "node-2 8 0", "cordoned, no Candor on node"}},
		{"why web-0", 0, []string{"Pod spark/web-0 is on node node-1", "annotation candor.dev/class: sensitive", ":500m"}},
		{"why loose-0", 0, []string{"its CPU request differs from its limit"}},
		{"why big-0", 0, []string{"Pod spark/big-0 waits", "node(s) didn't match Pod's node affinity/selector", "It waits: "}},
		{"plan big-0", 0, []string{"It waits: "}},
		{"map node-1", 0, []string{"Node node-1: 1 socket", "spark/web-0/app"}},
		{"fits -f " + file + " --replicas 100000", 1, []string{"of 100000 replicas fit.", "node-1 1", "node-2 2", "The next replica waits: "}},
		{"profile test -f " + profiles, 0, []string{"spark/web-0", "topology", "single-numa", "when it is created again"}},
	} {
		out, code := kubectlCandor(t, viewer, strings.Fields(c.line)...)
		t.Logf("kubectl candor %s\n%s", c.line, out)
		for _, want := range c.want {
			if code != c.code || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
				t.Errorf("kubectl candor %s: %d\n%s\nwant %d, %s", c.line, code, out, c.code, want)
			}
		}
	}
	for line, want := range map[string]string{"audit --image x": "cannot", "top": "no agent of Candor runs on these nodes"} {
		if out, code := kubectlCandor(t, viewer, strings.Fields(line)...); code == 0 || !strings.Contains(out, want) {
			t.Errorf("kubectl candor %s: %d %s, want %s", line, code, out, want)
		}
	}
}
