package hybrid

// Figures are what bounds on the cost of a container are made of, for many nodes
// together: the most or the least that any of them has. (NoLoad stands for none.)
type Figures struct {
	Free         [2]int32 // by Class: Free; the most
	Most         int32    // limit above which no strict sensitive container has room, Candor; the most
	Ease         int32    // guarantee that one more flexible container can have while all else stays; the most, -1: none
	Shared       uint16   // shared CPUs; the most
	SharedLeast  uint16   // the same; the least
	Spare        uint16   // the most
	SpareLeast   uint16   // the least
	Room         uint16   // largest room on a fractional CPU; the most
	RoomLeast    uint16   // the same; the least
	TwoRooms     uint16   // room on the two emptiest fractional CPUs, by Paper; the most
	SharedRoom   uint16   // largest room on a fractional CPU whose time is shared as it is (by Paper only if it is the emptiest of all); the most
	JoinLeast    uint16   // what others' time becomes shared at least if a fraction joins on another CPU; the least
	NextLent     uint16   // sensitive time on the CPU that would be lent next, Candor; the least
	TakeOne      uint16   // sensitive time that is lent more if a shared CPU is taken, Candor; the least
	WithFlexible bool     // a node has flexible containers
	WithNone     bool     // a node has none
	Opaque       bool     // a node cannot be told without asking it
}

// NoLoad is more than any CPU's load.
const NoLoad = 1<<16 - 1

// Figures returns the figures of one node.
func (s *Summary) Figures() Figures {
	spare := uint16(s.Spare())
	f := Figures{
		Free: [2]int32{Sensitive: int32(s.Free(Sensitive)), Flexible: s.free},
		Ease: s.ease(), Shared: s.shared, SharedLeast: s.shared, Spare: spare, SpareLeast: spare,
		JoinLeast: NoLoad, NextLent: NoLoad, TakeOne: s.takeOne(),
		WithFlexible: s.flags&anyFlexible != 0, WithNone: s.flags&anyFlexible == 0, Opaque: s.flags&opaque != 0,
	}
	if s.flags&byPaper != 0 {
		f.Room = s.loads[0] &^ loneBit
		f.RoomLeast, f.TwoRooms = f.Room, f.Room+s.loads[1]&^loneBit
		switch {
		case s.open == 0:
		case s.loads[0]&loneBit == 0 || s.flags&anyFlexible != 0:
			f.SharedRoom = f.Room
		default:
			f.JoinLeast = 1000 - f.Room
		}
		return f
	}
	f.Most = min(s.most, f.Free[Sensitive])
	f.SharedRoom, f.Room = s.mostRoom, s.mostRoom
	f.NextLent, _, _ = s.nextLent()
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

// nextLent returns the load of the CPU that would be lent next, or less, and the room on
// those that are; known is false if they are too many to tell.
func (s *Summary) nextLent() (next uint16, room Milli, known bool) {
	lent := Milli(s.lent)
	for i := 0; i < int(s.lone); i++ {
		switch {
		case i == summaryLoads:
			return s.loads[i-1], room, lent <= 0
		case lent <= 0:
			return s.loads[i], room, true
		}
		lent -= Milli(s.loads[i])
		room += 1000 - Milli(s.loads[i])
	}
	return NoLoad, room, true
}

// takeOne returns the sensitive time that is lent more if a shared CPU is taken; NoLoad if none
// can be. Where it cannot tell it says less.
func (s *Summary) takeOne() uint16 {
	switch {
	case s.shared == 0:
		return NoLoad
	case s.flags&(byPaper|opaque) != 0 || s.Spare() > 0:
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

// ease returns the guarantee that one more flexible container can have while no more is lent
// and no spare CPU goes; -1 if one cannot be at all. It may say more where it cannot tell.
func (s *Summary) ease() int32 {
	_, lentRoom, known := s.nextLent()
	switch {
	case s.flags&(byPaper|opaque) != 0 || !known:
		return s.free
	case s.SpareWith(0) < s.Spare() || s.shared == 0 && s.open == s.lone && s.lent == 0:
		return -1
	}
	room := Milli(int(s.shared)-s.Spare())*1000 + Milli(s.multiRoom) + lentRoom
	if room < s.need() {
		return -1 // the first flexible container needs what is kept for it, too
	}
	return int32(min(room-Milli(s.guaranteed), Milli(s.free)))
}

// Include makes the figures those of one more node.
func (f *Figures) Include(g *Figures) {
	f.Free[0], f.Free[1] = max(f.Free[0], g.Free[0]), max(f.Free[1], g.Free[1])
	f.Most, f.Ease = max(f.Most, g.Most), max(f.Ease, g.Ease)
	f.Shared, f.SharedLeast = max(f.Shared, g.Shared), min(f.SharedLeast, g.SharedLeast)
	f.Spare, f.SpareLeast = max(f.Spare, g.Spare), min(f.SpareLeast, g.SpareLeast)
	f.Room, f.RoomLeast = max(f.Room, g.Room), min(f.RoomLeast, g.RoomLeast)
	f.TwoRooms = max(f.TwoRooms, g.TwoRooms)
	f.SharedRoom = max(f.SharedRoom, g.SharedRoom)
	f.JoinLeast, f.NextLent, f.TakeOne = min(f.JoinLeast, g.JoinLeast), min(f.NextLent, g.NextLent), min(f.TakeOne, g.TakeOne)
	f.WithFlexible = f.WithFlexible || g.WithFlexible
	f.WithNone = f.WithNone || g.WithNone
	f.Opaque = f.Opaque || g.Opaque
}
