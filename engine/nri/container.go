package nri

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/spec"
)

// A Pod holds the facts about a pod that the engine needs.
type Pod struct {
	UID, Namespace, Name string
	Sandbox              string // ID of the sandbox in the runtime; a pod can get another sandbox later
	Annotations          map[string]string
	Shares               int64 // CPU shares of the pod's group, which are the sum of the requests; 0: unknown
}

// A Container describes a container, with the resources of its request in the runtime's units.
type Container struct {
	Name   string
	Env    []string            // NAME=VALUE
	Cgroup string              // linux.cgroupsPath in its OCI specification
	CPU                        // the request
	Mounts []string            // paths in the container at which something is mounted
	CPUs   string              // cpuset in the runtime's record; from another program, unless Planned
	Memory *host.MemoryRequest // nil: no limit
	PID    int                 // first process; 0: there is none yet
	Now    CPU                 // present settings of an existing container in the runtime's record
	// Planned reports that Candor has planned the container, so that the CPUs in the runtime's record are from Candor.
	Planned bool
}

// A CPU holds the CPU settings of a runtime.
type CPU struct {
	Quota  int64 // microseconds per period; 0 or less: none
	Period int64 // microseconds; 0: the kernel's default
	Shares int64 // cpu.shares; 0: unknown
}

// startPatience bounds the time from a container's creation to its start.
const startPatience = 10 * time.Minute

// allocation returns the allocation for a container of a pod. why, if not "", is the reason for treating a sensitive container
// as flexible. preserved reports that Candor must not change the container; a is then empty.
func allocation(c *Config, p *Pod, ctr *Container) (a host.Allocation, why string, preserved bool, err error) {
	said, err := kube.Parse(p.Annotations)
	if err != nil {
		return a, "", false, err
	}
	s := kube.Resolve(said, ctr.Name, c.Namespaces[p.Namespace], c.Node)
	if spec.ValueOr(s.Preserve, false) && !ctr.Planned {
		return a, "", true, nil
	}
	path, err := cgroup.EnginePath(ctr.Cgroup)
	if err != nil {
		return a, "", false, err
	}
	a.ID = grantName(p, ctr.Name)
	a.Engine = host.Engine{Cgroup: path, Pod: p.UID, Sandbox: p.Sandbox, Name: p.Namespace + "/" + p.Name + "/" + ctr.Name}
	a.Deadline = startPatience
	a.Command = a.Engine.Name
	a.Class, why = class(spec.ValueOr(s.Class, hybrid.Flexible), &ctr.CPU)
	a.Policy = spec.ValueOr(s.Policy, hybrid.Strict)
	a.Topology = spec.ValueOr(s.Topology, hybrid.Prefer)
	a.Immovable = !spec.ValueOr(s.Movable, true)
	a.Mems = a.Topology == hybrid.SingleNUMA && a.Class == hybrid.Sensitive && a.Policy == hybrid.Strict
	a.Period = spec.ValueOr(s.Period, time.Duration(cmp.Or(ctr.Period, bandwidth.DefaultPeriod.Microseconds()))*time.Microsecond)
	a.OnResize = spec.ValueOr(s.OnResize, "none")
	a.View = viewOf(c, p, &s, a.Class)
	a.Memory = ctr.Memory
	if !ctr.Planned { // the mounts of a planned container include those of Candor
		a.View = host.OmitMountedFiles(a.View, ctr.mounts)
	}
	a.Helpers = spec.ValueOr(s.Helpers, spec.HelpersShow)
	a.Limit, a.Guarantee = amounts(a.Class, &ctr.CPU)
	if a.Limit != 0 { // without a limit there is no quota for a burst
		a.Burst = spec.ValueOr(s.Burst, spec.Burst{})
		a.Burst.Time = min(a.Burst.Time, quotaOf(&a)) // a burst time for a whole pod or node can exceed the quota of a container
	}
	return a, why, false, a.Check()
}

// viewOf returns the view of a container's settings, without the views that its namespace forbids.
func viewOf(c *Config, p *Pod, s *kube.Settings, class hybrid.Class) spec.View {
	return spec.ValueOr(s.View, spec.DefaultView(class)).Avoid(c.forbiddenViews(p.Namespace))
}

// mounts reports whether the container has a mount at a path.
func (c *Container) mounts(path string) bool { return slices.Contains(c.Mounts, path) }

// quotaOf returns the CPU time per period that corresponds to a container's limit.
func quotaOf(a *host.Allocation) time.Duration {
	return a.Limit.Quota(a.Period).Truncate(time.Microsecond)
}

// class returns the requested class. For a container without a limit, or with a request that differs from its limit, it
// returns Flexible and the reason.
func class(requested hybrid.Class, ctr *CPU) (possible hybrid.Class, why string) {
	limit := ctr.limit()
	switch {
	case requested == hybrid.Flexible:
		return requested, ""
	case limit == 0:
		return hybrid.Flexible, "it has no CPU limit"
	case ctr.Shares != 0 && ctr.Shares != host.KubeletShares(limit):
		return hybrid.Flexible, fmt.Sprintf("its CPU request of %v is not its limit, %v", ctr.request(), limit)
	default:
		return requested, ""
	}
}

// amounts returns the limit and the guarantee of a container.
func amounts(class hybrid.Class, ctr *CPU) (limit, guarantee hybrid.Milli) {
	limit = ctr.limit()
	if class == hybrid.Sensitive {
		return limit, 0
	}
	if guarantee = ctr.request(); guarantee == 0 {
		guarantee = hybrid.NoGuarantee
	}
	return limit, guarantee
}

// limit converts the quota to a limit in milli-CPU.
func (c *CPU) limit() hybrid.Milli {
	if c.Quota <= 0 {
		return 0
	}
	period := cmp.Or(c.Period, bandwidth.DefaultPeriod.Microseconds())
	return hybrid.Milli((c.Quota*1000 + period/2) / period)
}

// recorded returns the limit in the runtime's record of an existing container, or 0 if the record does not show the limit.
func (c *Container) recorded(class hybrid.Class) hybrid.Milli {
	if limit := c.Now.limit(); limit != 0 || class != hybrid.Sensitive || !c.Planned {
		return limit
	}
	cpus, err := cpuset.Parse(c.CPUs) // a container without a quota has only exclusive CPUs
	if err != nil {
		return 0
	}
	return hybrid.Milli(1000 * cpus.Count())
}

// request returns the CPU request for the shares. Kubernetes rounds the shares down, so request rounds up.
func (c *CPU) request() hybrid.Milli { return milliOf(c.Shares) }

const (
	sharesPerCPU = 1024
	leastShares  = 2 // no request
	mostShares   = 262144
)

func milliOf(shares int64) hybrid.Milli {
	if shares <= leastShares {
		return 0
	}
	return hybrid.Milli((shares*1000 + sharesPerCPU - 1) / sharesPerCPU)
}

// grantName returns the name of a container on this machine: the name stays the same when the container restarts, and differs
// between pods. A hash of the pod's UID makes the name unique; the rest helps the reader.
func grantName(p *Pod, container string) string {
	const most = 55
	sum := sha256.Sum256([]byte(p.UID + "/" + container))
	base := cgroup.CleanName(p.Name + "." + container)
	name := base[:min(len(base), most)] + "-" + hex.EncodeToString(sum[:4])
	if cgroup.CheckName(name) != nil { // such as a pod called cpu
		name = "pod-" + strings.ReplaceAll(name[:min(len(name), most)], ".", "-") + "-" + hex.EncodeToString(sum[:4])
		name = name[:min(len(name), 64)]
	}
	return name
}
