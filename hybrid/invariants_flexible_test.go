package hybrid_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// checkFlexible checks invariant 4: the flexible grants of a domain have the same cpuset, which contains no exclusive CPU. Under Paper, the
// cpuset contains all other CPUs.
func (s state) checkFlexible() error {
	type domain struct {
		cpus       cpuset.Set
		wholeCores bool // only the cores without sensitive containers
	}
	byDomain := map[domain]hybrid.Grant{}
	for _, g := range s.grants {
		if g.Class != hybrid.Flexible || g.CPUs.IsEmpty() || !g.Lost.IsEmpty() {
			continue
		}
		if g.CPUs.Overlaps(&s.pools.Exclusive) {
			return fmt.Errorf("flexible %s runs on exclusive CPUs: %v", g.ID, g.CPUs)
		}
		if all := s.pools.Fractional.Union(s.pools.Shared); s.options.Algorithm == hybrid.Paper && g.CPUs != all {
			return fmt.Errorf("flexible %s has CPUs %v, want %v", g.ID, g.CPUs, all)
		}
		if g.Topology == hybrid.WholeCores && (g.Policy == hybrid.BestEffort || s.shrunk) {
			continue // with containers of the same policy, or without a policy
		}
		in := domain{s.domain(g), s.options.Algorithm == hybrid.Candor && g.Topology == hybrid.WholeCores}
		if other, ok := byDomain[in]; ok && other.CPUs != g.CPUs {
			return fmt.Errorf("flexible %s and %s of one domain have CPUs %v and %v", g.ID, other.ID, g.CPUs, other.CPUs)
		}
		byDomain[in] = g
	}
	if g, ok := byDomain[domain{cpus: s.machine.Online}]; ok && g.CPUs != s.flexible {
		return fmt.Errorf("flexible %s has CPUs %v, the node has %v", g.ID, g.CPUs, s.flexible)
	}
	return nil
}

// room returns the CPU time on some CPUs that sensitive grants do not have.
func (s state) room(cpus cpuset.Set) hybrid.Milli {
	var room hybrid.Milli
	for cpu := range cpus.All() {
		if exclusive, fractional := s.sensitiveOn(cpu); exclusive == 0 {
			room += 1000 - fractional
		}
	}
	return room
}

// checkRoom checks invariant 4: the flexible containers' CPUs have time for the guarantees. For every union of their cpusets, the
// containers that have no other CPU must fit (Hall's condition). The containers that may use the whole node must also have MinShared.
func (s state) checkRoom() error {
	if s.shrunk {
		return nil // below the guaranteed amount
	}
	var sets []cpuset.Set
	for _, g := range s.grants {
		if g.Class == hybrid.Flexible && !slices.Contains(sets, g.CPUs) {
			sets = append(sets, g.CPUs)
		}
	}
	for _, set := range unions(sets) {
		var need hybrid.Milli
		for _, g := range s.grants {
			if g.Class == hybrid.Flexible && g.CPUs.SubsetOf(&set) {
				need += guaranteed(g.Request)
			}
		}
		if room := s.room(set); room < need {
			return fmt.Errorf("guarantees of %v on CPUs %v, which have room for %v", need, set, room)
		}
	}
	if room := s.room(s.flexible); s.hasUnconfined() && room < s.options.MinShared {
		return fmt.Errorf("room of %v on the flexible CPUs %v, min-shared is %v", room, s.flexible, s.options.MinShared)
	}
	return nil
}

// unions returns the unions of the sets that checkRoom must check. If any two sets are nested or disjoint, the sets themselves suffice.
func unions(sets []cpuset.Set) []cpuset.Set {
	laminar := true
	for _, a := range sets {
		for _, b := range sets {
			if a.Overlaps(&b) && !a.SubsetOf(&b) && !b.SubsetOf(&a) {
				laminar = false
			}
		}
	}
	if laminar {
		return sets
	}
	all := make([]cpuset.Set, 1<<len(sets))
	for mask := range all {
		for i, set := range sets {
			if mask>>i&1 == 1 {
				all[mask] = all[mask].Union(set)
			}
		}
	}
	return all
}

// checkShared checks that the shared time is the sensitive time on CPUs that are in the cpusets of several containers.
func (s state) checkShared() error {
	var want hybrid.Milli
	for cpu := range s.usable.All() {
		if _, fractional := s.sensitiveOn(cpu); s.holders(cpu) > 1 {
			want += fractional
		}
	}
	if s.shared != want {
		return fmt.Errorf("shared time %v, the node has %v", want, s.shared)
	}
	return nil
}

// checkThrift checks that flexible containers use no fractional CPU that a single sensitive container could have alone. It applies only if
// all flexible containers are in a single domain and no container has whole cores.
func (s state) checkThrift() error {
	var need hybrid.Milli
	i := slices.IndexFunc(s.grants, func(g hybrid.Grant) bool { return g.Class == hybrid.Flexible })
	if i < 0 || s.shrunk {
		return nil
	}
	for _, g := range s.grants {
		if g.Topology != hybrid.Prefer && g.Topology != hybrid.NoTopology {
			return nil
		}
		if g.Class == hybrid.Flexible {
			need += guaranteed(g.Request)
		}
	}
	need = max(1, need, s.options.MinShared)
	cpus := s.grants[i].CPUs
	if !s.pools.Shared.SubsetOf(&cpus) {
		return fmt.Errorf("flexible CPUs %v, of the shared %v", cpus, s.pools.Shared)
	}
	for cpu := range cpus.Intersect(s.pools.Fractional).All() {
		less := cpus.Minus(cpuset.Of(cpu))
		owners := 0
		for _, g := range s.grants {
			if g.Class == hybrid.Sensitive && g.CPUs.Contains(cpu) {
				owners++
			}
		}
		if room := s.room(less); owners == 1 && !less.IsEmpty() && room >= need {
			return fmt.Errorf("flexible CPUs %v: %d is not needed, the others have room for %v", cpus, cpu, room)
		}
	}
	return nil
}

func (s state) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "options %+v\nusable %v, exclusive %v, fractional %v, shared %v, flexible %v; shared time %v of %v\n",
		s.options, s.usable, s.pools.Exclusive, s.pools.Fractional, s.pools.Shared, s.flexible, s.shared, s.sensitive)
	for _, g := range s.grants {
		fmt.Fprintln(&b, grantString(g))
	}
	return b.String()
}

// grantString returns all fields of a grant. Equal strings mean equal grants.
func grantString(g hybrid.Grant) string {
	line := fmt.Sprintf("%s: %v %v limit %v guarantee %v topology %v immovable %v: CPUs %v exclusive %v fractions %v quota %v weight %v",
		g.ID, g.Policy, g.Class, g.Limit, g.Guarantee, g.Topology, g.Immovable, g.CPUs, g.Exclusive, g.Fractions, g.Quota, g.Weight)
	if !g.Lost.IsEmpty() {
		line += " lost " + g.Lost.String()
	}
	return line
}

// cloneGrant returns a grant that shares no memory with another.
func cloneGrant(g hybrid.Grant) hybrid.Grant {
	g.Fractions = slices.Clone(g.Fractions)
	return g
}

// hasUnconfined reports whether a flexible container is not confined to a domain.
func (s *state) hasUnconfined() bool {
	for _, g := range s.grants {
		if g.Class == hybrid.Flexible && (g.Topology == hybrid.Prefer || g.Topology == hybrid.NoTopology || !g.TopologyMet) {
			return true
		}
	}
	return false
}
