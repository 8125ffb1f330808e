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

// A Holder is the holder of a grant.
type Holder struct {
	Pod       string // UID; empty outside of Kubernetes
	Container string
	Held      bool // it has ended, and its pod keeps its CPUs
}

// ID is the container's name on a node that Node returns: POD/CONTAINER, without a pod the container's alone.
func (h Holder) ID() string {
	if h.Pod == "" {
		return h.Container
	}
	return h.Pod + "/" + h.Container
}

// HolderOf takes such a name apart.
func HolderOf(id string) Holder {
	pod, container, isPods := strings.Cut(id, "/")
	if !isPods {
		return Holder{Container: id}
	}
	return Holder{Pod: pod, Container: container}
}

// grantToTell is a grant as a report has it.
func grantToTell(g *hybrid.Grant, h Holder) v1alpha1.Grant {
	t := v1alpha1.Grant{
		Pod: h.Pod, Container: h.Container, Held: h.Held,
		Limit: unlessNone(g.Limit), Lost: g.Lost.String(), Immovable: g.Immovable,
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
		t.Request = unlessNone(g.Guarantee)
	}
	if isConfined(g) {
		t.CPUs = g.CPUs.String()
	}
	return t
}

// isConfined reports whether a flexible grant is in a domain of its own, by its topology policy.
func isConfined(g *hybrid.Grant) bool {
	return g.Topology != hybrid.Prefer && g.Topology != hybrid.NoTopology && g.TopologyMet
}

func unlessNone(m hybrid.Milli) string {
	if m == 0 {
		return ""
	}
	return m.String()
}

// grantOf converts a grant of a report, for a node with the machine's CPUs.
func grantOf(t *v1alpha1.Grant, n *hybrid.Node) (hybrid.Grant, error) {
	g := hybrid.Grant{TopologyMet: !t.TopologyMissed}
	if err := checkNames(t); err != nil {
		return g, err
	}
	g.ID = Holder{Pod: t.Pod, Container: t.Container}.ID()
	g.Immovable = t.Immovable
	g.Class = hybrid.Flexible
	err := errline.Join(word(&g.Class, t.Class), word(&g.Policy, t.Policy), word(&g.Topology, t.Topology))
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

// word parses a word of hybrid; "" does not change the value.
func word(to interface{ UnmarshalText([]byte) error }, text string) error {
	if text == "" {
		return nil
	}
	return to.UnmarshalText([]byte(text))
}

// setCPUs reads the CPUs that a grant has, and has lost.
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
	maxUID  = 64  // bytes; Kubernetes' UIDs have 36
	maxName = 253 // of a container; Kubernetes' have 63 at most
)

// checkNames refuses ambiguous names.
func checkNames(t *v1alpha1.Grant) error {
	switch {
	case len(t.Pod) > maxUID || strings.Contains(t.Pod, "/"):
		return fmt.Errorf("pod %.80q: must be a UID", t.Pod)
	case t.Container == "" || len(t.Container) > maxName || strings.Contains(t.Container, "/"):
		return errors.New("the name of a container is required")
	}
	return nil
}

// check refuses a grant that no agent would report. Restore checks the grants against each other.
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
		return checkLeft(g)
	case g.Policy == hybrid.Strict && g.CPUs.Count() != g.Limit.CPUs():
		return fmt.Errorf("strict, with a limit of %v and %d CPUs", g.Limit, g.CPUs.Count())
	}
	return nil
}

// checkLeft refuses the remaining CPUs of a sensitive container if they are not fewer than before the loss.
func checkLeft(g *hybrid.Grant) error {
	left := hybrid.Milli(1000 * g.Exclusive.Count())
	for _, f := range g.Fractions {
		left += f.Milli
	}
	if left >= g.Limit || g.Policy == hybrid.Strict && g.CPUs.Count() > g.Limit.CPUs() {
		return fmt.Errorf("CPUs %v are lost, and %v on %d CPUs are left: its limit is %v", g.Lost, left, g.CPUs.Count(), g.Limit)
	}
	return nil
}
