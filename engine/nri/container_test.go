package nri

import (
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"pgregory.net/rapid"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
)

// podAndContainer returns a pod with annotations and its container with CPU settings.
func podAndContainer(annotations map[string]string, cpu CPU) (*Pod, *Container) {
	p := &Pod{UID: "u1", Namespace: "default", Name: "web-0", Annotations: annotations}
	return p, &Container{Name: "app", Cgroup: "/kubepods/podu1/abc", CPU: cpu}
}

func TestAllocation(t *testing.T) {
	sensitive := map[string]string{"candor.dev/class": "sensitive"}
	for _, test := range []struct {
		name        string
		annotations map[string]string
		cpu         CPU
		want        hybrid.Request
		why         string
	}{
		{"guaranteed", sensitive, CPU{150000, 100000, 1536}, hybrid.Request{Limit: 1500}, ""},
		{"rounded shares", sensitive, CPU{30000, 100000, 307}, hybrid.Request{Limit: 300}, ""},
		{"burstable", sensitive, CPU{150000, 100000, 1024}, hybrid.Request{Class: hybrid.Flexible, Limit: 1500, Guarantee: 1000}, "its CPU request of 1 is not its limit, 1500m"},
		{"no limit", sensitive, CPU{0, 100000, 1024}, hybrid.Request{Class: hybrid.Flexible, Guarantee: 1000}, "it has no CPU limit"},
		{"no annotations", nil, CPU{50000, 100000, 512}, hybrid.Request{Class: hybrid.Flexible, Limit: 500, Guarantee: 500}, ""},
		{"best effort", nil, CPU{0, 0, 2}, hybrid.Request{Class: hybrid.Flexible, Guarantee: hybrid.NoGuarantee}, ""},
		{"container annotation", map[string]string{"class.candor.dev/app": "sensitive", "candor.dev/class": "flexible", "candor.dev/movable": "false",
			"candor.dev/policy": "best-effort", "candor.dev/topology": "single-l3"}, CPU{200000, 100000, 2048},
			hybrid.Request{Limit: 2000, Immovable: true, Policy: hybrid.BestEffort, Topology: hybrid.SingleL3}, ""},
	} {
		p, ctr := podAndContainer(test.annotations, test.cpu)
		a, why, preserved, err := allocation(DefaultConfig(), p, ctr)
		test.want.ID = a.ID
		if err != nil || preserved || a.Request != test.want || why != test.why {
			t.Errorf("%s: %+v, %q, %v, %v", test.name, a.Request, why, preserved, err)
		}
		if wantView := spec.DefaultView(a.Class); a.View != wantView || a.Engine.Name != "default/web-0/app" || a.Engine.Pod != "u1" {
			t.Errorf("%s: %+v %+v", test.name, a.Spec, a.Engine)
		}
	}
}

func TestAllocationByNamespace(t *testing.T) {
	c, err := LoadConfig(write(t, "version: 1\ndefaults: {period: 20ms}\nnamespaces: {default: {class: sensitive}, kube-system: {preserve: \"true\"}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	p, ctr := podAndContainer(nil, CPU{100000, 100000, 1024})
	if a, _, _, err := allocation(c, p, ctr); err != nil || a.Class != hybrid.Sensitive || a.Period != 20*time.Millisecond {
		t.Errorf("%+v, %v", a, err)
	}
	p.Namespace = "kube-system"
	if _, _, preserved, err := allocation(c, p, ctr); err != nil || !preserved {
		t.Errorf("preserved: %v, %v", preserved, err)
	}
}

// TestBurstOfPod: a burst annotation applies to all containers of a pod. The burst of a small container is
// cut to its quota.
func TestBurstOfPod(t *testing.T) {
	for quota, want := range map[int64]time.Duration{50000: 20 * time.Millisecond, 10000: 10 * time.Millisecond, 0: 0} {
		p, ctr := podAndContainer(map[string]string{"candor.dev/burst": "20ms"}, CPU{quota, 100000, 102})
		if a, _, _, err := allocation(DefaultConfig(), p, ctr); err != nil || a.Burst != (spec.Burst{Time: want}) {
			t.Errorf("quota %dus: burst %v, %v, want %v", quota, a.Burst, err, want)
		}
	}
}

func TestBadAllocations(t *testing.T) {
	p, ctr := podAndContainer(map[string]string{"candor.dev/view": "half"}, CPU{})
	if _, _, _, err := allocation(DefaultConfig(), p, ctr); err == nil || !strings.Contains(err.Error(), "annotation candor.dev/view") {
		t.Error(err)
	}
	p, ctr = podAndContainer(nil, CPU{500, 100000, 2})
	if _, _, _, err := allocation(DefaultConfig(), p, ctr); err == nil || !strings.Contains(err.Error(), "limit 5m") {
		t.Error(err)
	}
	p, ctr = podAndContainer(nil, CPU{})
	ctr.Cgroup = "nowhere"
	if _, _, _, err := allocation(DefaultConfig(), p, ctr); err == nil {
		t.Error("a cgroup without a path was accepted")
	}
}

// TestSharesAndQuotaRoundTrip: the shares and the quota that Kubernetes computes from an amount convert back
// to this amount.
func TestSharesAndQuotaRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := hybrid.Milli(rapid.Int64Range(10, 255000).Draw(t, "milli"))
		cpu := CPU{Quota: int64(m) * 100, Period: 100000, Shares: host.KubeletShares(m)}
		if cpu.limit() != m || cpu.request() != m {
			t.Errorf("%v: limit %v, request %v", m, cpu.limit(), cpu.request())
		}
		if is, why := class(hybrid.Sensitive, &cpu); is != hybrid.Sensitive {
			t.Errorf("%v: %s", m, why)
		}
		var again CPU
		if again.setRecord(cpu.record()); again != cpu {
			t.Errorf("record round trip: got %+v, want %+v", again, cpu)
		}
	})
}

