package cluster

import (
	"errors"
	"fmt"

	"github.com/candor-project/candor/hybrid"
)

// A Refusal is why a node does not take a pod: as short as a list of thousands of nodes wants it,
// and the same for the same reason, so that it can be counted.
type Refusal struct {
	Reason string
	Final  bool // no end of other pods makes it possible
}

func (r *Refusal) Error() string { return r.Reason }

var (
	noCandor  = &Refusal{"no Candor on node", true}
	badReport = &Refusal{"report of node cannot be used", true}
	former    = &Refusal{"report is of a former node", true}
	awaited   = &Refusal{"report of pods that are gone is awaited", true}
	silent    = &Refusal{"node does not report", true}
	isBound   = &Refusal{"bound to a node already", true}
	waiting   = &Refusal{"reserved pods wait for room", false}
)

// refused converts a refusal of hybrid for a container of a pod.
func refused(p *Pod, c *Container, err error, final bool) *Refusal {
	text := reason(err)
	if p.one == nil {
		text = "container " + c.Name + ": " + text
	}
	return &Refusal{text, final}
}

// reason names the reason of a node's refusal in a few words.
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
		return fmt.Sprintf("view impossible (topology policy %s)", r.Topology)
	case hybrid.CauseFlexible:
		return "view impossible (flexible containers need the CPUs)"
	default:
		return r.Text
	}
}

// cpuTime writes an amount with its unit.
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
