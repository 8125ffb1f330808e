package hybrid

import (
	"errors"
	"fmt"

	"github.com/candor-project/candor/cpuset"
)

// Errors that callers tell apart, with errors.Is. Those of Plan and PlanResize
// come wrapped in a *Refusal, which says more.
var (
	ErrNoCapacity     = errors.New("no capacity")         // not enough CPU time on the node
	ErrViewImpossible = errors.New("view impossible")     // enough, but the view cannot equal the limit
	ErrUnknownID      = errors.New("id unknown")          // no grant has that id
	ErrIDTaken        = errors.New("id taken")            // a grant has that id already
	ErrBadRequest     = errors.New("bad request")         // limits, class or wish that cannot be meant
	ErrStalePlan      = errors.New("plan is out of date") // the node has changed since
)

// A Refusal is why a request was refused, in data; Reason says it in words. Kind is one of
// the errors above; errors.Is sees it.
type Refusal struct {
	ID    string
	Kind  error
	Cause Cause
	Text  string // of CauseOther: the reason in words

	// The figures, of other causes.
	Wanted    Milli      // CPU time that was asked for, or is asked for besides what the container has
	Left      Milli      // of CauseTime: CPU time that is left
	Capacity  Milli      // of CauseTime: CPU time of the node's usable CPUs
	Promised  Milli      // of CauseTime: the limits of the other sensitive containers
	Flexible  Milli      // of CauseTime and CauseFlexible: what flexible containers are guaranteed
	MinShared Milli      // of CauseTime: what stays shared in any case
	Whole     int        // whole CPUs that are missing to the container
	Fraction  Milli      // the fraction that is missing to it
	Free      cpuset.Set // shared CPUs that it could get
	Room      Milli      // the largest room on a fractional CPU
	Domain    int        // of CauseWish: the most CPUs that it could get in one domain
	Wish      Wish       // of CauseWish
}

// Cause is what was missing.
type Cause uint8

const (
	CauseOther    Cause = iota // see Refusal.Text
	CauseTime                  // CPU time: the limits and guarantees exceed the usable CPUs
	CauseWhole                 // whole CPUs without a sensitive container
	CauseFraction              // room for the fraction on one CPU
	CauseWish                  // a domain, or cores, as the topology wish wants them
	CauseFlexible              // what flexible containers need would not be left to them
)

var causeNames = []string{"refused", "no-time", "no-whole-cpus", "no-fraction", "no-domain", "flexible-need"}

// String names the cause as Step.Kind does.
func (c Cause) String() string { return nameOf(c, causeNames) }

func (r *Refusal) Error() string { return fmt.Sprintf("%s: %v: %s", r.ID, r.Kind, r.Reason()) }
func (r *Refusal) Unwrap() error { return r.Kind }

// Explain returns the refusal as the one step of a plan that there is not. Its
// CPUs are those that the container could get.
func (r *Refusal) Explain() []Step {
	return []Step{{r.Cause.String(), r.Free, r.Reason()}}
}

// Reason says in one line, with the figures, why the request was refused.
func (r *Refusal) Reason() string {
	switch r.Cause {
	case CauseTime:
		return r.whyNoTime()
	case CauseWhole:
		return fmt.Sprintf("wants %s; %s free of sensitive containers", r.parts(), are(r.Free.Count(), "CPU"))
	case CauseFraction:
		return fmt.Sprintf("wants %s; %s free of sensitive containers, and the largest room on a fractional CPU is %dm",
			r.parts(), are(r.Free.Count(), "CPU"), r.Room)
	case CauseWish:
		return r.whyNoDomain()
	case CauseFlexible:
		if r.Flexible == 0 && r.Whole == 0 && r.Fraction == 0 {
			return "wants to share CPUs with sensitive containers' fractions or to have free ones, and there are none"
		}
		if r.Flexible == 0 {
			return fmt.Sprintf("wants %s; the last CPU that flexible containers can run on stays theirs", r.parts())
		}
		return fmt.Sprintf("wants %s; the CPUs that would be left have no room for the flexible containers, which are guaranteed %s",
			r.parts(), cpuTime(r.Flexible))
	default:
		return r.Text
	}
}

func (r *Refusal) whyNoTime() string {
	reason := fmt.Sprintf("wants %s, %s of %s are left (sensitive containers have %s, flexible ones are guaranteed %s",
		cpuTime(r.Wanted), r.Left, cpuTime(r.Capacity), r.Promised, r.Flexible)
	if r.MinShared > 0 {
		reason += fmt.Sprintf(", %s stays shared", r.MinShared)
	}
	return reason + ")"
}

func (r *Refusal) whyNoDomain() string {
	switch r.Wish {
	case WholeCores:
		return fmt.Sprintf("wants %s; the wish whole-cores takes all CPUs of a core or none, and %s on cores that are free as a whole", r.parts(), are(r.Domain, "CPU"))
	case SingleL3:
		return fmt.Sprintf("wants %s; the wish single-l3 allows one L3 domain in one NUMA node only, where it could get %s at most", r.parts(), plural(r.Domain, "whole CPU"))
	default:
		return fmt.Sprintf("wants %s; the wish single-numa allows one NUMA node only, where it could get %s at most", r.parts(), plural(r.Domain, "whole CPU"))
	}
}

// parts says what the container wants in whole CPUs and a fraction.
func (r *Refusal) parts() string {
	switch {
	case r.Whole == 0 && r.Fraction == 0:
		return cpuTime(r.Wanted)
	case r.Fraction == 0:
		return plural(r.Whole, "whole CPU")
	case r.Whole == 0:
		return fmt.Sprintf("a fraction of %dm", r.Fraction)
	default:
		return fmt.Sprintf("%s and a fraction of %dm", plural(r.Whole, "whole CPU"), r.Fraction)
	}
}

// cpuTime writes an amount with its unit: "1500m of CPU time", "1 CPU", "2 CPUs".
func cpuTime(m Milli) string {
	if m%1000 != 0 {
		return m.String() + " of CPU time"
	}
	return plural(int(m/1000), "CPU")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// are is plural with its verb.
func are(n int, what string) string {
	if n == 1 {
		return "1 " + what + " is"
	}
	return plural(n, what) + " are"
}
