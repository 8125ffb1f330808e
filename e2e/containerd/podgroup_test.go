package containerd

import (
	"context"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/hybrid"
)

// group returns the group of the pod, which the CRI client created.
func (p *pod) group() *cgroup.Group {
	if p.slice != "" {
		return p.allPods().EngineGroup(p.name, p.slice)
	}
	return p.allPods().Group(p.name)
}

// isLifted waits until the quota of the pod's group limits no container (or is the kubelet's quota), and the
// group has the weight. The plugin writes both while the container starts, or in the next repair.
func (p *pod) isLifted(when string, lifted bool, weight hybrid.Milli) {
	p.Helper()
	want := p.allPods().PodWeight(int(weight))
	var has cgroup.CPULimits
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var err error
		if has, err = p.group().CPULimits(); err != nil {
			p.Fatal(err)
		}
		if kubelets := has.Quota == time.Duration(p.limit)*100*time.Microsecond; kubelets != lifted && has.Weight == want {
			return
		}
	}
	p.Errorf("%s: %s has %+v; want lifted %v, weight %d\n%s", when, p.name, has, lifted, want, p.plugin.output())
}

// kubeletWrites writes the settings to the pod's group that the kubelet writes at its creation and at an
// in-place resize.
func (p *pod) kubeletWrites(limit hybrid.Milli) {
	p.Helper()
	p.limit = limit
	err := p.group().SetCPULimits(cgroup.CPULimits{
		Quota: time.Duration(limit) * 100 * time.Microsecond, Period: bandwidth.DefaultPeriod, Weight: p.allPods().PodWeight(int(limit))})
	if err != nil {
		p.Fatal(err)
	}
}

// TestPodGroup: the group of a pod through its start, a kill of the plugin, in-place resizes in the kubelet's
// order, and the end of its last container.
func TestPodGroup(t *testing.T) {
	l := newLab(t)
	if all := l.all(); all.Count() < 2 {
		t.Skip("needs 2 CPUs")
	}
	p := must[*pod](t)(l.newPod(1300, 1300, map[string]string{"class.candor.dev/app": "sensitive"}))
	p.kubeletWrites(1300)
	app := must[*container](t)(p.run("app", 1200, 1200, true))
	p.isLifted("2 CPUs with 200m of one", true, 400)
	must[*container](t)(p.run("log", 100, 100, false))
	p.isLifted("and 100m", true, 500)

	l.plugin.kill()
	p.kubeletWrites(1300)
	l.startPlugin()
	p.isLifted("after the plugin was away", true, 500)

	// The kubelet reads a higher quota than it will write, so it writes the pod's quota last, in both directions.
	for _, step := range []struct{ limit, weight hybrid.Milli }{{1700, 1400}, {500, 500}, {1000, 1000}, {1200, 400}} {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		_, err := l.cri.UpdateContainerResources(ctx, &cri.UpdateContainerResourcesRequest{ContainerId: app.id, Linux: resources(step.limit, step.limit)})
		cancel()
		if err != nil {
			t.Fatalf("%v: %v", step.limit, err)
		}
		app.limit, app.request = step.limit, step.limit
		p.kubeletWrites(step.limit + 100)
		p.isLifted("resized to "+step.limit.String(), true, step.weight+100)
		app.sees()
	}

	debug := must[*container](t)(p.run("debug", 0, 0, false)) // an ephemeral container
	p.isLifted("beside one without a limit", false, 510)
	if err := debug.stop(); err != nil {
		t.Fatal(err)
	}
	p.isLifted("after it", true, 500)
	if err := p.remove(); err != nil {
		t.Error(err)
	}
}
