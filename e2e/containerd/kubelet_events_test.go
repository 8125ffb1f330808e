package containerd

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// describes waits until kubectl describe shows an Event with this reason of an object, whose message has all texts.
func (c *chain) describes(kind, name, reason string, texts ...string) {
	c.Helper()
	line := ""
	c.wait("the Event "+reason+" of "+name, c.plugin, func() bool {
		out, err := exec.Command("kubectl", "--kubeconfig", c.path("kubeconfig"), "describe", kind, name).CombinedOutput()
		for l := range strings.Lines(string(out)) {
			if strings.Contains(l, " "+reason+" ") && strings.Contains(l, "candor.dev/nri") {
				line = l
			}
		}
		return err == nil && line != ""
	})
	c.Logf("%s", strings.TrimSpace(line))
	if slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
		c.Errorf("%s %s: want %q", kind, name, texts)
	}
}

// TestKubeletEvents: kubectl describe shows each kind of Event about a pod of a real kubelet, and about the node, with the next
// step.
func TestKubeletEvents(t *testing.T) {
	needKubelet(t)
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip(err)
	}
	l := newEngine(t)
	if all := l.all(); all.Count() != 2 {
		t.Skipf("counts with a node of 2 CPUs, has %v", all)
	}
	l.write("nri.yaml", "version: 1\nrepairEvery: 1s\nnode: {minShared: 300m}\n")
	api := newAPIServer(l)
	api.define()
	k := startKubelet(l, "cpuManagerPolicy: none\n", "--kubeconfig", l.path("kubeconfig"))
	k.wait("the node", k.daemon, func() bool {
		code, _ := api.request("GET", nodePath, "", nil)
		return code == 200
	})
	c := &chain{servedPod: &servedPod{kubelet: k, api: api}}
	c.startReporting()
	c.describes("node", "node", "CPUAllocatableDiffers", "differs from the CPU time that Candor can allocate, 1700m: set systemReserved")

	unlimited := limited("app", 100)
	delete(unlimited, "resources")
	api.makePod("free", "node", unlimited)
	c.describes("pod", "free", "DowngradedNoLimit", "container default/free/app is treated as flexible: it has no CPU limit; set a CPU limit")
	burstable := limited("app", 200)
	burstable["resources"].(map[string]any)["requests"] = map[string]string{"cpu": "100m", "memory": "64Mi"}
	api.makePod("part", "node", burstable)
	c.describes("pod", "part", "DowngradedRequestNotLimit", "its CPU request of 100m is not its limit, 200m; set its CPU request to its limit")

	c.servedPod = newServedPod(k, api, "node", 1200) // 500m are left for sensitive containers
	api.makePod("late", "node", limited("app", 600))
	c.describes("pod", "late", "CPUsRefused", "container default/late/app: no capacity: ", "; use another node, a smaller limit")
	api.does("DELETE", podPath+"/late", "application/json", map[string]int{"gracePeriodSeconds": 0})
	c.resize(1800)
	c.describes("pod", "web", "CPUResizeRefused", "resize of container default/web/app: no capacity: ", "; it keeps its CPUs and its limit")
	c.resize(1200)

	g := c.granted()
	group := c.allPods().EngineGroup("app", g.Engine.Cgroup)
	settings, err := group.Settings()
	if err != nil {
		t.Fatal(err)
	}
	settings.CPUs = otherCPUs(settings.CPUs, l.all())
	if err := group.Apply(settings); err != nil {
		t.Fatal(err)
	}
	c.describes("pod", "web", "CPUsRepaired", "container default/web/app had CPUs ", " again: another program writes its cgroup")

	// A container that starts without the plugin has no view.
	c.plugin.kill()
	api.makePod("blind", "node", limited("app", 300))
	k.wait("the container of blind", k.daemon, func() bool {
		r, err := k.cri.ListContainers(context.Background(), &cri.ListContainersRequest{Filter: &cri.ContainerFilter{
			State:         &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING},
			LabelSelector: map[string]string{"io.kubernetes.pod.name": "blind"},
		}})
		return err == nil && len(r.Containers) == 1
	})
	c.startReporting()
	c.describes("pod", "blind", "CPUViewWrong", "container default/blind/app sees 1/2 CPUs, and its limit is 300m: no view is mounted: restart it to mount the view")
}
