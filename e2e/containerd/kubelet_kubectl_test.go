package containerd

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const (
	nodeIP    = "192.0.2.1" // of the loopback device: a kubelet refuses an address of 127.0.0.0/8
	candorLab = "lab.local/candor:1"

	// A network plugin that does nothing: the pods of the test have the network of the machine, but a node is ready only with a
	// network.
	cniConfig = `{"cniVersion":"1.0.0","name":"lab","plugins":[{"type":"nothing"}]}`
	cniPlugin = "#!/bin/sh\n[ \"$CNI_COMMAND\" != VERSION ] || echo '{\"cniVersion\":\"1.0.0\",\"supportedVersions\":[\"1.0.0\"]}'\n"
)

// pluginBinary returns the path of kubectl-candor: CANDOR_PLUGIN, or a binary that it builds once.
func pluginBinary(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("CANDOR_PLUGIN"); bin != "" {
		return bin
	}
	bin := filepath.Join(builtDir(t), "kubectl-candor")
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/kubectl-candor")
	cmd.Dir, cmd.Env = "../../kube/kubectl-candor", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build ./cmd/kubectl-candor: %v\n%s", err, out)
	}
	return bin
}

// A plugin runs kubectl candor.
type plugin struct {
	*kubelet
	api *apiServer
	bin string
}

// newPlugin starts an API server and a kubelet that serves logs and exec, without Candor.
func newPlugin(t *testing.T) *plugin {
	t.Helper()
	needKubelet(t)
	bin := pluginBinary(t)
	if out, err := exec.Command("ip", "address", "replace", nodeIP+"/32", "dev", "lo").CombinedOutput(); err != nil {
		t.Skipf("needs an address of the loopback device: %v: %s", err, out)
	}
	t.Cleanup(func() { exec.Command("ip", "address", "delete", nodeIP+"/32", "dev", "lo").Run() })
	l := newEngine(t)
	if err := os.MkdirAll(l.path("cni"), 0o755); err != nil {
		t.Fatal(err)
	}
	l.write("cni/10-lab.conflist", cniConfig)
	if err := os.WriteFile(l.path("cni/nothing"), []byte(cniPlugin), 0o755); err != nil {
		t.Fatal(err)
	}
	l.importImage(candorLab, map[string]string{"/candor": l.candor})
	api := newAPIServer(l)
	api.define()
	k := startKubelet(l, "cpuManagerPolicy: none\n", "--kubeconfig", l.path("kubeconfig"), "--node-ip", nodeIP)
	k.wait("the node to be ready", k.daemon, func() bool {
		code, text := api.request("GET", nodePath, "", nil)
		var node struct {
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
		return code == http.StatusOK && json.Unmarshal(text, &node) == nil &&
			slices.Contains(node.Status.Conditions, struct{ Type, Status string }{"Ready", "True"})
	})
	return &plugin{kubelet: k, api: api, bin: bin}
}

// command returns kubectl candor with the kubeconfig of the lab.
func (p *plugin) command(args ...string) (cmd *exec.Cmd, out, errOut *bytes.Buffer) {
	out, errOut = new(bytes.Buffer), new(bytes.Buffer)
	cmd = exec.Command(p.bin, append(args, "--kubeconfig", p.path("kubeconfig"))...)
	cmd.Stdout, cmd.Stderr = out, errOut
	return cmd, out, errOut
}

// pods returns the names of the pods that have a label.
func (p *plugin) pods(selector string) (names []string) {
	p.Helper()
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := json.Unmarshal(p.api.does("GET", "/api/v1/pods?labelSelector="+selector, "", nil), &list); err != nil {
		p.Fatal(err)
	}
	for _, item := range list.Items {
		names = append(names, item.Metadata.Name)
	}
	return names
}

const auditPods = "app.kubernetes.io%2Fmanaged-by%3Dkubectl-candor"

// A clusterAudit has the fields of kubectl candor audit -o json that the tests use.
type clusterAudit struct {
	Nodes      []struct{ Name, Problem string }
	Containers []struct {
		Node, Name, Gain string
		Sees, LimitMilli int
		Differs          bool
	}
}

// audit runs kubectl candor audit, and checks that it lists the container app of the pod web, and leaves no pod.
func (p *plugin) audit(args ...string) {
	p.Helper()
	cmd, out, errOut := p.command(append([]string{"audit", "-o", "json"}, args...)...)
	if err := cmd.Run(); err != nil {
		p.Fatalf("%v: %s\n%s", err, errOut, out)
	}
	var r clusterAudit
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		p.Fatalf("%v: %s", err, out)
	}
	if len(r.Nodes) != 1 || r.Nodes[0].Name != "node" || r.Nodes[0].Problem != "" {
		p.Errorf("nodes: %+v, want the answer of node", r.Nodes)
	}
	found, machine := false, p.all()
	for _, c := range r.Containers {
		if c.Name == "default/web/app" {
			found = c.Node == "node" && c.LimitMilli == 1000 && c.Sees == machine.Count() && c.Differs
		}
		if strings.Contains(c.Name, "candor-audit") {
			p.Errorf("the audit lists its own pod: %+v", c)
		}
	}
	if !found {
		p.Errorf("no row of default/web/app with a limit of 1 CPU and all CPUs seen: %s", out)
	}
	if left := p.pods(auditPods); len(left) != 0 {
		p.Errorf("pods are left: %q", left)
	}
}

