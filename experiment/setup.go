package experiment

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
)

// A Kind is how a set-up enforces the limit.
type Kind string

const (
	None           Kind = "none"            // no limit
	Quota          Kind = "quota"           // the limit as a CFS quota; the program sees all CPUs
	QuotaThreads   Kind = "quota+threads"   // the same, and the program is told how many threads to start
	Cpuset         Kind = "cpuset"          // as many CPUs of its own as the limit, rounded up, and the quota
	SharedFraction Kind = "shared-fraction" // two instances, with a CPU in common for their fractions
	Candor         Kind = "candor"          // hybrid allocation, with the view
)

// Kinds are all of them, in the order of the docs.
var Kinds = []Kind{None, Quota, QuotaThreads, Cpuset, SharedFraction, Candor}

// A Setup is how a workload is run: under a limit, enforced in some way.
type Setup struct {
	Kind    Kind         `json:"kind"`
	Limit   hybrid.Milli `json:"limit"`             // milli-CPU; 0 under None
	Threads int          `json:"threads,omitempty"` // that the program is told to start; 0: it is told nothing
}

// ErrBadSetup is a set-up that cannot be meant.
var ErrBadSetup = errors.New("bad set-up")

// ParseSetup reads a set-up such as "quota" or "quota+threads=2", for a limit in milli-CPU.
func ParseSetup(text string, limit hybrid.Milli) (Setup, error) {
	name, count, counted := strings.Cut(text, "=")
	s := Setup{Kind: Kind(name), Limit: limit}
	switch s.Kind {
	case None:
		s.Limit = 0
	case QuotaThreads:
		s.Threads = limit.CPUs()
	case SharedFraction:
		if fraction := limit % 1000; fraction == 0 || fraction > 500 {
			return s, fmt.Errorf("%w %q at a limit of %v: want a fraction of 500m at most, so that two join in one CPU", ErrBadSetup, text, limit)
		}
	case Quota, Cpuset, Candor:
	default:
		return s, fmt.Errorf("%w %.60q: want one of %s", ErrBadSetup, text, kindNames())
	}
	if !counted {
		return s, nil
	}
	n, err := strconv.Atoi(count)
	if s.Kind != QuotaThreads || err != nil || n < 1 || n > hybrid.MaxLimit.CPUs() {
		return s, fmt.Errorf("%w %.60q: want a number only for threads, 1 to %d: quota+threads=2", ErrBadSetup, text, hybrid.MaxLimit.CPUs())
	}
	s.Threads = n
	return s, nil
}

func kindNames() string {
	var names []string
	for _, k := range Kinds {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// String is the set-up as ParseSetup reads it.
func (s Setup) String() string {
	if s.Kind == QuotaThreads && s.Threads != s.Limit.CPUs() {
		return fmt.Sprintf("%s=%d", s.Kind, s.Threads)
	}
	return string(s.Kind)
}

// instances is how many of the program run at the same time.
func (s *Setup) instances() int {
	if s.Kind == SharedFraction {
		return 2
	}
	return 1
}

// allocation is what an instance asks the host for. Without a limit or with a quota alone it is
// flexible: those see, and use, all CPUs that are not somebody's own.
func (s *Setup) allocation(name string) host.Allocation {
	a := host.Allocation{
		Request: hybrid.Request{ID: name, Class: hybrid.Flexible, Limit: s.Limit},
		Spec:    host.Spec{Period: cgroup.DefaultPeriod, View: host.ViewAffinity, OnResize: "none"},
	}
	switch s.Kind {
	case Cpuset, SharedFraction:
		a.Class = hybrid.Sensitive
	case Candor:
		a.Class, a.View = hybrid.Sensitive, host.ViewFull
	}
	return a
}

// needs is how many CPUs the machine must have for it.
func (s *Setup) needs() int {
	switch s.Kind {
	case None:
		return 1
	default:
		return (s.Limit * hybrid.Milli(s.instances())).CPUs()
	}
}

// beyond returns which of the usable CPUs the set-up must not have: under SharedFraction all but the fewest that
// will do, or each fraction would get a CPU of its own.
func (s *Setup) beyond(usable cpuset.Set) cpuset.Set {
	if s.Kind != SharedFraction {
		return cpuset.Set{}
	}
	return usable.Minus(usable.Lowest(s.needs()))
}

// threads is how many threads a program that is told starts: as many as are asked for, else as it sees CPUs.
func (s *Setup) threads(usable int) int {
	if s.Threads > 0 {
		return s.Threads
	}
	return s.visible(usable)
}

// visible is how many CPUs the program sees, of so many that the machine has for it.
func (s *Setup) visible(usable int) int {
	switch s.Kind {
	case None, Quota, QuotaThreads:
		return usable
	default:
		return s.Limit.CPUs()
	}
}
