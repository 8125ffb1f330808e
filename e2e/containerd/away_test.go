package containerd

import (
	"testing"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
)

// TestRequestResizedWhileAway: the kubelet resizes the request of a flexible container while no plugin runs.
// The next plugin guarantees the new request and keeps the limit. A sensitive container does not change.
func TestRequestResizedWhileAway(t *testing.T) {
	l := newLab(t)
	c := newCensus(l)
	if c.node.usable.Count() < 2 {
		t.Skip("needs 2 CPUs")
	}
	ctrs := c.three()
	own, log := ctrs[0], ctrs[2]
	had := must[cgroup.Settings](t)(own.has())
	wants := func(when string, request hybrid.Milli) {
		t.Helper()
		if g := c.grantOf(log); g.Guarantee != request || g.Limit != log.limit {
			t.Errorf("%s: granted a limit of %v and %v at least; want %v and %v", when, g.Limit, g.Guarantee, log.limit, request)
		}
		has := must[cgroup.Settings](t)(log.has())
		if !l.allPods().SameWeight(has.Weight, int(request)) {
			t.Errorf("%s: it weighs %d, want %d", when, has.Weight, request)
		}
	}
	wants("made", 100)
	l.plugin.kill()
	if err := log.overwrite(&cri.LinuxContainerResources{CpuShares: 256}); err != nil {
		t.Fatal(err)
	}
	l.startPlugin()
	log.request = 250
	wants("resized while the plugin was away", 250)
	if now := must[cgroup.Settings](t)(own.has()); now != had {
		t.Errorf("the sensitive one beside it has %+v, and had %+v", now, had)
	}
	l.plugin.kill()
	l.startPlugin()
	wants("the plugin started anew", 250)
	c.check()
}

// grantOf returns the grant of a container in the state.
func (c *census) grantOf(ctr *container) *host.Grant {
	c.Helper()
	s, err := c.state.Snapshot()
	if err != nil {
		c.Fatal(err)
	}
	for i := range s.Grants {
		if s.Grants[i].Engine.Name == "default/"+ctr.pod.name+"/"+ctr.name {
			return &s.Grants[i]
		}
	}
	c.Fatalf("%s/%s has no grant", ctr.pod.name, ctr.name)
	return nil
}
