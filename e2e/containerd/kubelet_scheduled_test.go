package containerd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A chain has all programs between a pod's manifest and its process: API server, candor-scheduler, kubelet,
// containerd and candor nri, which reports the CPUs of the node.
type chain struct {
	*servedPod
	scheduler *daemon
}

// newChain starts the programs, and waits until the node accepts pods.
func newChain(t *testing.T) *chain {
	t.Helper()
	needKubelet(t)
	scheduler := os.Getenv("CANDOR_SCHEDULER")
	if scheduler == "" {
		t.Skip("no CANDOR_SCHEDULER: make test-kubelet builds it and runs this")
	}
	l := newEngine(t)
	if all := l.all(); all.Count() != 2 {
		t.Skipf("counts with a node of 2 CPUs, has %v", all)
	}
	l.write("nri.yaml", "version: 1\nrepairEvery: 1s\nnode: {minShared: 300m}\n") // not a reservation of the kubelet
	api := newAPIServer(l)
	api.define()
	k := startKubelet(l, "cpuManagerPolicy: none\n", "--kubeconfig", l.path("kubeconfig"))
	k.wait("the node", k.daemon, func() bool {
		code, _ := api.request("GET", nodePath, "", nil)
		return code == http.StatusOK
	})
	c := &chain{servedPod: &servedPod{kubelet: k, api: api}}
	c.startReporting()
	l.write("scheduler.yaml", fmt.Sprintf(schedulerConfig, l.path("kubeconfig")))
	c.scheduler = l.start(scheduler, "--config", l.path("scheduler.yaml"), "--secure-port", "0")
	l.Cleanup(func() {
		c.scheduler.kill()
		if l.Failed() {
			l.Logf("log of the scheduler:\n%s", last(c.scheduler.output(), 4000))
		}
	})
	return c
}

const (
	nodePath = "/api/v1/nodes/node"
	merge    = "application/merge-patch+json"

	schedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q}
