package hybrid

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/candor-project/candor/cpuset"
)

// A Class distinguishes containers that size themselves by the CPUs that they see, such as programs with a thread per
// CPU, from all other containers.
type Class uint8

const (
	// Sensitive containers (the paper's C1) see as many CPUs as their limit, rounded up.
	Sensitive Class = iota
	// Flexible containers (C2) share CPUs under a quota.
	Flexible
)

// A Policy selects the treatment of a sensitive container that would see more CPUs than its limit, rounded up.
type Policy uint8

const (
	// Strict refuses the container (the paper's principle-hard).
	Strict Policy = iota
	// BestEffort places the container with more visible CPUs than its limit, rounded up.
	BestEffort
)

// An Algorithm selects how a node chooses CPUs.
type Algorithm uint8

const (
	// Candor is the default algorithm.
	Candor Algorithm = iota
	// Paper is Algorithm 1 of Bacou et al., SCC 2019, as published. It is the baseline.
	Paper
)

// A TopologyPolicy requires or prefers that the CPUs of a container are near each other. A strict container is refused
// if its CPUs cannot meet the policy; a best-effort container is then placed without the policy.
//
// SingleNUMA, SingleL3 and WholeCores confine a flexible container to a domain: a NUMA node, an L3 domain, or the cores
// without sensitive containers.
type TopologyPolicy uint8

const (
	// Prefer minimizes the numbers of kinds of cores, NUMA nodes, L3 domains and split cores, in this order.
	Prefer TopologyPolicy = iota
	// SingleNUMA takes the CPUs of a single NUMA node.
	SingleNUMA
	// SingleL3 takes the CPUs of a single L3 domain.
	SingleL3
	// WholeCores takes whole cores. On the whole cores of a sensitive container, no other container runs. A core with a
	// reserved, isolated or offline CPU is not a whole core.
	WholeCores
	// NoTopology ("none") ignores the topology and the kinds of cores.
	NoTopology
)

// Names of the values on the command line, in JSON and in annotations.
var (
	classNames     = []string{"sensitive", "flexible"}
	policyNames    = []string{"strict", "best-effort"}
	algorithmNames = []string{"candor", "paper"}
	topologyNames  = []string{"prefer", "single-numa", "single-l3", "whole-cores", "none"}
)

func (c Class) String() string          { return nameOf(c, classNames) }
func (p Policy) String() string         { return nameOf(p, policyNames) }
func (a Algorithm) String() string      { return nameOf(a, algorithmNames) }
func (w TopologyPolicy) String() string { return nameOf(w, topologyNames) }

// nameOf returns the name of a value, or its number if the value is unknown.
func nameOf[T ~uint8](value T, names []string) string {
	if int(value) < len(names) {
		return names[value]
	}
	return strconv.Itoa(int(value))
}

// MarshalText returns the name of the class.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// MarshalText returns the name of the policy.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// MarshalText returns the name of the algorithm.
func (a Algorithm) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// MarshalText returns the name of the topology policy.
func (w TopologyPolicy) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText parses the name of a class.
func (c *Class) UnmarshalText(text []byte) error { return parseName(c, "class", classNames, text) }

// UnmarshalText parses the name of a policy.
func (p *Policy) UnmarshalText(text []byte) error { return parseName(p, "policy", policyNames, text) }

// UnmarshalText parses the name of an algorithm.
func (a *Algorithm) UnmarshalText(text []byte) error {
	return parseName(a, "algorithm", algorithmNames, text)
}

// UnmarshalText parses the name of a topology policy.
func (w *TopologyPolicy) UnmarshalText(text []byte) error {
	return parseName(w, "topology", topologyNames, text)
}

// parseName sets value to the constant with the name in text. The error for an unknown name lists the known names.
func parseName[T ~uint8](value *T, noun string, names []string, text []byte) error {
	for i, name := range names {
		if name == string(text) {
			*value = T(i)
			return nil
		}
	}
	if len(text) > 40 {
		text = append(text[:40:40], "…"...)
	}
	return fmt.Errorf("%s %q: must be one of %s", noun, text, strings.Join(names, ", "))
}

// A Request describes a container to allocate.
type Request struct {
	ID     string // unique on the node
	Class  Class
	Policy Policy

	// Limit is the container's CPU limit: its quota and, for a sensitive container, the size of its
	// view. 0 means no limit, and is valid for flexible containers only.
	Limit Milli
	// Guarantee is the CPU time of a flexible container that counts toward the node's capacity (the CPU request in
	// Kubernetes). 0 means the limit; NoGuarantee means no time. For a sensitive container, the guarantee is always the
	// limit, so the field must be 0 or the limit.
	Guarantee Milli

	Topology TopologyPolicy `json:"Wish"` // "Wish" is the former name of the field; saved overrides of containers contain it
	// Immovable forbids moves of the container's fraction.
	Immovable bool
}

// NoGuarantee is the Guarantee of a flexible container that has a limit, but no guaranteed CPU time.
const NoGuarantee Milli = -1

// GuaranteedTime returns the CPU time of a container that counts toward a node's capacity: the limit of a sensitive
// container, or the guarantee of a flexible container (Request.Guarantee).
func GuaranteedTime(class Class, limit, guarantee Milli) Milli {
	switch {
	case class == Sensitive || guarantee == 0:
		return limit
	case guarantee == NoGuarantee:
		return 0
	default:
		return guarantee
	}
}

