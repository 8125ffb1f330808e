package experiment

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
)

// A Kind is the way in which a setup enforces the limit.
type Kind string

// The kinds, by name.
const (
	None           Kind = "none"            // no limit
	Quota          Kind = "quota"           // the limit as a CFS quota; the program sees all CPUs
	QuotaThreads   Kind = "quota+threads"   // like Quota, and Candor passes the number of threads to the program
	Cpuset         Kind = "cpuset"          // as many exclusive CPUs as the limit, rounded up, and the quota
	SharedFraction Kind = "shared-fraction" // two instances, whose fractions share a CPU
	Candor         Kind = "candor"          // exclusive CPUs and fractions of CPUs, and a view that equals the limit
)

// Kinds are all kinds, in the order of the docs.
var Kinds = []Kind{None, Quota, QuotaThreads, Cpuset, SharedFraction, Candor}

// A Setup is a limit for a workload and the way to enforce it.
type Setup struct {
	Kind     Kind                  `json:"kind"`
	Limit    hybrid.Milli          `json:"limit"`              // milli-CPU; 0 under None
	Threads  int                   `json:"threads,omitempty"`  // number of threads to pass to the program; 0: do not pass a number
	Copies   int                   `json:"copies,omitempty"`   // instances that run at the same time, each under the limit; 0: default of the kind
	Topology hybrid.TopologyPolicy `json:"topology,omitempty"` // only for Candor
}

// MaxCopies is the maximum number of simultaneous instances.
const MaxCopies = 1000

// ErrBadSetup means that a setup is invalid.
var ErrBadSetup = errors.New("bad setup")

// topologyOption is the prefix of a setup's topology policy.
const topologyOption = "+topology="

// copiesOf matches a setup with several copies, such as 2xquota.
var copiesOf = regexp.MustCompile(`^([0-9]{1,9})x(.+)$`)

// ParseSetup parses a setup such as "quota", "quota+threads=2", "2xcpuset" or "candor+topology=single-l3", with a
// limit in milli-CPU.
func ParseSetup(text string, limit hybrid.Milli) (Setup, error) {
	s := Setup{Limit: limit}
	rest := text
	if m := copiesOf.FindStringSubmatch(text); m != nil {
		s.Copies, _ = strconv.Atoi(m[1])
		rest = m[2]
		if s.Copies < 2 || s.Copies > MaxCopies {
			return s, fmt.Errorf("%w %.60q: must be 2 to %d copies, such as 2xquota", ErrBadSetup, text, MaxCopies)
		}
	}
	kind, option, _ := strings.Cut(rest, "=")
	if policy, found := strings.CutPrefix(rest, string(Candor)+topologyOption); found {
		kind, option = string(Candor), ""
		if err := s.Topology.UnmarshalText([]byte(policy)); err != nil {
			return s, fmt.Errorf("%w %.60q: %w", ErrBadSetup, text, err)
		}
	} else if rest != kind && Kind(kind) != QuotaThreads {
		return s, fmt.Errorf("%w %.60q: must have a number only for threads, such as quota+threads=2", ErrBadSetup, text)
	}
	s.Kind = Kind(kind)
	return s, s.complete(text, option)
}

// complete checks the parsed setup against its kind, and sets the fields that depend on the kind. option is the text
// after the equals sign.
func (s *Setup) complete(text, option string) error {
	switch s.Kind {
	case None:
		s.Limit = 0
	case QuotaThreads:
		return s.setThreads(text, option)
	case SharedFraction:
		if fraction := s.Limit % 1000; fraction == 0 || fraction > 500 {
			return fmt.Errorf("%w %q at a limit of %v: the fraction must be at most 500m, so that two share a CPU", ErrBadSetup, text, s.Limit)
		}
		if s.Copies != 0 {
			return fmt.Errorf("%w %.60q: use shared-fraction, which is two copies", ErrBadSetup, text)
		}
	case Quota, Cpuset, Candor:
	default:
		return fmt.Errorf("%w %.60q: must be one of %s", ErrBadSetup, text, kindNames())
	}
	return nil
}

