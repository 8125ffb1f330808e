package host

import (
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// A move holds the CPUs of a cgroup before and after an operation.
type move struct {
	group string
	// old is empty for a cgroup that is created. new is empty for a cgroup whose processes have ended.
	old, new cpuset.Set
}

// A write gives a cgroup a cpuset.
type write struct {
	of    int // index of the move in moves
	group string
	cpus  cpuset.Set
}

// orderWrites returns the cpuset writes that lead from the old CPUs of all cgroups to the new CPUs. At no moment do two cgroups
// have the same exclusive CPU. exclusive holds the CPUs that are exclusive before or after the operation.
//
// First every cgroup leaves the CPUs that it loses. A cgroup whose old and new CPUs have no CPU in common jumps.
// Jumping is a single write, after all other cgroups have left the exclusive CPUs among the new CPUs. If cgroups wait
// for each other in a cycle, a cgroup is parked on CPUs that are not exclusive. Then every cgroup gets the CPUs that it
// gains.
//
// clean is false if there is no CPU to park on, so that a cgroup jumped onto occupied CPUs. This happens only if a
// foreign process has exchanged the CPUs of two cgroups.
func orderWrites(moves []move, exclusive cpuset.Set) (writes []write, clean bool) {
	s := sequence{moves: moves, now: make([]cpuset.Set, len(moves)), exclusive: exclusive}
	var jumpers []int
	for i, m := range moves {
		s.now[i] = m.old
		if m.new.IsEmpty() {
			s.now[i] = m.new
		}
	}
	for i, m := range moves {
		keep := m.old.Intersect(m.new)
		switch {
		case m.old.IsEmpty() || m.new.IsEmpty():
		case keep.IsEmpty():
			jumpers = append(jumpers, i)
		default:
			s.write(i, keep)
		}
	}
	clean = s.jump(jumpers)
	for i, m := range moves {
		if !m.new.IsEmpty() {
			s.write(i, m.new)
		}
	}
	return s.writes, clean
}

// exclusive returns the CPUs that are exclusive before or after the operation.
func (op *operation) exclusive(grants []*Grant) (all cpuset.Set) {
	for _, grants := range [][]*Grant{op.loaded.Grants, grants} {
		for _, g := range grants {
			if g.Class == hybrid.Sensitive {
				all = all.Union(g.Exclusive)
			}
		}
	}
	return all
}

// A sequence is a list of writes under construction.
type sequence struct {
	moves     []move
	now       []cpuset.Set // CPUs of each cgroup after the writes so far
	exclusive cpuset.Set
	writes    []write
}

func (s *sequence) write(i int, cpus cpuset.Set) {
	if s.now[i] == cpus {
		return
	}
	s.now[i] = cpus
	s.writes = append(s.writes, write{i, s.moves[i].group, cpus})
}

// jump moves the jumpers, which are the cgroups that keep none of their CPUs, to their new CPUs. It parks a cgroup if necessary.
func (s *sequence) jump(jumpers []int) (clean bool) {
	clean = true
	parked := map[int]bool{}
	for len(jumpers) > 0 {
		at, found := s.findFree(jumpers)
		if !found {
			at = 0
			if cpus := s.parking(); !cpus.IsEmpty() && !parked[jumpers[0]] {
				parked[jumpers[0]] = true
				s.write(jumpers[0], cpus)
				jumpers = append(jumpers[1:], jumpers[0])
				continue
			}
			clean = false
		}
		s.write(jumpers[at], s.moves[jumpers[at]].new)
		jumpers = append(jumpers[:at], jumpers[at+1:]...)
	}
	return clean
}

// findFree returns the position in jumpers of a cgroup that can move now: all other cgroups have left its new exclusive
// CPUs.
func (s *sequence) findFree(jumpers []int) (at int, found bool) {
	for at, i := range jumpers {
		needed := s.moves[i].new.Intersect(s.exclusive)
		taken := false
		for other, m := range s.moves {
			leaving := s.now[other].Minus(m.new)
			taken = taken || other != i && needed.Overlaps(&leaving)
		}
		if !taken {
			return at, true
		}
	}
	return 0, false
}

// parking returns the CPUs on which a cgroup can be parked: the old and new CPUs of all cgroups, except the exclusive CPUs.
func (s *sequence) parking() cpuset.Set {
	var all cpuset.Set
	for _, m := range s.moves {
		all = all.Union(m.old).Union(m.new)
	}
	return all.Minus(s.exclusive)
}
