package hybrid

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/candor-project/candor/cpuset"
)

// Class says whether a container sizes itself by the CPUs that it sees.
type Class uint8

const (
	// Sensitive containers (the paper's C1) get a view that equals their limit.
	Sensitive Class = iota
	// Flexible containers (C2) share CPUs under a quota.
	Flexible
)

// Policy says what becomes of a sensitive container whose view cannot equal
// its limit.
type Policy uint8

const (
	// Strict refuses it (the paper's principle-hard).
	Strict Policy = iota
	// BestEffort places it all the same, with a view that is too wide.
	BestEffort
)

// Algorithm chooses how CPUs are picked.
type Algorithm uint8

const (
	// Candor is the default algorithm.
	Candor Algorithm = iota
	// Paper is Algorithm 1 of Bacou et al., SCC 2019, as published: the yardstick.
	Paper
)

// TopologyPolicy says which CPUs a container would like to have together. A strict
// container whose wish cannot be kept is refused, a best-effort one is placed without it.
//
// A flexible container with a wish runs in a domain of its own kind: the shared CPUs of
// one NUMA node (SingleNUMA), of one L3 domain (SingleL3), or the cores on which no
// sensitive container has a part (WholeCores).
type TopologyPolicy uint8

const (
	// Prefer takes few NUMA nodes, L3 domains and split cores where that is possible.
	Prefer TopologyPolicy = iota
	// SingleNUMA takes CPUs of one NUMA node only.
	SingleNUMA
	// SingleL3 takes CPUs of one L3 domain only.
	SingleL3
	// WholeCores takes cores on which no other container runs.
	WholeCores
	// NoTopology ("none") does not look at topology.
	NoTopology
)

// Names of the values, as the command line, JSON and annotations write them.
var (
	classNames     = []string{"sensitive", "flexible"}
	policyNames    = []string{"strict", "best-effort"}
	algorithmNames = []string{"candor", "paper"}
	wishNames      = []string{"prefer", "single-numa", "single-l3", "whole-cores", "none"}
)

func (c Class) String() string          { return nameOf(c, classNames) }
func (p Policy) String() string         { return nameOf(p, policyNames) }
func (a Algorithm) String() string      { return nameOf(a, algorithmNames) }
func (w TopologyPolicy) String() string { return nameOf(w, wishNames) }

// nameOf writes values that nobody has named as numbers: they end up in errors.
func nameOf[T ~uint8](value T, names []string) string {
	if int(value) < len(names) {
		return names[value]
	}
	return strconv.Itoa(int(value))
}

// MarshalText and UnmarshalText make the values words in JSON. Unknown words are errors
// that list the known ones.

func (c Class) MarshalText() ([]byte, error)          { return []byte(c.String()), nil }
func (p Policy) MarshalText() ([]byte, error)         { return []byte(p.String()), nil }
func (a Algorithm) MarshalText() ([]byte, error)      { return []byte(a.String()), nil }
func (w TopologyPolicy) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

func (c *Class) UnmarshalText(text []byte) error  { return parseName(c, "class", classNames, text) }
func (p *Policy) UnmarshalText(text []byte) error { return parseName(p, "policy", policyNames, text) }
func (a *Algorithm) UnmarshalText(text []byte) error {
	return parseName(a, "algorithm", algorithmNames, text)
}
func (w *TopologyPolicy) UnmarshalText(text []byte) error {
	return parseName(w, "topology", wishNames, text)
}

func parseName[T ~uint8](value *T, what string, names []string, text []byte) error {
	for i, name := range names {
		if name == string(text) {
			*value = T(i)
			return nil
		}
	}
	if len(text) > 40 {
		text = append(text[:40:40], "…"...)
	}
	return fmt.Errorf("%s %q: want one of %s", what, text, strings.Join(names, ", "))
}

// A Request is what a container asks for.
type Request struct {
	ID     string // unique on the node
	Class  Class
	Policy Policy

	// Limit is the container's CPU limit: its quota and, for a sensitive
	// container, the size of its view. 0 is no limit, for flexible containers only.
	Limit Milli
	// Guarantee is what a flexible container counts towards the node's capacity
	// (Kubernetes' request). 0 means the limit; NoGuarantee means nothing. It
	// stays 0 for sensitive containers, which are guaranteed their limit.
	Guarantee Milli

	Topology TopologyPolicy `json:"Wish"` // the name that experiments record in a booking
	// Immovable keeps the container's fraction where it is once given.
	Immovable bool
}

// NoGuarantee is the Guarantee of a flexible container that has a limit but
// counts nothing towards the node's capacity.
const NoGuarantee Milli = -1

// guaranteed returns the CPU time that counts towards the node's capacity.
func (r *Request) guaranteed() Milli {
	switch {
	case r.Class == Sensitive || r.Guarantee == 0:
		return r.Limit
	case r.Guarantee == NoGuarantee:
		return 0
	default:
		return r.Guarantee
	}
}

// Options of a node.
type Options struct {
	Algorithm Algorithm
	// Usable, if not empty, confines the node to these CPUs (the effective
	// cpuset of the group that holds the containers).
	Usable cpuset.Set
	// Reserved CPUs are never given to any container.
	Reserved cpuset.Set
	// UseIsolated gives the CPUs of isolcpus= too.
	UseIsolated bool
	// MinShared is CPU time that sensitive containers never get, so that flexible
	// ones without a limit can run: the time left for flexible containers is at least
	// MinShared and at least the sum of their guarantees (the larger of the two, not both).
	// Containers confined to a domain by their wish have what is left there.
	MinShared Milli
	// Moves bounds the fractions that one operation may move to lower sharing.
	// 0 is DefaultMoves; see NoMoves and AnyMoves.
	Moves int
	// RescueMoves bounds the fractions that may move where a strict request would
	// be refused otherwise. 0 is DefaultRescueMoves.
	RescueMoves int
}

const (
	// AnyMoves sets no bound on moves.
	AnyMoves = 1 << 20
	// NoMoves lets no fraction move.
	NoMoves = -1
)

// Milli is an amount of CPU time per time, in thousandths of a CPU:
// 1500 is one and a half CPUs.
type Milli int64

// MinLimit is the smallest limit: 1 ms in a period of 100 ms, the least quota
// that the kernel accepts.
const MinLimit Milli = 10

// MaxLimit is the largest limit: every CPU that a cpuset can hold.
const MaxLimit Milli = 1024 * 1000

// String writes the amount as Kubernetes does: "2" or "1500m".
func (m Milli) String() string {
	if m%1000 == 0 {
		return strconv.FormatInt(int64(m/1000), 10)
	}
	return strconv.FormatInt(int64(m), 10) + "m"
}

// CPUs returns the number of CPUs that a view of this amount has: the amount
// rounded up.
func (m Milli) CPUs() int { return int((m + 999) / 1000) }

// ParseMilli reads an amount of CPU as Kubernetes writes it: "3500m", "3.5" or
// "4". More than three decimals, signs, exponents and amounts above MaxLimit are
// errors; zero is not.
func ParseMilli(s string) (Milli, error) {
	wrong := func(reason string) (Milli, error) {
		if len(s) > 40 {
			s = s[:40] + "…"
		}
		return 0, fmt.Errorf("CPU amount %q: %s", s, reason)
	}
	const accepted = "want a number of CPUs such as 2, 1.5 or 1500m"
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
