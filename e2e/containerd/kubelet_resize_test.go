package containerd

import (
	"context"
	"encoding/json"
	"os/exec"
	"path"
	"strings"
	"testing"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
)

// A servedPod is a pod that the kubelet gets from the API server. It has a sensitive container app, and a
// container log with 100m.
type servedPod struct {
	*kubelet
	api *apiServer
	app string // the runtime's id of app
}

const (
	podPath  = "/api/v1/namespaces/default/pods"
	logLimit = 100
)

// newServedPod creates a pod whose container app has a limit, and waits until it runs. If node is empty, the
// scheduler selects the node.
func newServedPod(k *kubelet, api *apiServer, node string, limit hybrid.Milli) *servedPod {
	k.Helper()
	api.makePod("web", node, limited("app", limit), limited("log", logLimit))
	p := &servedPod{kubelet: k, api: api}
	p.app, _ = k.running("web", limit, "")
	return p
}

// limited returns a container with a limit for a pod's manifest.
func limited(name string, limit hybrid.Milli) map[string]any {
	amounts := map[string]string{"cpu": limit.String(), "memory": "64Mi"}
	return map[string]any{"name": name, "image": busybox, "imagePullPolicy": "Never",
		"resources": map[string]any{"limits": amounts, "requests": amounts}}
}

// makePod creates a pod whose container app is sensitive.
func (a *apiServer) makePod(name, node string, containers ...map[string]any) {
	a.Helper()
	spec := map[string]any{"hostNetwork": true, "terminationGracePeriodSeconds": 0, "containers": containers}
	if node != "" {
		spec["nodeName"] = node
	}
	a.does("POST", podPath, "application/json", map[string]any{
		"apiVersion": "v1", "kind": "Pod", "spec": spec,
		"metadata": map[string]any{"name": name, "annotations": map[string]string{"class.candor.dev/app": "sensitive"}},
	})
}

// resize requests another limit for app.
func (p *servedPod) resize(limit hybrid.Milli) {
	p.Helper()
	both := map[string]string{"cpu": limit.String()}
	p.api.does("PATCH", podPath+"/web/resize", "application/strategic-merge-patch+json", map[string]any{"spec": map[string]any{
		"containers": []any{map[string]any{"name": "app", "resources": map[string]any{"limits": both, "requests": both}}}}})
}

// granted returns the grant of app in the state.
func (p *servedPod) granted() *host.Grant {
	p.Helper()
	s, err := p.state.Snapshot()
	if err != nil {
		p.Fatal(err)
	}
	for i := range s.Grants {
		if s.Grants[i].Engine.Name == "default/web/app" {
			return &s.Grants[i]
		}
	}
	p.Fatal("app has no grant")
	return nil
}

// has returns the kernel's settings of the pod's group and of app.
func (p *servedPod) has() (pod cgroup.CPULimits, app cgroup.Settings) {
	p.Helper()
	g := p.granted()
	pod, err := p.allPods().EngineGroup("pod", path.Dir(g.Engine.Cgroup)).CPULimits()
	if err == nil {
		app, err = p.allPods().EngineGroup("app", g.Engine.Cgroup).Settings()
	}
	if err != nil {
		p.Fatal(err)
	}
	return pod, app
}

// settles waits until the group of the pod has the settings for a limit of app: no effective quota, and the
// sum of Candor's weights of both containers. It then checks that app has its CPUs and sees them.
func (p *servedPod) settles(when string, limit, weight hybrid.Milli) {
	p.Helper()
	p.app, _ = p.running("web", limit, "")
	want := p.allPods().PodWeight(int(weight))
	p.wait(when, p.plugin, func() bool {
		pod, _ := p.has()
		isLifted := pod.Quota == 0 || pod.Quota > 100*pod.Period
		return isLifted && pod.Weight == want
	})
	if _, app := p.has(); app.CPUs.Count() != limit.CPUs() {
		p.Errorf("%s: app has the CPUs %v", when, app.CPUs)
	}
	output := (&container{pod: &pod{lab: p.lab}, name: "app", id: p.app}).exec("nproc")
	if want := (limit + 999) / 1000; output != string(rune('0'+want)) {
		p.Errorf("%s: nproc prints %s, want %d", when, output, want)
	}
}

