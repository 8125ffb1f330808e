package hybrid_test

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// A state is the complete output of a node, with its machine and options.
type state struct {
	machine *topology.Machine
	options hybrid.Options

	grants            []hybrid.Grant
	pools             hybrid.Pools
	shared, sensitive hybrid.Milli
	usable, flexible  cpuset.Set

	shrunk bool // restored on fewer CPUs: guarantees may be impossible
}

// stateOf returns the state of a node. Later changes of the node do not change the result.
func stateOf(n *hybrid.Node, m *topology.Machine, o hybrid.Options) state {
	s := state{machine: m, options: o, grants: slices.Clone(n.Grants()), pools: n.Pools(), shared: n.Shared(),
		sensitive: n.Sensitive(), usable: n.Usable(), flexible: n.FlexibleCPUs()}
	for i := range s.grants {
		s.grants[i] = cloneGrant(s.grants[i])
	}
	return s
}

// checkInvariants fails the test if a node violates an invariant.
func checkInvariants(t rapid.TB, n *hybrid.Node, m *topology.Machine, o hybrid.Options) {
	t.Helper()
	s := stateOf(n, m, o)
	if err := s.invariants(); err != nil {
		t.Fatalf("%v\n%v", err, s)
	}
}

// invariants returns an error that describes the first violated invariant. It computes each invariant from the grants alone, one CPU and
// one grant at a time.
func (s state) invariants() error {
	for _, g := range s.grants {
		if err := s.checkGrant(g); err != nil {
			return fmt.Errorf("grant %s: %w", g.ID, err)
		}
	}
	for _, check := range []func() error{s.checkIDs, s.checkPools, s.checkOwners, s.checkCapacity,
		s.checkFlexible, s.checkRoom, s.checkShared} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkGrant checks that the fields of a grant agree with each other and with the limit.
func (s state) checkGrant(g hybrid.Grant) error {
	switch {
	case !g.CPUs.SubsetOf(&s.usable):
		return fmt.Errorf("CPUs %v are not all usable", g.CPUs)
	case g.Lost.Overlaps(&s.usable):
		return fmt.Errorf("lost CPUs %v are usable", g.Lost)
	case g.Weight <= 0:
		return fmt.Errorf("weight %d", g.Weight)
	case g.CPUs.IsEmpty() && g.Lost.IsEmpty():
		return fmt.Errorf("no CPU")
	case g.Class == hybrid.Flexible:
		return s.checkFlexibleGrant(g)
	case !g.Lost.IsEmpty():
		return nil // not whole: the rest is checked with the other grants
	}
	parts, sum := g.Exclusive, hybrid.Milli(1000*g.Exclusive.Count())
	last := -1
	for _, f := range g.Fractions {
		if f.CPU <= last || f.Milli < 1 || f.Milli > 999 || parts.Contains(f.CPU) {
			return fmt.Errorf("fractions %v beside exclusive CPUs %v", g.Fractions, g.Exclusive)
		}
		last = f.CPU
		parts.Add(f.CPU)
		sum += f.Milli
	}
	if parts != g.CPUs || sum != g.Limit {
		return fmt.Errorf("CPUs %v, limit %v: exclusive %v and fractions %v make %v, %v", g.CPUs, g.Limit, g.Exclusive, g.Fractions, parts, sum)
	}
	if n := g.CPUs.Count(); n < ceil(g.Limit) || g.Policy == hybrid.Strict && n != ceil(g.Limit) {
		return fmt.Errorf("%d CPUs for a limit of %v", n, g.Limit)
	}
	if err := s.checkTopology(g); err != nil {
		return err
	}
	return s.checkQuotaAndWeight(g)
}

func ceil(m hybrid.Milli) int { return int((m + 999) / 1000) }

func (s state) checkFlexibleGrant(g hybrid.Grant) error {
	if !g.Exclusive.IsEmpty() || g.Fractions != nil || g.Quota != g.Limit {
		return fmt.Errorf("flexible with exclusive %v, fractions %v, quota %v, limit %v", g.Exclusive, g.Fractions, g.Quota, g.Limit)
	}
	w := guaranteed(g.Request)
	if s.options.Algorithm == hybrid.Candor && g.Weight != max(w, hybrid.MinLimit) {
		return fmt.Errorf("weight %v for a guarantee of %v", g.Weight, guaranteed(g.Request))
	}
	return s.checkTopology(g)
}

// checkQuotaAndWeight checks that a grant has a quota unless its cpuset alone enforces the limit, and that the weight of a fraction that
// meets other containers is the size of the view times the fraction.
func (s state) checkQuotaAndWeight(g hybrid.Grant) error {
	want := g.Limit
	if s.options.Algorithm == hybrid.Candor && len(g.Fractions) == 0 {
		want = 0
	}
	if g.Quota != want {
		return fmt.Errorf("quota %v, want %v", g.Quota, want)
	}
	if s.options.Algorithm != hybrid.Candor || len(g.Fractions) != 1 || s.holders(g.Fractions[0].CPU) < 2 {
		return nil
	}
	if w := hybrid.Milli(g.CPUs.Count()) * g.Fractions[0].Milli; g.Weight != w {
		return fmt.Errorf("weight %v for a view of %d and fractions %v, want %v", g.Weight, g.CPUs.Count(), g.Fractions, w)
	}
	return nil
}

// checkTopology checks that containers have the CPUs of their topology policy.
func (s state) checkTopology(g hybrid.Grant) error {
	if s.options.Algorithm == hybrid.Paper || g.Policy == hybrid.BestEffort || !g.Lost.IsEmpty() ||
		s.shrunk && g.Class == hybrid.Flexible {
		return nil
	}
	switch g.Topology {
	case hybrid.SingleNUMA, hybrid.SingleL3:
		if domain := s.domain(g); !g.CPUs.SubsetOf(&domain) {
			return fmt.Errorf("has topology policy %v and CPUs %v", g.Topology, g.CPUs)
		}
	case hybrid.WholeCores:
		var cores cpuset.Set
		for _, core := range s.machine.Cores {
			if core.CPUs.Overlaps(&g.CPUs) {
				cores = cores.Union(core.CPUs)
			}
		}
		partial := s.machine.PartialCores()
		if g.Class == hybrid.Sensitive && !s.shrunk && (cores != g.CPUs || partial.Overlaps(&g.CPUs)) {
			return fmt.Errorf("has topology policy whole-cores, and CPUs %v of the cores %v", g.CPUs, cores)
		}
		for _, other := range s.grants {
			bothFlexible := g.Class == hybrid.Flexible && other.Class == hybrid.Flexible
			if other.ID != g.ID && !bothFlexible && other.CPUs.Overlaps(&cores) {
				return fmt.Errorf("has topology policy whole-cores, and %s has CPUs %v of %v", other.ID, other.CPUs, cores)
			}
		}
	}
	return nil
}

// domain returns the CPUs to which a grant's topology policy confines it: the NUMA node or L3 domain of its first CPU, or all CPUs.
func (s state) domain(g hybrid.Grant) cpuset.Set {
	first := s.machine.CPU(g.CPUs.First())
	domain := s.machine.Online
	switch {
	case s.options.Algorithm == hybrid.Candor && g.Topology == hybrid.SingleNUMA:
		domain = s.machine.Nodes[first.Node].CPUs
	case s.options.Algorithm == hybrid.Candor && g.Topology == hybrid.SingleL3:
		domain = s.machine.L3s[first.L3].CPUs
		if len(s.machine.Kinds) > 0 {
			domain = domain.Intersect(s.machine.Kinds[s.machine.KindOf(first.ID)].CPUs)
		}
	}
	if (g.Policy == hybrid.BestEffort || s.shrunk) && !g.CPUs.SubsetOf(&domain) {
		return s.machine.Online // its topology policy could not be met
	}
	return domain
}

func (s state) checkIDs() error {
	seen := map[string]bool{}
	for _, g := range s.grants {
		if g.ID == "" || seen[g.ID] {
			return fmt.Errorf("id %q twice", g.ID)
		}
		seen[g.ID] = true
	}
	return nil
}

// checkPools checks invariant 1: each usable CPU is in exactly one pool, which agrees with the grants on the CPU.
func (s state) checkPools() error {
	if want := usable(s.machine, s.options); s.usable != want {
		return fmt.Errorf("usable CPUs %v, want %v", s.usable, want)
	}
	var want hybrid.Pools
	for cpu := range s.usable.All() {
		exclusive, fractional := s.sensitiveOn(cpu)
		switch {
		case exclusive > 0:
			want.Exclusive.Add(cpu)
		case fractional > 0:
			want.Fractional.Add(cpu)
		default:
			want.Shared.Add(cpu)
		}
	}
	if s.pools != want {
		return fmt.Errorf("pools %v, want %v", s.pools, want)
	}
	return nil
}

// sensitiveOn returns the number of grants that have a CPU exclusively, and the sum of the fractions on the CPU.
func (s state) sensitiveOn(cpu int) (exclusive int, fractional hybrid.Milli) {
	for _, g := range s.grants {
		if g.Exclusive.Contains(cpu) {
			exclusive++
		}
		for _, f := range g.Fractions {
			if f.CPU == cpu {
				fractional += f.Milli
			}
		}
	}
	return exclusive, fractional
}

// holders returns the number of containers that have a CPU in their cpuset.
func (s state) holders(cpu int) (n int) {
	for _, g := range s.grants {
		if g.CPUs.Contains(cpu) {
			n++
		}
	}
	return n
}

// checkOwners checks invariant 2: an exclusive CPU is in a single cpuset, and the fractions on a CPU sum up to at most 1000m.
func (s state) checkOwners() error {
	for cpu := range s.usable.All() {
		exclusive, fractional := s.sensitiveOn(cpu)
		if exclusive > 0 && (exclusive > 1 || fractional > 0 || s.holders(cpu) > 1) {
			return fmt.Errorf("CPU %d is exclusive to %d grants, has fractions of %v and %d containers", cpu, exclusive, fractional, s.holders(cpu))
		}
		if fractional > 1000 {
			return fmt.Errorf("the fractions on CPU %d sum to %v", cpu, fractional)
		}
	}
	return nil
}

// checkCapacity checks invariant 5: the limits and guarantees do not exceed the capacity, and sensitive containers never get MinShared.
func (s state) checkCapacity() error {
	var sensitive, flexible hybrid.Milli
	for _, g := range s.grants {
		if g.Class == hybrid.Sensitive {
			sensitive += g.Limit
		} else {
			flexible += guaranteed(g.Request)
		}
	}
	if s.sensitive != sensitive {
		return fmt.Errorf("sensitive limits sum to %v, the node has %v", sensitive, s.sensitive)
	}
	capacity := hybrid.Milli(1000 * s.usable.Count())
	if s.shrunk {
		return nil // below the guaranteed amount
	}
	if sensitive+flexible > capacity || sensitive > 0 && sensitive+s.options.MinShared > capacity {
		return fmt.Errorf("limits %v + guarantees %v, min-shared %v: more than %v", sensitive, flexible, s.options.MinShared, capacity)
	}
	return nil
}
