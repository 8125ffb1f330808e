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

	"go.yaml.in/yaml/v3"
)

// buildScheduler builds candor-scheduler once for all tests.
var buildScheduler = sync.OnceValue(func() error {
	build := exec.Command("go", "build", "-o", plane.path("candor-scheduler"), "./cmd/candor-scheduler")
	build.Dir, build.Env = "../../kube/scheduler", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
})

// fromDocs returns the rights that docs/reference/scheduler.md requires for a scheduler with another user.
const fromDocs = `
kind: ClusterRoleBinding
metadata: {name: kube-scheduler-of-candor}
roleRef: {kind: ClusterRole, name: candor-scheduler}
subjects: [{kind: User, name: "system:kube-scheduler"}]
`

// chartsConfig returns the scheduler's configuration of the chart, with the test's access to the API server. If election is not nil, it
// replaces the leader election of the chart.
func chartsConfig(t *testing.T, p *controlPlane, access string, election any) []byte {
	t.Helper()
	var m struct{ Data map[string]string }
	var config map[string]any
	err := json.Unmarshal([]byte(p.must(t, "GET", places["ConfigMap"]+"/candor-scheduler", nil)), &m)
	if err == nil {
		err = yaml.Unmarshal([]byte(m.Data["scheduler.yaml"]), &config)
	}
	if err != nil {
		t.Fatal(err)
	}
	config["clientConnection"] = map[string]string{"kubeconfig": access}
	if election != nil {
		config["leaderElection"] = election
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// startScheduler starts the scheduler as the user of a token, until the end of the test. It returns the scheduler's log.
func startScheduler(t *testing.T, p *controlPlane, token string, election any) (log func() string) {
	t.Helper()
	log, _ = startServedScheduler(t, p, token, election)
	return log
}

// startServedScheduler starts the scheduler as startScheduler does. It also returns the address of the scheduler's metrics.
func startServedScheduler(t *testing.T, p *controlPlane, token string, election any) (log func() string, address string) {
	t.Helper()
	if err := buildScheduler(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	access, file := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "scheduler.yaml")
	p.writeAccess(t, access, token)
	if err := os.WriteFile(file, chartsConfig(t, p, access, election), 0o600); err != nil {
		t.Fatal(err)
	}
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(ports[0], ":")
	name := "candor-scheduler-" + port
	c := p.command(name, p.path("candor-scheduler"), "--config="+file, "--bind-address=127.0.0.1", "--secure-port="+port,
		"--authentication-kubeconfig="+access, "--authorization-kubeconfig="+access)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	log = func() string {
		text, _ := os.ReadFile(p.path(name + ".log"))
		return string(text)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if out := log(); t.Failed() {
			t.Logf("candor-scheduler:\n%s", out[max(0, len(out)-3000):])
		}
	})
	return log, ports[0]
}

// placeable creates a node with enough CPUs and a report, and a pod for the chart's scheduler.
func placeable(t *testing.T, p *controlPlane, name string) {
	t.Helper()
	if code, answer := writeReport(t, p, "of-"+name, report(t, 0)); code != http.StatusOK {
		t.Fatalf("%d %s", code, answer)
	}
	p.must(t, "PUT", "/api/v1/nodes/of-"+name+"/status",
		fmt.Appendf(nil, `{"metadata":{"name":"of-%s"},"status":{"allocatable":{"cpu":"64","memory":"64Gi","pods":"250"}}}`, name))
	p.must(t, "POST", "/api/v1/namespaces/spark/pods", fmt.Appendf(nil, `{"metadata":{"name":%q,"annotations":{"candor.dev/class":"sensitive"}},
		"spec":{"schedulerName":"candor-scheduler","nodeSelector":{"kubernetes.io/hostname":"of-%[1]s"},"containers":[{"name":"app","image":"web",
		"resources":{"limits":{"cpu":"1500m","memory":"1Mi"}}}]}}`, name))
	p.must(t, "PUT", "/api/v1/nodes/of-"+name, p.changed(t, "/api/v1/nodes/of-"+name, func(m map[string]any) {
		m["labels"] = map[string]string{"kubernetes.io/hostname": "of-" + name}
	}))
}

// TestSchedulerUnderPolicies: with the chart's policies in force, the chart's scheduler places sensitive pods with exactly the chart's rights.
// So does another scheduler that the value schedulers names.
func TestSchedulerUnderPolicies(t *testing.T) {
	p := install(t)
	p.apply(t, fromDocs)
	for name, c := range map[string]struct {
		token    string
		election any // nil: as the chart has it
	}{
		"charts": {tokenOf(t, p, scheduler, ""), nil},
		"named":  {kubeSchedulerToken, map[string]any{}}, // by the lease that Kubernetes' own has
	} {
		t.Run(name, func(t *testing.T) {
			placeable(t, p, name)
			node, cpus := planned(t, p, name)
			log := startScheduler(t, p, c.token, c.election)
			var pod struct {
				Metadata struct{ Annotations map[string]string }
				Spec     struct{ NodeName string }
			}
			eventually(t, "the pod is bound", func() bool {
				return json.Unmarshal([]byte(p.must(t, "GET", "/api/v1/namespaces/spark/pods/"+name, nil)), &pod) == nil && pod.Spec.NodeName != ""
			})
			if hint := pod.Metadata.Annotations["candor.dev/hint"]; hint != `{"node":"of-`+name+`","containers":{"app":"0,32:500m"}}` {
				t.Errorf("hint %q", hint)
			}
			if node != pod.Spec.NodeName || cpus != "0,32:500m" {
				t.Errorf("kubectl candor plan chooses %s, CPUs %s: it is on %s", node, cpus, pod.Spec.NodeName)
			}
			if strings.Contains(log(), "forbidden") {
				t.Error("it lacks a right")
			}
		})
	}
}

// TestUnknownScheduler: if the policies do not name the scheduler, its binding is refused with a message, and the pod does not change.
func TestUnknownScheduler(t *testing.T) {
	p := install(t)
	placeable(t, p, "unnamed")
	startScheduler(t, p, adminToken, map[string]any{"leaderElect": false})
	eventually(t, "the pod's events say why it waits", func() bool {
		return strings.Contains(p.must(t, "GET", "/api/v1/namespaces/spark/events?fieldSelector=involvedObject.name=unnamed", nil), "only the scheduler writes the annotation candor.dev/hint")
	})
	if pod := p.must(t, "GET", "/api/v1/namespaces/spark/pods/unnamed", nil); strings.Contains(pod, "candor.dev/policy") || !strings.Contains(pod, "candor.dev/class") {
		t.Errorf("it was not bound, and has other annotations than its own: %s", pod)
	}
}
