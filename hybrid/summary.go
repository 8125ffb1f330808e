package hybrid

// A Summary is a node in 64 bytes: enough to say what most containers would
// cost there without looking at the node. It is a copy, and ages as the node changes.
type Summary struct {
	// loads tells of the fractional CPUs. Under Candor: the sensitive time on those
	// of one grant, the least first. Under Paper: the room on all of them, the most first and
	// the lowest id of equals; with loneBit on those of one grant.
	loads [summaryLoads]uint16

	free       int32 // time that flexible containers can still be guaranteed
	guaranteed int32 // guarantees of flexible containers
	minShared  int32
	lent       int32 // Candor: sensitive time on CPUs of one grant that flexible containers use
	multiRoom  int32 // Candor: room on the CPUs of several grants
	loneUsed   int32 // sensitive time on the CPUs of one grant
	most       int32 // Candor: no strict sensitive container with a larger limit can have room (mostLimit)

	shared   uint16 // shared CPUs
	open     uint16 // fractional CPUs; under Candor without the closed ones, which nobody may join
	lone     uint16 // those of one grant
	mostRoom uint16 // Candor: the largest room on a CPU of several grants

	flags summaryFlags
}

// summaryLoads is how many fractional CPUs a Summary tells of.
const summaryLoads = 12

// loneBit marks a CPU of one grant.
const loneBit = 1 << 15

type summaryFlags uint8

const (
	byPaper     summaryFlags = 1 << iota // Options.Algorithm
	anyFlexible                          // a flexible container runs
	rescues                              // fractions may move to make room
	opaque                               // flexible containers with a wish, or a core that nobody may join: only the node can tell
	flat                                 // one NUMA node and L3 domain, one CPU a core
)

// Summarize writes a node's summary.
func (n *Node) Summarize(s *Summary) {
	*s = Summary{
		free:       int32(n.Free(Flexible)),
		guaranteed: int32(n.flexible.need),
		minShared:  int32(n.options.MinShared),
		shared:     uint16(n.sharedCount),
	}
	if n.flexible.count > 0 {
		s.flags |= anyFlexible
	}
	if n.isFlat() {
		s.flags |= flat
	}
	if n.options.Algorithm == Paper {
		s.flags |= byPaper
		n.addRooms(s)
		return
	}
	if n.options.RescueMoves > 0 && n.tally.open > 0 {
		s.flags |= rescues
	}
	s.most = int32(n.mostLimit())
	n.addLoads(s)
	if n.anyDomain() || n.tally.open != int32(n.fractional.Count()) {
		s.flags |= opaque
		return
	}
	s.lent = int32(n.sharedTime - n.tally.multiUsed)
}

// addLoads tells of the fractional CPUs under Candor, but for closed ones.
func (n *Node) addLoads(s *Summary) {
	t := &n.tally
	s.open, s.lone = uint16(t.open), uint16(len(t.lone))
	s.multiRoom, s.loneUsed = int32(t.multiRoom), int32(Milli(t.open)*1000-t.room-t.multiUsed)
	for i, used := range t.lone[:min(len(t.lone), summaryLoads)] {
		s.loads[i] = uint16(used)
	}
	if t.multi == 0 {
		return
	}
	for cpu := n.fractional.First(); cpu >= 0; cpu = n.fractional.Next(cpu + 1) {
		if c := &n.load[cpu]; c.sharers > 1 {
			s.mostRoom = max(s.mostRoom, uint16(c.room()))
		}
	}
}

// addRooms tells of them under Paper.
func (n *Node) addRooms(s *Summary) {
	for cpu := n.fractional.First(); cpu >= 0; cpu = n.fractional.Next(cpu + 1) {
		c := &n.load[cpu]
		load := uint16(c.room())
		s.open++
		if c.sharers == 1 {
			load |= loneBit
			s.lone++
			s.loneUsed += int32(c.used())
		}
		s.insert(load, int(s.open))
	}
}

