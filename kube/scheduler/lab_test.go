package scheduler

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/candor-project/candor/kube/v1alpha1"
)

var (
	ctx      = context.Background()
	nodeCPUs = v1alpha1.GroupVersion.WithResource(v1alpha1.NodeCPUs)
)

const patience = time.Minute // for operations of milliseconds

// until waits until holds returns true. It fails the test with the description of the condition after
// patience.
func until(t testing.TB, condition string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, condition)
		}
	}
}

// installObjects creates the chart's custom resource definitions and waits until the API server serves them.
func (p *plane) installObjects() error {
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	files, err := filepath.Glob("../../deploy/helm/candor/crds/*.yaml")
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no definitions in the chart: %w", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
			var u unstructured.Unstructured
			if err := yaml.Unmarshal(document, &u.Object); err != nil {
				return err
			}
			if _, err := p.dynamic.Resource(definitions).Create(ctx, &u, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		_, err := p.dynamic.Resource(nodeCPUs).List(ctx, metav1.ListOptions{})
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

// clear deletes all objects of a test.
func (p *plane) clear(t testing.TB) {
	t.Helper()
	now, all := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}
	err := p.client.CoreV1().Pods("default").DeleteCollection(ctx, now, all)
	for _, remove := range []func() error{
		func() error { return p.client.CoreV1().Nodes().DeleteCollection(ctx, now, all) },
		func() error { return p.dynamic.Resource(nodeCPUs).DeleteCollection(ctx, now, all) },
		func() error {
			return p.dynamic.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.CPUProfiles)).Namespace("default").DeleteCollection(ctx, now, all)
		},
		func() error { return p.client.CoordinationV1().Leases("kube-system").DeleteCollection(ctx, now, all) },
	} {
		if e := remove(); err == nil {
			err = e
		}
	}
	if err != nil {
		t.Error(err)
	}
}

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: l, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: a, user: {token: %s}}]
contexts: [{name: c, context: {cluster: l, user: a}}]
current-context: c
`

// A setup configures a scheduler. The zero value is a single default profile with Candor, which filters all
// nodes.
type setup struct {
	leases      bool // with leader election
	onlyScore   bool // disable the scores of all other plugins
	twoProfiles bool // add a second profile, "other"
	qps         int  // maximum API calls per second; 0 means 5000
	sampleNodes bool // filter only the number of nodes that kube-scheduler filters by default
	without     bool // disable Candor
	bindLate    bool // the default binder comes before Candor
	nodes       int  // nodesToScore; 0 means the default
}

func (s setup) config(kubeconfig string) string {
	percentage, plugins, binders := 100, "{name: Candor}", "{name: Candor}"
	if s.sampleNodes {
		percentage = 0
	}
	if s.without {
		plugins = ""
	}
	if s.without || s.bindLate {
		binders = ""
	}
	text := fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %[1]q, qps: %[3]d, burst: %[3]d}
leaderElection: {leaderElect: %[2]v, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 500ms}
percentageOfNodesToScore: %[4]d
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint: {enabled: [%[5]s]}
    postFilter: {enabled: [%[5]s]}
    bind: {enabled: [%[6]s]}
`, kubeconfig, s.leases, cmp.Or(s.qps, 5000), percentage, plugins, binders)
	if s.onlyScore {
		text += "    score: {disabled: [{name: \"*\"}], enabled: [{name: Candor}]}\n"
	}
	if s.nodes > 0 {
		text += fmt.Sprintf("  pluginConfig: [{name: Candor, args: {nodesToScore: %d}}]\n", s.nodes)
	}
	if s.twoProfiles {
		text += "- schedulerName: other\n  plugins:\n    multiPoint: {enabled: [{name: Candor}]}\n    postFilter: {enabled: [{name: Candor}]}\n    bind: {enabled: [{name: Candor}]}\n"
	}
	return text
}

// A child is a running scheduler.
type child struct {
	*exec.Cmd
	log  string
	port int
}

// startScheduler starts a scheduler and kills it at the end of the test. If the test failed, it prints the
// end of the log.
func (p *plane) startScheduler(t testing.TB, s setup) *child {
	t.Helper()
	dir := t.TempDir()
	access, config := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "config.yaml")
	for file, text := range map[string]string{access: fmt.Sprintf(kubeconfig, p.config.Host, token), config: s.config(access)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := &child{log: filepath.Join(dir, "log"), port: freePorts(1)[0]}
	var err error
	c.Cmd, err = startChild(c.log, p.scheduler, "--config="+config, fmt.Sprint("--secure-port=", c.port), "--bind-address=127.0.0.1", "--cert-dir="+dir,
		"--authentication-kubeconfig="+access, "--authorization-kubeconfig="+access)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		kill(c.Cmd)
		if text, err := os.ReadFile(c.log); t.Failed() && err == nil {
			t.Logf("the scheduler's log ends: %s", text[max(0, len(text)-3000):])
		}
	})
	return c
}

// addNode adds a Node without a NodeCPU to the cluster.
func (p *plane) addNode(t testing.TB, name string, cpus int) {
	t.Helper()
	has := v1.ResourceList{"cpu": *resource.NewQuantity(int64(cpus), resource.DecimalSI), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("250")}
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Capacity: has, Allocatable: has}}
	if _, err := p.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A podOption changes a pod before its creation.
type podOption func(*v1.Pod)

func annotated(key, value string) podOption {
	return func(p *v1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
}

func ofSensitive() podOption { return annotated("candor.dev/class", "sensitive") }

// container returns a container with equal request and limit.
func container(name, cpu string) v1.Container {
	amount := v1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("1Mi")}
	return v1.Container{Name: name, Image: "none", Resources: v1.ResourceRequirements{Requests: amount, Limits: amount}}
}

// addPod creates a pod with a single container, app, and applies the options.
func (p *plane) addPod(t testing.TB, name, cpu string, options ...podOption) {
	t.Helper()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{Containers: []v1.Container{container("app", cpu)}}}
	for _, o := range options {
		o(pod)
	}
	if _, err := p.client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (p *plane) pod(t testing.TB, name string) *v1.Pod {
	t.Helper()
	pod, err := p.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// bound waits until a pod has a node, and returns it.
func (p *plane) bound(t testing.TB, name string) *v1.Pod {
	t.Helper()
	var pod *v1.Pod
	until(t, name+" is bound", func() bool {
		pod = p.pod(t, name)
		return pod.Spec.NodeName != ""
	})
	return pod
}

// refused waits until the pod is refused with the wanted message. It logs earlier messages.
func (p *plane) refused(t testing.TB, name, want string) {
	t.Helper()
	message, seen := "", ""
	until(t, name+" is refused with "+want, func() bool {
		for _, c := range p.pod(t, name).Status.Conditions {
			if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
				message = c.Message
			}
		}
		if message != seen {
			t.Logf("%s: %s", name, message)
			seen = message
		}
		return message == want
	})
}

// remove deletes a pod without a grace period.
func (p *plane) remove(t testing.TB, name string) {
	t.Helper()
	if err := p.client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
}

// toUnstructured converts an object for the dynamic client.
func toUnstructured(t testing.TB, object any) *unstructured.Unstructured {
	t.Helper()
	u, err := unstructuredOf(object)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func unstructuredOf(object any) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	return &unstructured.Unstructured{Object: fields}, err
}
