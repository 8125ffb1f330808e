package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
)

// A Case is a way to separate an application from a stressor beside it.
type Case string

// The cases, by name.
const (
	CaseTogether Case = "together"     // no separation: plain processes in the same group
	CaseGroups   Case = "groups"       // application and stressor have no limits, and each is in its own group
	CaseQuota    Case = "quota"        // application and stressor have a quota: their shares of the CPU time
	CasePinned   Case = "pinned"       // application and stressor have separate CPUs
	CaseCandor   Case = "candor"       // the application is sensitive, the stressor flexible
	CaseBurst    Case = "candor+burst" // both are flexible; the application may burst
)

// Cases are all cases, in the order of the docs. The study has four cases. Its first two cases are CaseTogether without a
// stressor and CaseTogether beside a stressor. The third case is CaseQuota, and the fourth case is CasePinned.
var Cases = []Case{CaseTogether, CaseGroups, CaseQuota, CasePinned, CaseCandor, CaseBurst}

// ErrBadCase means that a case does not exist.
var ErrBadCase = fmt.Errorf("%w: case", ErrBadSetup)

// ParseCase parses the name of a case.
func ParseCase(text string) (Case, error) {
	if slices.Contains(Cases, Case(text)) {
		return Case(text), nil
	}
	var names []string
	for _, c := range Cases {
		names = append(names, string(c))
	}
	return "", fmt.Errorf("%w %.60q: must be one of %s", ErrBadCase, text, strings.Join(names, ", "))
}

// A Split divides a machine's CPUs between application and stressor, in milli-CPU.
type Split struct {
	Application hybrid.Milli `json:"application"`
	Stressor    hybrid.Milli `json:"stressor"` // the remaining CPUs
}

// splitOf divides a number of CPUs. If application is 0, the application gets half of the CPUs, rounded down to whole
// CPUs.
func splitOf(cpus int, application hybrid.Milli) Split {
	if application == 0 {
		application = max(1000*hybrid.Milli(cpus/2), hybrid.MinLimit)
	}
	return Split{application, hybrid.Milli(1000*cpus) - application}
}

// check returns an error if a case needs more CPUs than the split has.
func (s Split) check(c Case) error {
	have := s.Application + s.Stressor
	need := s.Application + hybrid.MinLimit
	switch c {
	case CaseTogether, CaseGroups: // no limit
		return nil
	case CasePinned:
		need = 1000 * hybrid.Milli(s.Application.CPUs()+1)
	}
	if have < need {
		return fmt.Errorf("%w for case %s: the application's %v and the stressor need %v, the machine has %v",
			ErrTooSmall, c, s.Application, need, have)
	}
	return nil
}

// application returns the application's request to the host.
func (c Case) application(s Split, name string) host.Allocation {
	a := flexible(name, 0)
	switch c {
	case CaseQuota:
		a.Limit = s.Application
	case CasePinned:
		a.Class, a.Limit = hybrid.Sensitive, 1000*hybrid.Milli(s.Application.CPUs()) // whole CPUs, so no quota
	case CaseCandor:
		a.Class, a.Limit, a.View = hybrid.Sensitive, s.Application, spec.ViewFull
	case CaseBurst:
		a.Limit, a.Burst = s.Application, spec.Burst{By: spec.BurstAuto}
	}
	return a
}

// stressor returns the stressor's request to the host. In the cases without a quota, the stressor has no limit and gets all CPUs
// that no container has exclusively.
func (c Case) stressor(s Split, name string) host.Allocation {
	switch c {
	case CaseQuota, CaseCandor, CaseBurst:
		return flexible(name, s.Stressor)
	default:
		return flexible(name, 0)
	}
}

func flexible(name string, limit hybrid.Milli) host.Allocation {
	return host.Allocation{
		Request: hybrid.Request{ID: name, Class: hybrid.Flexible, Limit: limit},
		Spec:    spec.Spec{Period: bandwidth.DefaultPeriod, View: spec.ViewAffinity, OnResize: "none"},
	}
}

// Text describes the CPUs of the application and of the stressor.
func (c Case) Text(s Split) (application, stressor string) {
	whole := s.Application.CPUs()
	switch c {
	case CaseTogether:
		return "no limit", "no limit, in the same group"
	case CaseGroups:
		return "no limit, a group of its own", "no limit, a group of its own"
	case CaseQuota:
		return fmt.Sprintf("quota of %v", s.Application), fmt.Sprintf("quota of %v", s.Stressor)
	case CasePinned:
		return fmt.Sprintf("CPUs of its own: %d", whole), fmt.Sprintf("the other CPUs: %v", s.Application+s.Stressor-1000*hybrid.Milli(whole))
	case CaseCandor:
		return fmt.Sprintf("sensitive, limit %v", s.Application), fmt.Sprintf("flexible, limit %v", s.Stressor)
	default:
		return fmt.Sprintf("flexible, limit %v, --burst auto", s.Application), fmt.Sprintf("flexible, limit %v", s.Stressor)
	}
}