// agentPod is the manifest of a pod that has the labels and the rights of the chart's agent. Its container only waits.
const agentPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"candor-agent","namespace":"default","labels":{"app.kubernetes.io/name":"candor","app.kubernetes.io/version":"lab"},
	"ownerReferences":[{"apiVersion":"apps/v1","kind":"DaemonSet","name":"candor","uid":"5e5cbd5c-0000-4000-8000-000000000000","controller":true}]},
	"spec":{"nodeName":"node","hostNetwork":true,"hostPID":true,"terminationGracePeriodSeconds":0,"containers":[{"name":"candor","image":"lab.local/candor:1","imagePullPolicy":"Never",
	"command":["/bin/sh","-c","sleep 1000000"],"args":["nri"],"securityContext":{"runAsUser":0,"capabilities":{"add":["SYS_PTRACE"]}},
	"volumeMounts":[{"name":"cgroup","mountPath":"/sys/fs/cgroup","readOnly":true}]}],"volumes":[{"name":"cgroup","hostPath":{"path":"/sys/fs/cgroup"}}]}}`

// TestKubeletKubectl: kubectl candor audit with a real kubelet, which serves logs and exec. Before the installation, it runs
// candor in a pod; on a node with an agent, in the agent's container. No pod is left, also after Ctrl-C.
func TestKubeletKubectl(t *testing.T) {
	p := newPlugin(t)
	p.api.makePod("web", "node", limited("app", 1000))
	p.wait("the pod web", p.daemon, func() bool {
		return strings.Contains(string(p.api.does("GET", podPath+"/web", "", nil)), `"running":{`)
	})

	p.audit("--image", candorLab)
	table, text, errOut := p.command("audit", "--image", candorLab)
	if err := table.Run(); err != nil || !strings.Contains(text.String(), "default/web/app") || !strings.Contains(text.String(), "1 of 1 nodes answered.") {
		t.Errorf("%v: %s\n%s", err, errOut, text)
	}
	t.Logf("kubectl candor audit\n%s", text)

	// The image does not exist, so that the pod waits.
	cmd, _, errOut := p.command("audit", "--image", "lab.local:1/none:1", "--timeout", "100s")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.wait("a pod of the audit", p.daemon, func() bool { return len(p.pods(auditPods)) == 1 })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 && !strings.Contains(errOut.String(), "1 of 1 node did not answer") {
		t.Errorf("after Ctrl-C: %v, %s", err, errOut)
	}
	if left := p.pods(auditPods); len(left) != 0 {
		t.Errorf("after Ctrl-C, pods are left: %q", left)
	}

	p.api.does("POST", podPath, "application/json", json.RawMessage(agentPod))
	p.wait("the agent", p.daemon, func() bool {
		return strings.Contains(string(p.api.does("GET", podPath+"/candor-agent", "", nil)), `"running":{`)
	})
	p.audit() // without an image: no pod is needed
	cmd, out, errOut := p.command("doctor", "-o", "json")
	if err := cmd.Run(); cmd.ProcessState.ExitCode() > 1 || !strings.Contains(out.String(), `"check": "report"`) {
		t.Errorf("doctor: %v, %s\n%s", err, errOut, out)
	}
}
