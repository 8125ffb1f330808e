package nodecpu

import (
	"errors"
	"fmt"
	"strings"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// A Holder identifies the container that has a grant.
type Holder struct {
	Pod       string // UID of the pod; "" for a container outside of Kubernetes
	Container string
	Held      bool   // the container has ended, and Candor retains its CPUs for a restart
	Sees      string // CPUs that the container sees, in the form of v1alpha1.Grant.Sees
}

// ID returns the ID of the holder's grant on a node that Node returns: POD/CONTAINER, or CONTAINER without a pod.
func (h Holder) ID() string {
	if h.Pod == "" {
		return h.Container
	}
	return h.Pod + "/" + h.Container
}

// HolderOf is the inverse of Holder.ID. It sets neither Held nor Sees.
func HolderOf(id string) Holder {
	pod, container, isPods := strings.Cut(id, "/")
	if !isPods {
		return Holder{Container: id}
	}
	return Holder{Pod: pod, Container: container}
}

// reportedGrant converts a grant to the format of a report.
func reportedGrant(g *hybrid.Grant, h Holder) v1alpha1.Grant {
	t := v1alpha1.Grant{
		Pod: h.Pod, Container: h.Container, Held: h.Held, Sees: h.Sees,
		Limit: formatNonzero(g.Limit), Lost: g.Lost.String(), Immovable: g.Immovable,
	}
	if g.Policy != hybrid.Strict {
		t.Policy = g.Policy.String()
	}
	if g.Topology != hybrid.Prefer {
		t.Topology, t.TopologyMissed = g.Topology.String(), !g.TopologyMet
	}
	if g.Class == hybrid.Sensitive {
		t.Class, t.CPUs = g.Class.String(), FormatCPUs(g.Exclusive, g.Fractions)
		return t
	}
	switch g.Guarantee {
	case hybrid.NoGuarantee:
		t.Request = "0"
	default:
		t.Request = formatNonzero(g.Guarantee)
	}
	if isConfined(g) {
		t.CPUs = g.CPUs.String()
	}
	return t
}

// isConfined reports whether the topology policy of a flexible grant confines the grant to a part of the machine.
func isConfined(g *hybrid.Grant) bool {
	return g.Topology != hybrid.Prefer && g.Topology != hybrid.NoTopology && g.TopologyMet
}

func formatNonzero(m hybrid.Milli) string {
	if m == 0 {
		return ""
	}
	return m.String()
}

// grantOf converts a grant of a report to a grant of node n, and checks it.
func grantOf(t *v1alpha1.Grant, n *hybrid.Node) (hybrid.Grant, error) {
	g := hybrid.Grant{TopologyMet: !t.TopologyMissed}
	if err := checkNames(t); err != nil {
		return g, err
	}
	g.ID = Holder{Pod: t.Pod, Container: t.Container}.ID()
	g.Immovable = t.Immovable
	g.Class = hybrid.Flexible
	err := errline.Join(setText(&g.Class, t.Class), setText(&g.Policy, t.Policy), setText(&g.Topology, t.Topology))
	if err != nil {
		return g, err
	}
	if g.Limit, err = amount(t.Limit); err != nil {
		return g, fmt.Errorf("limit: %w", err)
	}
	if g.Guarantee, err = amount(t.Request); err != nil {
		return g, fmt.Errorf("request: %w", err)
	}
	if g.Guarantee == 0 && t.Request != "" {
		g.Guarantee = hybrid.NoGuarantee
	}
	if err := setCPUs(&g, t); err != nil {
		return g, err
	}
	return g, check(&g, n)
}

// setText parses a text with the value's own UnmarshalText. "" does not change the value.
func setText(to interface{ UnmarshalText([]byte) error }, text string) error {
	if text == "" {
		return nil
	}
	return to.UnmarshalText([]byte(text))
}

// setCPUs parses the CPUs and the lost CPUs of a grant.
func setCPUs(g *hybrid.Grant, t *v1alpha1.Grant) (err error) {
	if g.Exclusive, g.Fractions, err = ParseCPUs(t.CPUs); err != nil {
		return err
	}
	if g.Lost, err = cpuset.Parse(t.Lost); err != nil {
		return fmt.Errorf("lost: %w", err)
	}
	g.CPUs = g.Exclusive
	for _, f := range g.Fractions {
		g.CPUs.Add(f.CPU)
	}
	if g.Class == hybrid.Flexible {
		if g.Fractions != nil {
			return fmt.Errorf("CPUs %.60q: a flexible container has no fraction", t.CPUs)
		}
		g.Exclusive = cpuset.Set{}
	}
	return nil
}

const (
	maxUID  = 64  // of a pod, in bytes; UIDs of Kubernetes have 36
	maxName = 253 // of a container, in bytes; Kubernetes allows 63
)

// checkNames returns an error if the names would make the result of Holder.ID ambiguous.
func checkNames(t *v1alpha1.Grant) error {
	switch {
	case len(t.Pod) > maxUID || strings.Contains(t.Pod, "/"):
		return fmt.Errorf("pod %.80q: must be a UID", t.Pod)
	case t.Container == "" || len(t.Container) > maxName || strings.Contains(t.Container, "/"):
		return errors.New("the name of a container is required")
	}
	return nil
}

// check returns an error if no agent would report the grant. It checks each grant by itself; hybrid.Node.Restore then checks the
// grants together.
func check(g *hybrid.Grant, n *hybrid.Node) error {
	usable, machine := n.Usable(), n.Machine()
	all := hybrid.Milli(1000 * (machine.Online.Count() + machine.Offline.Count()))
	switch {
	case !g.CPUs.SubsetOf(&usable):
		return fmt.Errorf("CPUs %v are not among the usable ones", g.CPUs.Minus(usable))
	case g.Lost.Overlaps(&usable):
		return fmt.Errorf("CPUs %v are lost, and usable", g.Lost.Intersect(usable))
	case g.Guaranteed() > all:
		return fmt.Errorf("%v: the machine has %v", g.Guaranteed(), all)
	case g.Class == hybrid.Flexible:
		return nil
	case !g.Lost.IsEmpty():
		return checkRemaining(g)
	case g.Policy == hybrid.Strict && g.CPUs.Count() != g.Limit.CPUs():
		return fmt.Errorf("strict, with a limit of %v and %d CPUs", g.Limit, g.CPUs.Count())
	}
	return nil
}

// checkRemaining returns an error if a sensitive container that has lost CPUs still has the CPU time of its limit, or too many CPUs.
func checkRemaining(g *hybrid.Grant) error {
	left := hybrid.Milli(1000 * g.Exclusive.Count())
	for _, f := range g.Fractions {
		left += f.Milli
	}
	if left >= g.Limit || g.Policy == hybrid.Strict && g.CPUs.Count() > g.Limit.CPUs() {
		return fmt.Errorf("CPUs %v are lost, and %v on %d CPUs are left: its limit is %v", g.Lost, left, g.CPUs.Count(), g.Limit)
	}
	return nil
}
