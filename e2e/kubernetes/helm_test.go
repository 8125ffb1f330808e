package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/candor-project/candor/internal/docblock"
)

const (
	chartDir    = "deploy/helm/candor" // in the repository
	installPage = "../../docs/install.md"
	deployPage  = "../../docs/deploy.md"
)

// A helmCluster is a cluster without nodes, for helm and kubectl.
type helmCluster struct {
	*testing.T
	*controlPlane
	helm string // directory of the program
}

// newHelmCluster starts an API server and its etcd. The other tests of the package change the objects of the shared API server.
func newHelmCluster(t *testing.T) *helmCluster {
	t.Helper()
	needPlane(t)
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip(err)
	}
	helm, err := exec.Command("../../scripts/helm.sh").Output()
	if err != nil {
		t.Fatal(err)
	}
	c := &helmCluster{t, &controlPlane{dir: t.TempDir()}, filepath.Dir(strings.TrimSpace(string(helm)))}
	t.Cleanup(c.controlPlane.stop)
	if err := c.start(os.Getenv("CANDOR_ETCD"), os.Getenv("CANDOR_APISERVER")); err != nil {
		t.Fatal(err)
	}
	c.writeAccess(t, c.path("kubeconfig"), adminToken)
	return c
}

// run runs a shell command, which must succeed, and returns its output.
func (c *helmCluster) run(command string) string {
	c.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "PATH="+c.helm+":"+os.Getenv("PATH"), "HOME="+c.dir, "KUBECONFIG="+c.path("kubeconfig"))
	out, err := cmd.Output()
	if err != nil {
		if exit := new(exec.ExitError); errors.As(err, &exit) {
			out = append(out, exit.Stderr...)
		}
		c.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// runBlock runs the first block of a section with a chart in a directory instead of the chart of a release, and with additional
// arguments of helm install. The cluster has no node: the doctor is omitted, and the API server only checks the pod.
func (c *helmCluster) runBlock(page, heading, chart, values string) {
	c.Helper()
	blocks, err := docblock.Blocks(page, heading)
	if err != nil {
		c.Fatal(err)
	}
	for _, command := range blocks[0].Commands {
		command = docblock.Chart.ReplaceAllLiteralString(command, chart)
		switch {
		case strings.Contains(command, "doctor"):
		case strings.HasPrefix(command, "kubectl run "):
			c.checkPod(c.run(strings.Replace(command, " --attach", " --dry-run=server --output=json", 1)))
		case strings.HasPrefix(command, "helm install "):
			c.run(command + " " + values)
		case strings.Contains(command, " rollout status daemonset/candor"):
			c.finishRollout()
			c.run(command)
		default:
			c.run(command)
		}
	}
}

// currentChart returns the directory of the chart in this source tree.
func currentChart(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("../..", chartDir))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// checkPod checks the pod of docs/install.md, as the API server would store it.
func (c *helmCluster) checkPod(text string) {
	c.Helper()
	var pod struct {
		Metadata struct{ Annotations map[string]string }
		Spec     struct {
			Containers []struct {
				Command   []string
				Resources struct{ Limits, Requests map[string]string }
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &pod); err != nil || len(pod.Spec.Containers) != 1 {
		c.Fatalf("%v\n%s", err, text)
	}
	container := pod.Spec.Containers[0]
	if pod.Metadata.Annotations["candor.dev/class"] != "sensitive" || fmt.Sprint(container.Command) != "[nproc]" ||
		container.Resources.Limits["cpu"] != "1500m" || container.Resources.Requests["cpu"] != "1500m" {
		c.Errorf("the pod is %+v", pod)
	}
}

// finishRollout writes the status of the DaemonSet as the DaemonSet controller does in a cluster without nodes.
func (c *helmCluster) finishRollout() {
	c.Helper()
	path := places["DaemonSet"] + "/candor"
	var set map[string]any
	if err := json.Unmarshal([]byte(c.must(c.T, "GET", path, nil)), &set); err != nil {
		c.Fatal(err)
	}
	set["status"] = map[string]any{"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
		"observedGeneration": set["metadata"].(map[string]any)["generation"]}
	body, err := json.Marshal(set)
	if err != nil {
		c.Fatal(err)
	}
	c.must(c.T, "PUT", path+"/status", body)
}

// objects returns the objects of the release in the cluster by KIND/NAME, without the fields that the API server changes by itself.
func (c *helmCluster) objects() map[string]any {
	c.Helper()
	all := map[string]any{}
	for kind, path := range places {
		path = strings.Replace(path, "/namespaces/candor-system", "", 1) // of all namespaces
		var list struct{ Items []map[string]any }
		if err := json.Unmarshal([]byte(c.must(c.T, "GET", path, nil)), &list); err != nil {
			c.Fatal(err)
		}
		for _, object := range list.Items {
			metadata := object["metadata"].(map[string]any)
			annotations, _ := metadata["annotations"].(map[string]any)
			if annotations["meta.helm.sh/release-name"] != "candor" {
				continue
			}
			delete(annotations, "deprecated.daemonset.template.generation")
			for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
				delete(metadata, field)
			}
			delete(object, "status")
			all[kind+"/"+metadata["name"].(string)] = object
		}
	}
	return all
}

// checkObjects checks that the cluster has exactly the objects of the release, each with all its fields, and returns them.
func (c *helmCluster) checkObjects() map[string]any {
	c.Helper()
	has, wants := c.objects(), c.manifest(c.run("helm get manifest candor --namespace candor-system"))
	for name, fields := range wants {
		delete(fields.(map[string]any), "apiVersion") // objects in lists have neither
		delete(fields.(map[string]any), "kind")
		if path := missingField(has[name], fields); path != "" {
			c.Errorf("%s: the API server stores other values than the chart at %s", name, path)
		}
	}
	for name := range has {
		if wants[name] == nil {
			c.Errorf("%s is not in the chart, and remains", name)
		}
	}
	if len(wants) < 3 {
		c.Errorf("the release has %d objects, want at least 3", len(wants))
	}
	return has
}

// manifest returns the objects of a manifest by KIND/NAME, in the types of JSON.
func (c *helmCluster) manifest(text string) map[string]any {
	c.Helper()
	all := map[string]any{}
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var document any
		err := d.Decode(&document)
		if errors.Is(err, io.EOF) {
			return all
		}
		var body []byte
		if err == nil {
			body, err = json.Marshal(document)
		}
		var object struct {
			Kind     string
			Metadata struct{ Name string }
		}
		var fields map[string]any
		if err == nil {
			err = errors.Join(json.Unmarshal(body, &object), json.Unmarshal(body, &fields))
		}
		if err != nil {
			c.Fatal(err)
		}
		if fields == nil {
			continue
		}
		if places[object.Kind] == "" {
			c.Fatalf("the test does not know the path of kind %q", object.Kind)
		}
		all[object.Kind+"/"+object.Metadata.Name] = fields
	}
}

// missingField returns the path of a field whose value in an object differs, or "". The API server adds fields, and omits empty values.
func missingField(object, fields any) string {
	switch want := fields.(type) {
	case map[string]any:
		has, _ := object.(map[string]any)
		for key, value := range want {
			if path := missingField(has[key], value); path != "" {
				return "." + key + path
			}
		}
		return ""
	case []any:
		has, _ := object.([]any)
		if len(has) != len(want) {
			return fmt.Sprintf(": %v, want %v", object, fields)
		}
		for i, value := range want {
			if path := missingField(has[i], value); path != "" {
				return fmt.Sprintf("[%d]%s", i, path)
			}
		}
		return ""
	}
	if object == nil && (fields == nil || reflect.ValueOf(fields).IsZero()) || object == fields {
		return ""
	}
	return fmt.Sprintf(": %v, want %v", object, fields)
}

// checkCRDs checks that the API server stores the versions of the CRDs in a chart, without differences.
func (c *helmCluster) checkCRDs(chart string) {
	c.Helper()
	files, err := filepath.Glob(filepath.Join(chart, "crds", "*.yaml"))
	if err != nil || len(files) != 2 {
		c.Fatalf("%v: %q", err, files)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			c.Fatal(err)
		}
		for name, want := range c.manifest(string(text)) {
			_, name, _ = strings.Cut(name, "/")
			var has map[string]any
			if err := json.Unmarshal([]byte(c.must(c.T, "GET", places["CustomResourceDefinition"]+"/"+name, nil)), &has); err != nil {
				c.Fatal(err)
			}
			got, wanted := versionsOf(has), versionsOf(want)
			if !bytes.Equal(got, wanted) {
				c.Errorf("%s has the versions\n%s, want\n%s", name, got, wanted)
			}
		}
	}
}

// versionsOf returns the versions of a CRD as JSON with sorted keys.
func versionsOf(crd any) []byte {
	text, err := json.Marshal(crd.(map[string]any)["spec"].(map[string]any)["versions"])
	if err != nil {
		panic(err) // it is decoded JSON
	}
	return text
}
