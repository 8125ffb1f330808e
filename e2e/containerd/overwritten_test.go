package containerd

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
)

// overwrite sends an UpdateContainerResources as the kubelet does.
func (c *container) overwrite(r *cri.LinuxContainerResources) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := c.cri.UpdateContainerResources(ctx, &cri.UpdateContainerResourcesRequest{ContainerId: c.id, Linux: r})
	return err
}

// three returns a container with an exclusive CPU, a container with a fraction, and a flexible container.
func (c *census) three() []*container {
	c.Helper()
	var ctrs []*container
	for _, part := range []part{{"own", 1000, 1000, true, false}, {"part", 300, 300, true, false}, {"log", 400, 100, false, false}} {
		annotations := sensitivePod
		if !part.sensitive {
			annotations = nil
		}
		p := must[*pod](c)(c.newPod(part.limit, part.request, annotations))
		ctrs = append(ctrs, must[*container](c)(p.run(part.name, part.limit, part.request, part.sensitive)))
		c.begin(ctrs[len(ctrs)-1])
	}
	return ctrs
}

// TestKubeletUpdates: a kubelet that sends its own CPUs, as with cpuManagerPolicy static, or values that the
// container already has, changes nothing. The runtime writes candor's answer.
func TestKubeletUpdates(t *testing.T) {
	l := newLab(t)
	c := newCensus(l)
	if c.node.usable.Count() < 2 {
		t.Skip("needs 2 CPUs")
	}
	ctrs := c.three()
	had := c.has()
	first := cpuset.Of(c.node.usable.First()).String()
	for _, ctr := range ctrs {
		same := resources(ctr.limit, ctr.request)
		for what, r := range map[string]*cri.LinuxContainerResources{
			"CPUs":              {CpusetCpus: first},
			"all CPUs":          {CpusetCpus: c.node.usable.String()},
			"CPUs and the rest": {CpusetCpus: first, CpuPeriod: same.CpuPeriod, CpuQuota: same.CpuQuota, CpuShares: same.CpuShares},
			"quota":             {CpuPeriod: same.CpuPeriod, CpuQuota: same.CpuQuota},
			"shares":            {CpuShares: same.CpuShares},
			"memory":            {MemoryLimitInBytes: 64 << 20},
		} {
			if err := ctr.overwrite(r); err != nil {
				t.Errorf("%s, %s: %v", ctr.name, what, err)
			}
			c.unmoved(had)
		}
	}
	// A sensitive container needs a limit.
	if err := ctrs[0].overwrite(&cri.LinuxContainerResources{CpuQuota: -1, CpusetCpus: first}); err == nil || !strings.Contains(err.Error(), "a sensitive container needs a CPU limit") {
		t.Errorf("a quota of -1: %v", err)
	}
	c.unmoved(had)
	c.check()
}

// TestOverwrittenFiles: the plugin reverts and counts foreign writes to the files of a container, and logs
// the found value.
func TestOverwrittenFiles(t *testing.T) {
	l := newEngine(t)
	l.startPlugin("--metrics", "127.0.0.1:0")
	c := newCensus(l)
	if c.node.usable.Count() < 2 {
		t.Skip("needs 2 CPUs")
	}
	ctrs := c.three()
	l.noted() // repairs before this moment are not counted
	had := c.has()
	for what, change := range map[string]func(*cgroup.Settings){
		"CPUs":   func(s *cgroup.Settings) { s.CPUs = otherCPUs(s.CPUs, c.node.usable) },
		"quota":  func(s *cgroup.Settings) { s.Quota = 20 * time.Millisecond },
		"period": func(s *cgroup.Settings) { s.Quota, s.Period = 3*time.Millisecond, 50*time.Millisecond },
		"weight": func(s *cgroup.Settings) { s.Weight *= 3 },
	} {
		seen := len(l.plugin.output())
		for _, ctr := range ctrs {
			next := had[ctr]
			change(&next)
			if err := ctr.group().Apply(next); err != nil {
				t.Fatalf("%s, %s: %v", ctr.name, what, err)
			}
		}
		l.wait("the repair of "+what, l.plugin, func() bool {
			return strings.Count(l.plugin.output()[seen:], "differ from the grant") >= len(ctrs) && maps.Equal(c.has(), had)
		})
	}
	c.unmoved(had)
	c.check()
	if n, ok := l.newProber(l.plugin.output()).value("candor_drift_repairs_total"); !ok || n < 12 {
		t.Errorf("four changes of three containers each: counted %v", n)
	}
}

// otherCPUs returns CPUs that a container does not have.
func otherCPUs(has, all cpuset.Set) cpuset.Set {
	if rest := all.Minus(has); !rest.IsEmpty() {
		return rest
	}
	return has.Lowest(1)
}