// TestGrantNames: the name of a grant is a valid cgroup name. Two pods never share a name.
func TestGrantNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringN(0, 80, 300)
		p := &Pod{UID: word.Draw(t, "uid"), Name: word.Draw(t, "pod")}
		container := word.Draw(t, "container")
		name := grantName(p, container)
		if err := cgroup.CheckName(name); err != nil {
			t.Error(err)
		}
		if other := grantName(&Pod{UID: p.UID + "x", Name: p.Name}, container); other == name {
			t.Errorf("containers of two pods have the same name %s", name)
		}
	})
	for _, pod := range []string{"cpu", "cpuset", "tasks"} {
		if err := cgroup.CheckName(grantName(&Pod{UID: "u", Name: pod}, "x")); err != nil {
			t.Error(err)
		}
	}
}

func TestSetRecordIgnoresInvalidText(t *testing.T) {
	for _, text := range []string{"", "x", "1/2", "1//3", "a/b/c"} {
		c := CPU{1, 2, 3}
		if c.setRecord(text); c != (CPU{1, 2, 3}) {
			t.Errorf("%q: %+v", text, c)
		}
	}
}

func TestReplyRefusesEmptyCpuset(t *testing.T) {
	e := &Engine{}
	if r, err := e.reply(&host.Grant{}); err == nil {
		t.Errorf("got %+v, want an error", r)
	}
}

// TestViewOfAllocation: the view of a container follows its settings, unless its namespace forbids the view or another program
// mounts a file in its place.
func TestViewOfAllocation(t *testing.T) {
	c, err := LoadConfig(write(t, "version: 1\ndefaults: {view: full+stat}\nforbiddenViews: {default: [full], \"*\": [full+stat, full]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, namespace, annotation, mount string
		planned                            bool
		want                               spec.View
	}{
		{"the default of the node", "default", "", "", false, spec.ViewFullStat},
		{"a forbidden annotation", "default", "full", "", false, spec.ViewCPU},
		{"a permitted annotation", "default", "affinity", "", false, spec.ViewAffinity},
		{"a forbidden default", "spark", "", "", false, spec.ViewCPU},
		{"LXCFS", "default", "", "/proc/meminfo", false, spec.ViewCPUStat},
		{"the mounts of Candor", "default", "", "/proc/meminfo", true, spec.ViewFullStat},
		{"another mount", "default", "", "/proc/uptime", false, spec.ViewFullStat},
	} {
		annotations := map[string]string{}
		if test.annotation != "" {
			annotations["candor.dev/view"] = test.annotation
		}
		p, ctr := podAndContainer(annotations, CPU{100000, 100000, 1024})
		p.Namespace, ctr.Mounts, ctr.Planned = test.namespace, []string{test.mount}, test.planned
		if a, _, _, err := allocation(c, p, ctr); err != nil || a.View != test.want {
			t.Errorf("%s: view %s, %v; want %s", test.name, a.View, err, test.want)
		}
	}
}

// TestMemoryOfContainer: the memory limit of the runtime is the request, and the files of cgroup v2 take precedence.
func TestMemoryOfContainer(t *testing.T) {
	const none = cgroup.NoMemoryLimit
	for name, test := range map[string]struct {
		limit, swap int64
		unified     map[string]string
		want        *cgroup.MemoryLimits
	}{
		"no limit":        {0, 0, nil, nil},
		"unlimited":       {-1, -1, nil, nil},
		"limit":           {100, 0, nil, &cgroup.MemoryLimits{Memory: 100, Swap: none}},
		"no swap":         {100, 100, nil, &cgroup.MemoryLimits{Memory: 100, Swap: 0}},
		"the kubelet's":   {100, 100, map[string]string{"memory.high": "90", "memory.min": "50"}, &cgroup.MemoryLimits{Memory: 90, Swap: 0}},
		"a higher high":   {100, 100, map[string]string{"memory.high": "110"}, &cgroup.MemoryLimits{Memory: 100, Swap: 0}},
		"swap of v2":      {100, 0, map[string]string{"memory.swap.max": "7"}, &cgroup.MemoryLimits{Memory: 100, Swap: 7}},
		"not a number":    {100, 0, map[string]string{"memory.high": "-1", "memory.max": "1e3"}, &cgroup.MemoryLimits{Memory: 100, Swap: none}},
		"removed by v2":   {100, 0, map[string]string{"memory.max": "max"}, nil},
		"hostile numbers": {1<<63 - 1, 1<<63 - 1, map[string]string{"memory.high": "9223372036854775808"}, nil},
	} {
		c := &api.Container{Linux: &api.LinuxContainer{Resources: &api.LinuxResources{
			Memory: &api.LinuxMemory{Limit: api.Int64(test.limit), Swap: api.Int64(test.swap)}, Unified: test.unified,
		}}}
		got := containerOf(c).Memory
		if (got == nil) != (test.want == nil) || got != nil && got.MemoryLimits != *test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