leaderElection: {leaderElect: false}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
profiles: [{schedulerName: default-scheduler, plugins: {multiPoint: {enabled: [{name: Candor}]}, postFilter: {enabled: [{name: Candor}]}, bind: {enabled: [{name: Candor}]}}}]
`
)

// define creates the CRDs of the chart.
func (a *apiServer) define() {
	a.Helper()
	files, err := filepath.Glob("../../deploy/helm/candor/crds/*.yaml")
	if err != nil || len(files) == 0 {
		a.Fatalf("no definitions in the chart: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			a.Fatal(err)
		}
		for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
			var object map[string]any
			if err := d.Decode(&object); err == io.EOF {
				break
			} else if err != nil {
				a.Fatal(err)
			}
			a.does("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json", object)
		}
	}
	for _, kind := range []string{"nodecpus", "cpuprofiles"} {
		a.wait(kind, a.daemon, func() bool {
			code, _ := a.request("GET", "/apis/candor.dev/v1alpha1/"+kind, "", nil)
			return code == http.StatusOK
		})
	}
}

// startReporting starts candor nri as the chart does with publish, and waits until it has reported.
func (c *chain) startReporting() {
	c.Helper()
	c.startPlugin("--publish", "--node-name", "node", "--kubeconfig", c.path("kubeconfig"), "--metrics", "0")
	c.wait("the node's report", c.plugin, func() bool { return c.reported().usable() != "" })
}

// A nodeReport has the fields of a NodeCPU that the tests use.
type nodeReport struct {
	Status struct {
		Pools  struct{ Exclusive, Fractional, Shared string }
		Grants []struct{ Pod, Container, Class, Limit, CPUs string }
	}
}

// usable returns all CPUs of the report.
func (r *nodeReport) usable() string {
	return r.Status.Pools.Exclusive + r.Status.Pools.Fractional + r.Status.Pools.Shared
}

// of returns the limit and the CPUs of a container in a report.
func (r *nodeReport) of(container string) string {
	for _, g := range r.Status.Grants {
		if g.Container == container {
			return g.Class + " " + g.Limit + " " + g.CPUs
		}
	}
	return ""
}

// reported returns the report of the node, or an empty report if it is missing.
func (c *chain) reported() *nodeReport {
	c.Helper()
	r := new(nodeReport)
	if code, text := c.api.request("GET", "/apis/candor.dev/v1alpha1/nodecpus/node", "", nil); code == http.StatusOK {
		if err := json.Unmarshal(text, r); err != nil {
			c.Fatal(err)
		}
	}
	return r
}

// reports waits until the node's report of app equals the state.
func (c *chain) reports(when string) {
	c.Helper()
	g := c.granted()
	var parts []string
	if !g.Exclusive.IsEmpty() {
		parts = append(parts, g.Exclusive.String())
	}
	for _, f := range g.Fractions {
		parts = append(parts, fmt.Sprintf("%d:%v", f.CPU, f.Milli))
	}
	want := fmt.Sprintf("sensitive %v %s", g.Limit, strings.Join(parts, ","))
	c.wait(when+": the report "+want, c.plugin, func() bool { return c.reported().of("app") == want })
}

// counts waits until the plugin's counters of hint outcomes have the expected values.
func (c *chain) counts(taken, missed float64) {
	c.Helper()
	p := c.newProber(c.plugin.output())
	p.wants(`candor_hints_total{result="taken"}`, taken)
	p.wants(`candor_hints_total{result="missed"}`, missed)
	p.wants(`candor_hints_total{result="malformed"}`, 0)
}

// waitForEvent waits for an Event of a pod with this reason whose message contains the words.
func (c *chain) waitForEvent(pod, reason string, words ...string) {
	c.Helper()
	c.wait("the event "+reason+" of "+pod, c.scheduler, func() bool {
		var events struct {
			Items []struct{ Reason, Message string }
		}
		text := c.api.does("GET", "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name="+pod, "", nil)
		if err := json.Unmarshal(text, &events); err != nil {
			c.Fatal(err)
		}
		for _, e := range events.Items {
			lacks := func(word string) bool { return !strings.Contains(e.Message, word) }
			if e.Reason == reason && !slices.ContainsFunc(words, lacks) {
				c.Logf("%s: %s: %s", pod, e.Reason, e.Message)
				return true
			}
		}
		return false
	})
}

// hinted returns the scheduler's hint for app in its pod.
func (c *chain) hinted() string {
	c.Helper()
	var pod struct {
		Metadata struct{ Annotations map[string]string }
		Spec     struct{ NodeName string }
	}
	if err := json.Unmarshal(c.api.does("GET", podPath+"/web", "", nil), &pod); err != nil {
		c.Fatal(err)
	}
	if pod.Spec.NodeName != "node" {
		c.Errorf("web is on node %q", pod.Spec.NodeName)
	}
	return pod.Metadata.Annotations["candor.dev/hint"]
}

// drain drains the node as kubectl drain does: it marks the node unschedulable and evicts the pods.
func (c *chain) drain() {
	c.Helper()
	c.api.does("PATCH", nodePath, merge, map[string]any{"spec": map[string]any{"unschedulable": true}})
	c.api.does("POST", podPath+"/web/eviction", "application/json", map[string]any{
		"apiVersion": "policy/v1", "kind": "Eviction", "metadata": map[string]string{"name": "web", "namespace": "default"}})
	c.wait("the end of web", c.plugin, func() bool {
		s, err := c.state.Snapshot()
		r := c.reported()
		return err == nil && len(s.Grants) == 0 && len(r.Status.Grants) == 0 && r.usable() != ""
	})
}

// TestKubeletScheduled: candor-scheduler places a pod of 1500m. The pod gets the CPUs of its hint, sees two
// CPUs, and is part of the node's report, through resizes, a restart, a kill of the plugin, refusals on both
// sides, and a drain.
func TestKubeletScheduled(t *testing.T) {
	c := newChain(t)
	api := c.api
	c.servedPod = newServedPod(c.kubelet, api, "", 1500)
	c.settles("begun", 1500, 1000+logLimit)
	g := c.granted()
	if want := fmt.Sprintf(`{"node":"node","containers":{"app":"%v,%d:500m"}}`, g.Exclusive, g.Fractions[0].CPU); c.hinted() != want {
		t.Errorf("hint %s, app has %s", c.hinted(), want)
	}
	c.counts(1, 0)
	c.reports("begun")

	c.resize(1600)
	c.settles("resized up", 1600, 1200+logLimit)
	c.reports("resized up")
	_, had := c.has()
	c.refused(had)
	c.resize(1200)
	c.settles("resized down", 1200, 400+logLimit)
	c.reports("resized down")

	before := c.granted().CPUs
	if _, err := c.cri.StopContainer(context.Background(), &cri.StopContainerRequest{ContainerId: c.app}); err != nil {
		t.Fatal(err)
	}
	c.running("web", 1200, c.app)
	c.settles("restarted", 1200, 400+logLimit)
	if now := c.granted().CPUs; now != before {
		t.Errorf("restarted it has the CPUs %v, and had %v", now, before)
	}
	c.counts(1, 0) // the CPUs are unchanged

	pod, app := c.has()
	c.plugin.kill()
	c.startReporting()
	if podNow, appNow := c.has(); podNow != pod || appNow != app {
		t.Errorf("the plugin was started anew: the pod has %+v and had %+v, app has %+v and had %+v", podNow, pod, appNow, app)
	}
	c.reports("the plugin started anew")

	// The scheduler counts the CPU time that the node reserves for flexible containers. The node refuses a
	// pod that bypasses the scheduler, with the reason.
	api.makePod("late", "", limited("app", 700))
	c.waitForEvent("late", "FailedScheduling", "0/1 nodes are available", "no capacity")
	api.makePod("direct", "node", limited("app", 600))
	c.waitForEvent("direct", "Failed", "candor: container default/direct/app: no capacity: ")
	for _, name := range []string{"late", "direct"} {
		api.does("DELETE", podPath+"/"+name, "application/json", map[string]int{"gracePeriodSeconds": 0})
	}

	c.drain()
	api.makePod("web", "", limited("app", 1000), limited("log", logLimit))
	c.waitForEvent("web", "FailedScheduling", "unschedulable")
	api.does("PATCH", nodePath, merge, map[string]any{"spec": map[string]any{"unschedulable": nil}})
	c.app, _ = c.running("web", 1000, "")
	c.settles("after the drain", 1000, 1000+logLimit)
	if g := c.granted(); c.hinted() != fmt.Sprintf(`{"node":"node","containers":{"app":"%v"}}`, g.Exclusive) {
		t.Errorf("hint %s, app has %v", c.hinted(), g.Exclusive)
	}
	c.counts(1, 0)
}
