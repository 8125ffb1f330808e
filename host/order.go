package host

import (
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// A move is the CPUs of one group before and after an operation.
type move struct {
	group string
	// old is empty for a group that is made, new for one whose processes have
	// ended.
	old, new cpuset.Set
}

// A write gives a group a cpuset.
type write struct {
	of    int // which of the moves
	group string
	cpus  cpuset.Set
}

// order returns the cpuset writes that lead from the old CPUs of all groups to
// the new ones, in an order in which no exclusive CPU runs two groups, not even
// for a moment. exclusive are the CPUs that are exclusive before or after.
//
// First every group leaves the CPUs that it loses. A group that would keep none
// jumps when nobody is left where it goes; where groups wait for each other, one
// of them waits on a CPU that is not exclusive. Then every group gets what it
// gains. clean is false where there is no such CPU and one jump had to be made
// into company: after somebody else has exchanged the CPUs of two groups.
func order(moves []move, exclusive cpuset.Set) (writes []write, clean bool) {
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

// A sequence is a list of writes in the making.
type sequence struct {
	moves     []move
	now       []cpuset.Set // what each group has after the writes so far
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

// jump brings the groups that keep none of their CPUs to their new ones.
func (s *sequence) jump(jumpers []int) (clean bool) {
	clean = true
	parked := map[int]bool{}
	for len(jumpers) > 0 {
		at, found := s.free(jumpers)
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

// free returns a jumper whose exclusive new CPUs nobody has who is to leave them.
func (s *sequence) free(jumpers []int) (at int, found bool) {
	for at, i := range jumpers {
		wanted := s.moves[i].new.Intersect(s.exclusive)
		taken := false
		for other, m := range s.moves {
			leaving := s.now[other].Minus(m.new)
			taken = taken || other != i && wanted.Overlaps(&leaving)
		}
		if !taken {
			return at, true
		}
	}
	return 0, false
}

// parking returns the CPUs in use that are nobody's own.
func (s *sequence) parking() cpuset.Set {
	var all cpuset.Set
	for _, m := range s.moves {
		all = all.Union(m.old).Union(m.new)
	}
	return all.Minus(s.exclusive)
}
