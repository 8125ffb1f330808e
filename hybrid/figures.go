package hybrid

// Figures are what bounds on the cost of a container are made of, for many nodes
// together. (NoLoad stands for none.)
type Figures struct {
	Free         [2]int32 // by Class: Free
	Most         int32    // limit above which no strict sensitive container has room, Candor
	Calm         int32    // guarantee that one more flexible container can have while no more sensitive time is lent; -1: none
	Slack        int32    // time that can be taken from flexible containers' CPUs while no more is lent, Candor
	Shared       uint16   // shared CPUs
	Spare        uint16   // Summary.Spare
	Room         uint16   // largest room on a fractional CPU
	RoomLeast    uint16   // the same, by Paper
	TwoRooms     uint16   // room on the two emptiest fractional CPUs, by Paper
	SharedRoom   uint16   // largest room on a fractional CPU whose time is shared as it is (by Paper only if it is the emptiest of all)
	JoinLeast    uint16   // what others' time becomes shared at least if a fraction joins on another CPU
	NextLent     uint16   // sensitive time on the CPU that would be lent next, Candor
	ThenLent     uint16   // the same of the one after it
	FirstLent    uint16   // what becomes shared with the first flexible container; 0: there is one; Paper
	TakeOne      uint16   // sensitive time that is lent more if a shared CPU is taken, Candor
	WithFlexible bool     // the node has flexible containers
	Opaque       bool     // the node cannot be told without asking it
}

// NoLoad is more than any CPU's load.
const NoLoad = 1<<16 - 1

// Figures returns the figures of one node.
func (s *Summary) Figures() Figures {
	spare := s.Spare()
	f := Figures{
		Free:   [2]int32{Sensitive: int32(s.Free(Sensitive)), Flexible: s.free},
		Shared: s.shared, Spare: uint16(spare), JoinLeast: NoLoad, NextLent: NoLoad, ThenLent: NoLoad, TakeOne: s.takeOne(spare),
		WithFlexible: s.flags&anyFlexible != 0, Opaque: s.flags&opaque != 0,
	}
	if s.flags&byPaper != 0 {
		f.Room = s.loads[0] &^ loneBit
		f.Calm, f.Slack = s.free, int32(MaxLimit)
		f.RoomLeast, f.TwoRooms = f.Room, f.Room+s.loads[1]&^loneBit
		if s.flags&anyFlexible == 0 {
			f.FirstLent = uint16(min(s.loneUsed, NoLoad-1))
		}
		switch {
		case s.open == 0:
		case s.loads[0]&loneBit == 0 || s.flags&anyFlexible != 0:
			f.SharedRoom = f.Room
		default:
			f.JoinLeast = 1000 - f.Room
		}
		return f
	}
	f.Most = int32(s.Most())
	f.SharedRoom, f.Room = s.mostRoom, s.mostRoom
	s.lending(&f)
	f.JoinLeast = f.NextLent
	if s.lone > 0 {
		f.Room = max(f.Room, 1000-s.loads[0])
	}
	if s.lent > 0 { // another CPU may take the place of those that are lent
		f.SharedRoom, f.JoinLeast = f.Room, 0
	}
	f.RoomLeast = f.Room
	return f
}

// nextLent returns the loads of the two CPUs that would be lent next, or less, and the room on
// those that are; known is false if they are too many to tell.
func (s *Summary) nextLent() (next, then uint16, room Milli, known bool) {
	lent := Milli(s.lent)
	for i := 0; i < int(s.lone); i++ {
		switch {
		case i == summaryLoads:
			return s.loads[i-1], s.loads[i-1], room, lent <= 0
		case lent <= 0 && i+1 == int(s.lone):
			return s.loads[i], NoLoad, room, true
		case lent <= 0:
			return s.loads[i], s.loads[min(i+1, summaryLoads-1)], room, true
		}
		lent -= Milli(s.loads[i])
		room += 1000 - Milli(s.loads[i])
	}
	return NoLoad, NoLoad, room, true
}

// takeOne returns the sensitive time that is lent more if a shared CPU is taken; NoLoad if none
// can be. Where it cannot tell it says less.
func (s *Summary) takeOne(spare int) uint16 {
	switch {
	case s.shared == 0:
		return NoLoad
	case s.flags&(byPaper|opaque) != 0 || spare > 0:
		return 0
	}
	a := s.arrangement()
	a.free--
	a.lacking += 1000
	lent, verdict := s.lend(&a)
	switch verdict {
	case Known:
		return uint16(min(lent-Milli(s.lent), NoLoad-1))
	case Refused:
		return NoLoad
	default:
		return 0
	}
}

// lending sets what figures tell of lending. Calm and Slack may say more where it cannot tell.
func (s *Summary) lending(f *Figures) {
	next, then, room, known := s.nextLent()
	f.NextLent, f.ThenLent, f.Calm, f.Slack = next, then, s.free, int32(MaxLimit)
	if s.flags&opaque != 0 || !known {
		return
	}
	room += Milli(s.shared)*1000 + Milli(s.multiRoom)
	f.Calm = int32(min(room-Milli(s.guaranteed), Milli(s.free)))
	if room < s.need() || s.shared == 0 && s.open == s.lone && s.lent == 0 {
		f.Calm = -1 // the first flexible container needs what is kept for it, too, and a CPU
	}
	if s.flags&anyFlexible != 0 {
		f.Slack = int32(room - s.need())
	}
}
