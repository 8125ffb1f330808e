package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
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

// planned returns the node that kubectl candor plan finds for a pending pod of the namespace spark, and the CPUs of its container app there.
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
