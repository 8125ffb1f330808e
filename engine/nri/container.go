package nri

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
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

// A Pod is what the engine has to know of one.
type Pod struct {
	UID, Namespace, Name string
	Sandbox              string // id of the runtime's; a pod may have another one later
	Annotations          map[string]string
	Shares               int64 // of the pod's group: the sum of the requests; 0: not known
}

// A Container is what the runtime says of one: what was asked for, in the runtime's units.
type Container struct {
	Name   string
	Env    []string // NAME=VALUE
	Cgroup string   // cgroupsPath of its specification
	CPU             // what was asked for
	CPUs   string   // cpuset that somebody else gives it
	PID    int      // first process, once there is one
	Now    CPU      // what the runtime has recorded of a container that was made already
	// Planned: Candor has planned it, so the CPUs that the runtime has recorded are Candor's own.
	Planned bool
}

// A CPU is what a runtime knows of CPU time.
type CPU struct {
	Quota  int64 // microseconds per period; 0 or less: none
	Period int64 // microseconds; 0: the kernel's default
	Shares int64 // cpu.shares; 0: not known
}

// startPatience is how long a container may take from its creation to its start.
const startPatience = 10 * time.Minute

// allocation is what a container of a pod asks for. why, if not "", is the reason
// that a container which is called sensitive is taken for a flexible one. preserved ones are
// left alone.
func allocation(c *Config, p *Pod, ctr *Container) (a host.Allocation, why string, preserved bool, err error) {
	said, err := kube.Parse(p.Annotations)
	if err != nil {
		return a, "", false, err
	}
	s := kube.Resolve(said, ctr.Name, c.Namespaces[p.Namespace], c.Node)
	if get(s.Preserve, false) && !ctr.Planned {
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
	a.Class, why = class(get(s.Class, hybrid.Flexible), &ctr.CPU)
	a.Policy = get(s.Policy, hybrid.Strict)
	a.Topology = get(s.Topology, hybrid.Prefer)
	a.Immovable = !get(s.Movable, true)
	a.Mems = a.Topology == hybrid.SingleNUMA && a.Class == hybrid.Sensitive && a.Policy == hybrid.Strict
	a.Period = get(s.Period, time.Duration(cmp.Or(ctr.Period, bandwidth.DefaultPeriod.Microseconds()))*time.Microsecond)
	a.OnResize = get(s.OnResize, "none")
	a.View = get(s.View, viewFor(a.Class))
	a.Limit, a.Guarantee = amounts(a.Class, &ctr.CPU)
	if a.Limit != 0 { // else there is nothing to save up
		a.Burst = get(s.Burst, spec.Burst{})
		a.Burst.Time = min(a.Burst.Time, quotaOf(&a)) // it may be said for a whole pod or node: each has what it can
	}
	return a, why, false, a.Check()
}

// quotaOf is what the limit of a container is worth in a period.
func quotaOf(a *host.Allocation) time.Duration {
	return a.Limit.Quota(a.Period).Truncate(time.Microsecond)
}

func get[T any](said *T, otherwise T) T {
	if said == nil {
		return otherwise
	}
	return *said
}

func viewFor(class hybrid.Class) spec.View {
	if class == hybrid.Sensitive {
		return spec.ViewFull
	}
	return spec.ViewAffinity
}

// class is the class that a container can have: a sensitive one has its limit guaranteed.
func class(said hybrid.Class, ctr *CPU) (is hybrid.Class, why string) {
	limit := ctr.limit()
	switch {
	case said == hybrid.Flexible:
		return said, ""
	case limit == 0:
		return hybrid.Flexible, "it has no CPU limit"
	case ctr.Shares != 0 && ctr.Shares != sharesOf(limit):
		return hybrid.Flexible, fmt.Sprintf("its CPU request of %v is not its limit, %v", ctr.request(), limit)
	default:
		return said, ""
	}
}

// amounts are a container's limit and guarantee.
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

// limit is the CPU time per time that the quota is worth.
func (c *CPU) limit() hybrid.Milli {
	if c.Quota <= 0 {
		return 0
	}
	period := cmp.Or(c.Period, bandwidth.DefaultPeriod.Microseconds())
	return hybrid.Milli((c.Quota*1000 + period/2) / period)
}

// recorded is the limit by what the runtime has recorded of a container that was made already; 0: not known.
func (c *Container) recorded(class hybrid.Class) hybrid.Milli {
	if limit := c.Now.limit(); limit != 0 || class != hybrid.Sensitive || !c.Planned {
		return limit
	}
	cpus, err := cpuset.Parse(c.CPUs) // without a quota these are all its own
	if err != nil {
		return 0
	}
	return hybrid.Milli(1000 * cpus.Count())
}

// request is what the shares are worth. Kubernetes rounds down on the way there.
func (c *CPU) request() hybrid.Milli { return milliOf(c.Shares) }

const (
	sharesPerCPU = 1024
	leastShares  = 2 // stands for no request
	mostShares   = 262144
)

func milliOf(shares int64) hybrid.Milli {
	if shares <= leastShares {
		return 0
	}
	return hybrid.Milli((shares*1000 + sharesPerCPU - 1) / sharesPerCPU)
}

// sharesOf are the shares that Kubernetes makes of an amount.
func sharesOf(m hybrid.Milli) int64 {
	return min(max(int64(m)*sharesPerCPU/1000, leastShares), mostShares)
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// grantName is a container's name on this machine: the same for each of its restarts, another in each
// pod. Pods are known by their id; the rest is for people.
func grantName(p *Pod, container string) string {
	const most = 55
	sum := sha256.Sum256([]byte(p.UID + "/" + container))
	base := strings.TrimLeft(notInNames.ReplaceAllString(p.Name+"."+container, "-"), "_.-")
	name := base[:min(len(base), most)] + "-" + hex.EncodeToString(sum[:4])
	if cgroup.CheckName(name) != nil { // such as a pod called cpu
		name = "pod-" + strings.ReplaceAll(name[:min(len(name), most)], ".", "-") + "-" + hex.EncodeToString(sum[:4])
		name = name[:min(len(name), 64)]
	}
	return name
}