// insert adds the count-th load of Paper behind those with as much room or more; the last falls out where there are too many.
func (s *Summary) insert(load uint16, count int) {
	i := min(count, summaryLoads+1) - 1
	for ; i > 0 && load&^loneBit > s.loads[i-1]&^loneBit; i-- {
		if i < summaryLoads {
			s.loads[i] = s.loads[i-1]
		}
	}
	if i < summaryLoads {
		s.loads[i] = load
	}
}

// Free is that of the node.
func (s *Summary) Free(class Class) Milli {
	if class == Flexible {
		return Milli(s.free)
	}
	return Milli(s.free - max(0, s.minShared-s.guaranteed))
}

// MaxSensitive returns a limit above which no strict sensitive container without a wish that confines it has room, by Candor.
func (s *Summary) MaxSensitive() Milli { return min(Milli(s.most), s.Free(Sensitive)) }

// IsFlat reports whether the machine has one NUMA node and one L3 domain, and a CPU on each
// core: then all CPUs are alike.
func (s *Summary) IsFlat() bool { return s.flags&flat != 0 }

// HasAllFractional reports whether the summary tells of all fractional CPUs that are not closed.
func (s *Summary) HasAllFractional() bool { return s.open <= summaryLoads }

// SpareCPUs returns how many shared CPUs can be taken while flexible containers lend no
// more sensitive time than they do (by Paper all of them).
func (s *Summary) SpareCPUs() int {
	if s.flags&anyFlexible == 0 {
		return int(s.shared)
	}
	return s.SpareCPUsWith(0)
}

// SpareCPUsWith returns what Spare would with one more flexible container, of so great a guarantee.
func (s *Summary) SpareCPUsWith(guarantee Milli) int {
	switch {
	case s.flags&byPaper != 0:
		return int(s.shared)
	case s.lent > 0:
		return 0
	}
	spare := int(s.shared)
	lacking := max(Milli(s.guaranteed)+guarantee, Milli(s.minShared)) - Milli(s.multiRoom)
	if lacking > 0 {
		spare -= lacking.CPUs()
	}
	if s.open == s.lone {
		spare = min(spare, int(s.shared)-1)
	}
	return max(0, spare)
}

// need is the time that must be left where flexible containers run.
func (s *Summary) need() Milli { return Milli(max(s.guaranteed, s.minShared)) }

// Verdict is what a Summary knows of a container's place on its node.
type Verdict uint8

const (
	// Known: the node has room, and the quote is the node's, but for the topology if the machine is not flat.
	Known Verdict = iota
	// NotDirect: the node has no direct room. Ask the node whether it can make some.
	NotDirect
	// Unknown: ask the node.
	Unknown
	// Refused: the node would refuse.
	Refused
)

// Quote returns what the node's Quote would, as far as that is known. The
// request must be right (Check).
func (s *Summary) Quote(r *Request) (Quote, Verdict) {
	switch {
	case s.Free(r.Class) < r.guaranteed():
		return Quote{}, Refused
	case s.flags&byPaper != 0:
		return s.quotePaper(r)
	case s.flags&opaque != 0 || !r.IsPlain():
		return Quote{}, Unknown
	case r.Class == Flexible:
		return s.quoteFlexible(r)
	default:
		return s.quoteSensitive(r)
	}
}

// quoted fills in what follows from how many shared CPUs the container takes.
func (s *Summary) quoted(r *Request, whole, taken int, shared Milli) (Quote, Verdict) {
	q := Quote{Cost{Shared: shared, Whole: Milli(whole) * 1000, FreeWhole: int(s.shared) - taken}, true}
	if s.flags&flat != 0 && r.Class == Sensitive {
		q.NUMAs, q.L3s = 1, 1
	}
	return q, Known
}

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
	spare := s.SpareCPUs()
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
	f.Most = int32(s.MaxSensitive())
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
