package cluster

import (
	"errors"
	"fmt"

	"github.com/candor-project/candor/hybrid"
)

// A Refusal is the reason why a node refuses a pod. The text is short, and equal for equal reasons, because kube-scheduler reports each
// text once, with the number of nodes that returned it.
type Refusal struct {
	Reason string
	Final  bool // the node would refuse the pod even without other pods
}

func (r *Refusal) Error() string { return r.Reason }

var (
	errNoCandor       = &Refusal{"no Candor on node", true}
	errBadReport      = &Refusal{"report of node cannot be used", true}
	errFormerNode     = &Refusal{"report is of a former node", true}
	errAwaitingReport = &Refusal{"report still contains pods that have ended", true}
	errSilent         = &Refusal{"node does not report", true}
	errBound          = &Refusal{"already bound to a node", true}
	errWaiting        = &Refusal{"CPUs are reserved for pods that cannot start yet", false}
)

// refused converts an error of hybrid about a container of a pod to a Refusal.
func refused(p *Pod, c *Container, err error, final bool) *Refusal {
	text := reason(err)
	if p.combined == nil {
		text = "container " + c.Name + ": " + text
	}
	return &Refusal{text, final}
}

// reason describes an error of hybrid in a few words.
func reason(err error) string {
	var r *hybrid.Refusal
	if !errors.As(err, &r) {
		return err.Error()
	}
	switch r.Cause {
	case hybrid.CauseTime:
		return fmt.Sprintf("no capacity (%s missing)", cpuTime(r.Wanted-r.Remaining))
	case hybrid.CauseWhole:
		return fmt.Sprintf("view impossible (%s missing)", count(r.Whole-r.Free.Count(), "whole CPU"))
	case hybrid.CauseFraction:
		return fmt.Sprintf("fraction does not fit (%dm)", r.Fraction)
	case hybrid.CauseTopology:
		if r.Threads > 0 {
			return fmt.Sprintf("view impossible (whole-cores: %s, %d threads per core)", count(r.Wanted.CPUs(), "CPU"), r.Threads)
		}
		return fmt.Sprintf("view impossible (topology policy %s)", r.Topology)
	case hybrid.CauseFlexible:
		return "view impossible (flexible containers need the CPUs)"
	default:
		return r.Text
	}
}

// cpuTime formats an amount: "2 CPUs" or "1500m".
func cpuTime(m hybrid.Milli) string {
	if m%1000 == 0 {
		return count(int(m/1000), "CPU")
	}
	return m.String()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