// Guaranteed returns the CPU time of the container that counts toward a node's capacity.
func (r *Request) Guaranteed() Milli { return GuaranteedTime(r.Class, r.Limit, r.Guarantee) }

// IsPlain reports whether the topology policy does not confine the container to a domain.
func (r *Request) IsPlain() bool { return r.Topology == Prefer || r.Topology == NoTopology }

// Check returns a *Refusal of kind ErrBadRequest if the request is invalid, otherwise nil. It does not check the id.
func (r *Request) Check() error {
	if refusal := r.check(); refusal != nil {
		return refusal
	}
	return nil
}

// Options configure a node. The zero value is valid.
type Options struct {
	Algorithm Algorithm
	// Usable, if not empty, restricts the node to these CPUs, such as the effective cpuset of the
	// parent cgroup of the containers.
	Usable cpuset.Set
	// Reserved CPUs are never given to a container.
	Reserved cpuset.Set
	// UseIsolated makes the CPUs of isolcpus= usable.
	UseIsolated bool
	// MinShared is CPU time that sensitive containers never get, so that flexible containers without a guarantee can
	// run. The time reserved for flexible containers is the larger of MinShared and the sum of their guarantees.
	// MinShared applies to the node as a whole, not to each domain to which flexible containers are confined.
	MinShared Milli
	// Moves is the maximum number of fractions that an operation may move to lower the shared time (Node.Shared). 0
	// means DefaultMoves. NoMoves and AnyMoves are valid, too.
	Moves int
	// RescueMoves is the maximum number of fractions that an operation may move to make room for a request that would
	// otherwise be refused. 0 means DefaultRescueMoves. NoMoves and AnyMoves are valid, too.
	RescueMoves int
}

const (
	// AnyMoves permits any number of moves.
	AnyMoves = 1 << 20
	// NoMoves forbids moves.
	NoMoves = -1
)

// Milli is an amount of CPU time per unit of time, in thousandths of a CPU: 1500 is 1.5 CPUs.
type Milli int64

// MinLimit is the smallest limit. In a period of 100 ms, it is a quota of 1 ms, and the kernel accepts no smaller
// quota.
const MinLimit Milli = 10

// MaxLimit is the largest limit: all CPUs that a cpuset.Set can contain.
const MaxLimit Milli = 1024 * 1000

// String formats the amount as Kubernetes does: "2" or "1500m".
func (m Milli) String() string {
	if m%1000 == 0 {
		return strconv.FormatInt(int64(m/1000), 10)
	}
	return strconv.FormatInt(int64(m), 10) + "m"
}

// CPUs returns the amount in CPUs, rounded up. For a limit, this is the number of CPUs that a sensitive container sees.
func (m Milli) CPUs() int { return int((m + 999) / 1000) }

// Quota returns the CPU time that the amount permits in a period, rounded down to nanoseconds. The kernel takes
// microseconds; the caller truncates or rounds the result.
func (m Milli) Quota(period time.Duration) time.Duration { return time.Duration(m) * period / 1000 }

// MilliOf converts a quota and its period, both in microseconds, to an amount. It rounds to the nearest amount, because
// container engines round the quotas that they write. It returns 0 without a quota or period, and at least 1 otherwise.
// Amounts above MaxLimit give MaxLimit + 1.
func MilliOf(quotaUs, periodUs int64) Milli {
	if quotaUs <= 0 || periodUs <= 0 {
		return 0
	}
	return max(Milli(min(math.Round(float64(quotaUs)*1000/float64(periodUs)), float64(MaxLimit+1))), 1)
}

// ParseMilli parses an amount of CPU in Kubernetes' notation: "3500m", "3.5" or "4". It rejects more
// than three decimals, signs, exponents and amounts above MaxLimit. It accepts zero.
func ParseMilli(s string) (Milli, error) {
	wrong := func(reason string) (Milli, error) {
		if len(s) > 40 {
			s = s[:40] + "…"
		}
		return 0, fmt.Errorf("CPU amount %q: %s", s, reason)
	}
	const accepted = "must be a number of CPUs such as 2, 1.5 or 1500m"
	digits, isMilli := strings.CutSuffix(s, "m")
	whole, decimals, hasPoint := strings.Cut(digits, ".")
	if whole == "" || hasPoint && (isMilli || decimals == "") {
		return wrong(accepted)
	}
	if strings.Trim(whole+decimals, "0123456789") != "" {
		return wrong(accepted)
	}
	if decimals = strings.TrimRight(decimals, "0"); len(decimals) > 3 {
		return wrong("the smallest step is 1m, a thousandth of a CPU")
	}
	if whole = strings.TrimLeft(whole, "0"); len(whole) > 9 {
		return wrong("more than the largest amount, " + MaxLimit.String())
	}
	if !isMilli {
		whole += decimals + "000"[len(decimals):]
	}
	n, err := strconv.ParseInt("0"+whole, 10, 64)
	if err != nil || Milli(n) > MaxLimit {
		return wrong("more than the largest amount, " + MaxLimit.String())
	}
	return Milli(n), nil
}
