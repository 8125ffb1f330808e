package kubernetes

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/candor-project/candor/e2e/previous"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// helmValues are arguments of helm install, which charts of both versions accept.
var helmValues = map[string]string{
	"default":   "",
	"scheduler": "--set 'publish=true,scheduler.enabled=true,sensitiveOnlyIn={spark,default},metrics.recordHistogram=100ms'",
}

// TestHelmInstall: the commands of docs/install.md install the chart, and those of docs/deploy.md remove it. The API server accepts the
// objects of the chart with all values, without a field that it does not know.
func TestHelmInstall(t *testing.T) {
	c, current := newHelmCluster(t), currentChart(t)
	c.run("helm lint --strict " + current)
	for name, values := range helmValues {
		if out := c.run("helm install candor " + current + " --namespace candor-system --dry-run=server " + values); !strings.Contains(out, "kind: DaemonSet\n") {
			t.Errorf("%s: helm install --dry-run=server prints\n%s", name, out)
		}
	}
	c.runBlock(installPage, "### Kubernetes", current, "")
	c.checkObjects()
	c.checkCRDs(current)

	c.runBlock(deployPage, "## Remove Candor", current, "")
	if left := c.objects(); len(left) > 0 {
		t.Errorf("after the removal, the cluster has %v", left)
	}
	c.checkCRDs(current) // helm retains them
	c.checkFields()
}

// checkFields checks that the API server knows all fields of the rendered charts in deploy/helm/testdata.
func (c *helmCluster) checkFields() {
	c.Helper()
	const strict = "?fieldManager=test&force=true&dryRun=All&fieldValidation=Strict"
	unknown := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"unknown","namespace":"candor-system"},"dat":{}}`)
	if code, answer := c.try("PATCH", places["ConfigMap"]+"/unknown"+strict, adminToken, unknown); code/100 == 2 {
		c.Errorf("the API server accepts an unknown field: %s", answer)
	}
	files, err := filepath.Glob("../../deploy/helm/testdata/*.yaml")
	if err != nil || len(files) < 5 {
		c.Fatalf("%v: %q", err, files)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			c.Fatal(err)
		}
		c.each(c.T, string(text), func(path, name string, body []byte) {
			if code, answer := c.try("PATCH", path+"/"+name+strict, adminToken, body); code/100 != 2 {
				c.Errorf("%s: %s/%s: %d %s", file, path, name, code, answer)
			}
		})
	}
}

// TestHelmUpgrade: the commands of docs/install.md upgrade the chart of the previous version to the chart of this source tree, with its
// CRDs, and roll it back. After the rollback, all objects equal those of the previous version, and its agents can report.
func TestHelmUpgrade(t *testing.T) {
	needPlane(t)
	earlier, current := filepath.Join(previous.Sources(t, "../..", chartDir), chartDir), currentChart(t)
	for name, values := range helmValues {
		t.Run(name, func(t *testing.T) {
			c := newHelmCluster(t)
			publishes := values != ""
			c.runBlock(installPage, "### Kubernetes", earlier, values)
			before := c.checkObjects()
			c.checkCRDs(earlier)
			if publishes && c.reported(v1alpha1.GivenBack) != "" {
				t.Errorf("the CRD of %s already stores the phase", previous.Release)
			}

			c.runBlock(installPage, "### Upgrade the chart", current, "")
			c.checkObjects()
			c.checkCRDs(current)
			if publishes {
				eventually(t, "the new CRD stores the phase", func() bool { return c.reported(v1alpha1.GivenBack) == v1alpha1.GivenBack })
			}

			c.runBlock(installPage, "### Roll the chart back", current, "")
			c.checkEqual(before, c.checkObjects())
			c.checkCRDs(current)
			if publishes && c.reported("") != "" { // without the fields of the new version
				t.Error("the phase remains")
			}

			c.runBlock(installPage, "### Upgrade the chart", current, "")
			c.checkObjects()
			c.runBlock(deployPage, "## Remove Candor", current, "")
			if left := c.objects(); len(left) > 0 {
				t.Errorf("after the removal, the cluster has %v", left)
			}
		})
	}
}

// checkEqual compares the objects before an upgrade and after the rollback.
func (c *helmCluster) checkEqual(before, after map[string]any) {
	c.Helper()
	for name, object := range before {
		if reflect.DeepEqual(object, after[name]) {
			continue
		}
		was, _ := json.Marshal(object)
		is, _ := json.Marshal(after[name])
		c.Errorf("%s was\n%s\nafter the rollback it is\n%s", name, was, is)
	}
	for name := range after {
		if before[name] == nil {
			c.Errorf("%s remains after the rollback", name)
		}
	}
}

// reported writes a report as the agent of a node, and returns the phase that the API server stores.
func (c *helmCluster) reported(phase string) string {
	c.Helper()
	const node = "upgraded"
	agent := agentOf(c.T, c.controlPlane, node)
	eventually(c.T, "the agent's rights are in force", func() bool {
		code, _ := c.try("GET", nodeCPUs+"/none", agent, nil)
		return code == http.StatusNotFound
	})
	s := report(c.T, 5)
	s.Phase = phase
	code, answer := writeReport(c.T, c.controlPlane, node, s)
	var stored v1alpha1.NodeCPU
	if err := json.Unmarshal([]byte(answer), &stored); err != nil || code != http.StatusOK {
		c.Fatalf("%d %v %s", code, err, answer)
	}
	return stored.Status.Phase
}