// setThreads parses the number of threads to pass to the program.
func (s *Setup) setThreads(text, option string) error {
	s.Threads = s.Limit.CPUs()
	if !strings.Contains(text, "=") {
		return nil
	}
	n, err := strconv.Atoi(option)
	if err != nil || n < 1 || n > hybrid.MaxLimit.CPUs() {
		return fmt.Errorf("%w %.60q: must be 1 to %d threads, such as quota+threads=2", ErrBadSetup, text, hybrid.MaxLimit.CPUs())
	}
	s.Threads = n
	return nil
}

func kindNames() string {
	var names []string
	for _, k := range Kinds {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// String formats the setup as ParseSetup reads it.
func (s Setup) String() string {
	text := string(s.Kind)
	if s.Kind == QuotaThreads && s.Threads != s.Limit.CPUs() {
		text += fmt.Sprintf("=%d", s.Threads)
	}
	if s.Topology != hybrid.Prefer {
		text += topologyOption + s.Topology.String()
	}
	if s.Copies > 0 {
		text = fmt.Sprintf("%dx%s", s.Copies, text)
	}
	return text
}

// title returns the setup with its limit, as a phrase for the user.
func (s *Setup) title() string {
	if s.Limit == 0 {
		return s.String()
	}
	return fmt.Sprintf("%v with a limit of %v", s, s.Limit)
}

// instances returns the number of instances that run at the same time.
func (s *Setup) instances() int {
	if s.Kind == SharedFraction {
		return 2
	}
	return max(s.Copies, 1)
}

// allocation returns an instance's request to the host. An instance without a limit, or with only a quota, is flexible. Flexible
// instances see and use all CPUs that no container has exclusively.
func (s *Setup) allocation(name string) host.Allocation {
	a := host.Allocation{
		Request: hybrid.Request{ID: name, Class: hybrid.Flexible, Limit: s.Limit},
		Spec:    spec.Spec{Period: bandwidth.DefaultPeriod, View: spec.ViewAffinity, OnResize: "none"},
	}
	switch s.Kind {
	case Cpuset, SharedFraction:
		a.Class = hybrid.Sensitive
	case Candor:
		a.Class, a.View, a.Topology = hybrid.Sensitive, spec.ViewFull, s.Topology
	}
	return a
}

// neededCPUs returns the number of CPUs that the setup requires.
func (s *Setup) neededCPUs() int {
	n := s.instances()
	switch s.Kind {
	case None:
		return 1
	case Cpuset: // instances do not share CPUs
		return n * s.Limit.CPUs()
	case Candor, SharedFraction:
		whole, fraction := int(s.Limit/1000), s.Limit%1000
		if fraction == 0 {
			return n * whole
		}
		onOne := int(1000 / fraction) // fractions per CPU
		return n*whole + (n+onOne-1)/onOne
	default:
		return (s.Limit * hybrid.Milli(n)).CPUs()
	}
}

// excludedCPUs returns the usable CPUs that the setup must not have. Under SharedFraction these are all CPUs beyond the
// required number, because with more CPUs each fraction would get its own CPU.
func (s *Setup) excludedCPUs(usable cpuset.Set) cpuset.Set {
	if s.Kind != SharedFraction {
		return cpuset.Set{}
	}
	return usable.Minus(usable.Lowest(s.neededCPUs()))
}

// threads returns the number of threads to pass to a program: the requested number, else the number of CPUs that the
// program sees.
func (s *Setup) threads(usable int) int {
	if s.Threads > 0 {
		return s.Threads
	}
	return s.visible(usable)
}

// visible returns the number of CPUs that the program sees on a machine with the given number of usable CPUs.
func (s *Setup) visible(usable int) int {
	switch s.Kind {
	case None, Quota, QuotaThreads:
		return usable
	default:
		return s.Limit.CPUs()
	}
}