// TestKubeletResize: a pod of a real kubelet with an API server, through in-place resizes up, refused and
// down, a restart of its container and a restart of the plugin. The pod's group never limits the container,
// and has Candor's weight.
func TestKubeletResize(t *testing.T) {
	needKubelet(t)
	l := newEngine(t)
	l.write("nri.yaml", "version: 1\nrepairEvery: 1s\nnode: {minShared: 300m}\n") // not a reservation of the kubelet
	l.startPlugin()
	if all := l.all(); all.Count() < 2 {
		t.Skip("needs 2 CPUs")
	}
	api := newAPIServer(l)
	k := startKubelet(l, "cpuManagerPolicy: none\n", "--kubeconfig", l.path("kubeconfig"))
	p := newServedPod(k, api, "node", 1200)
	p.settles("begun", 1200, 400+logLimit)
	p.resize(1700)
	p.settles("resized up", 1700, 1400+logLimit)
	p.listed("1700m")

	// The kubelet restarts an ended container as a new container with the CPUs that its pod holds.
	before := p.granted().CPUs
	if _, err := k.cri.StopContainer(context.Background(), &cri.StopContainerRequest{ContainerId: p.app}); err != nil {
		t.Fatal(err)
	}
	p.running("web", 1700, p.app)
	p.settles("restarted by the kubelet", 1700, 1400+logLimit)
	if now := p.granted().CPUs; now != before {
		t.Errorf("restarted it has the CPUs %v, and had %v", now, before)
	}

	pod, app := p.has()
	k.plugin.kill()
	k.startPlugin()
	if podNow, appNow := p.has(); podNow != pod || appNow != app {
		t.Errorf("the plugin was started anew: the pod has %+v and had %+v, app has %+v and had %+v", podNow, pod, appNow, app)
	}
	p.refused(app)
	p.resize(1100)
	p.settles("resized down", 1100, 200+logLimit)
	api.does("DELETE", podPath+"/web", "application/json", map[string]int{"gracePeriodSeconds": 0})
	k.wait("the end of the pod", k.plugin, func() bool {
		s, err := k.state.Snapshot()
		return err == nil && len(s.Grants) == 0
	})
}

// refused requests a limit that the kubelet accepts and Candor cannot grant. The reason is in the pod's
// status, and app does not change.
func (p *servedPod) refused(had cgroup.Settings) {
	p.Helper()
	p.resize(hybrid.Milli(1000*p.node.usable.Count()) - 200)
	type condition struct{ Type, Reason, Message string }
	var pod struct {
		Status struct{ Conditions []condition }
	}
	p.wait("a refusal in the pod's status", p.daemon, func() bool {
		if err := json.Unmarshal(p.api.does("GET", podPath+"/web", "", nil), &pod); err != nil {
			p.Fatal(err)
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == "PodResizeInProgress" && c.Reason == "Error" && strings.Contains(c.Message, "candor: container default/web/app: no capacity: ") {
				return true
			}
		}
		return false
	})
	if _, now := p.has(); now != had {
		p.Errorf("refused, app has %+v and had %+v", now, had)
	}
}

// listed checks that candor ps shows the pod's containers by their names.
func (p *servedPod) listed(limit string) {
	p.Helper()
	out, err := exec.Command(p.candor, "ps", "--state-dir", p.path("candor")).CombinedOutput()
	if err != nil {
		p.Fatalf("candor ps: %v\n%s", err, out)
	}
	for _, want := range [][]string{{"default/web/app", "sensitive", limit}, {"default/web/log", "flexible", "100m"}} {
		found := false
		for line := range strings.Lines(string(out)) {
			fields := strings.Fields(line)
			found = found || len(fields) > 3 && strings.Join(fields[:3], " ") == strings.Join(want, " ") && strings.Contains(line, " running ")
		}
		if !found {
			p.Errorf("candor ps does not list %v as running:\n%s", want, out)
		}
	}
	p.Logf("candor ps:\n%s", out)
}
