package hybrid

// A Summary describes a node in 64 bytes. It suffices to compute the cost of most containers without
// access to the node. A Summary is a copy, so it is outdated when the node has changed.
//
// The terms of Summary and Figures, on a node with four CPUs under the Candor algorithm:
//
//	  CPU 0        CPU 1        CPU 2        CPU 3
//	+--------+   +--------+   +--------+   +--------+
//	| A 700m |   | B 400m |   | C 300m |   |        |
//	|        |   |        |   | D 500m |   | shared |
//	| room   |   | room   |   | room   |   |  CPU   |
//	|   300m |   |   600m |   |   200m |   |        |
//	+--------+   +--------+   +--------+   +--------+
//	   lone      lone, lent     multi
//	             <------ flexible containers ------->
//
// A to D are fractions of sensitive containers. The terms:
//
//   - A lone CPU is a fractional CPU of a single sensitive grant (0 and 1). Its time is not shared
//     unless the CPU is lent.
//   - A multi CPU is a fractional CPU of several grants (2). Its time, here 800m, is always shared.
//   - The room of a CPU is 1000m minus its sensitive time.
//   - The need is the CPU time that must remain for flexible containers: the larger of the sum of
//     their guarantees and MinShared.
//   - A lent CPU is a lone CPU that flexible containers use (1), because the room of the shared and
//     multi CPUs is less than the need. The least loaded lone CPUs are lent first. The sensitive time
//     on lent CPUs, here 400m, becomes shared: this is the lent time.
//   - The slack is the room on the CPUs of flexible containers, here 600m + 200m + 1000m, minus the
//     need.
//   - A closed CPU belongs to a core of a whole-cores grant; no other container may join it. An open
//     CPU is a fractional CPU that is not closed.
type Summary struct {
	// loads describes the first summaryLoads fractional CPUs. Candor: sensitive time of the lone CPUs, in
	// ascending order. Paper: room of all fractional CPUs, in descending order and then by CPU id, with
	// loneBit set for lone CPUs.
	loads [summaryLoads]uint16

	free       int32 // remaining CPU time for guarantees of flexible containers
	guaranteed int32 // sum of the guarantees of flexible containers
	minShared  int32
	lent       int32 // Candor: lent time
	multiRoom  int32 // Candor: room on the multi CPUs
	loneUsed   int32 // sensitive time on the lone CPUs
	maxStrict  int32 // Candor: upper bound on the limit of another strict sensitive container (maxStrictLimit)

	shared  uint16 // number of shared CPUs
	open    uint16 // Candor: number of open CPUs; Paper: number of fractional CPUs
	lone    uint16 // number of lone CPUs
	maxRoom uint16 // Candor: largest room on a multi CPU

	flags summaryFlags
}

// summaryLoads is the number of fractional CPUs in Summary.loads.
const summaryLoads = 12

// loneBit marks a lone CPU in Summary.loads.
const loneBit = 1 << 15

type summaryFlags uint8

const (
	isPaper       summaryFlags = 1 << iota // Options.Algorithm
	hasFlexible                            // the node has flexible containers
	canRescue                              // Options.RescueMoves permits moves to make room, and the node has open fractional CPUs
	isOpaque                               // only the node can compute costs, because it has several kinds of cores, confined flexible containers or closed CPUs
	isFlatMachine                          // see IsFlat
)

// Summarize writes the summary of the node to s.
func (n *Node) Summarize(s *Summary) {
	*s = Summary{
		free:       int32(n.Free(Flexible)),
		guaranteed: int32(n.flexible.need),
		minShared:  int32(n.options.MinShared),
		shared:     uint16(n.sharedCount),
	}
	if n.flexible.count > 0 {
		s.flags |= hasFlexible
	}
	if n.isFlat() {
		s.flags |= isFlatMachine
	}
	if n.options.Algorithm == Paper {
		s.flags |= isPaper
		n.addRooms(s)
		return
	}
	if n.options.RescueMoves > 0 && n.tally.open > 0 {
		s.flags |= canRescue
	}
	s.maxStrict = int32(n.maxStrictLimit())
	n.addLoads(s)
	if n.isHybrid() || n.hasConfined() || n.tally.open != int32(n.fractional.Count()) {
		s.flags |= isOpaque
		return
	}
	s.lent = int32(n.sharedTime - n.tally.multiUsed)
}

// addLoads adds the fractional CPUs that accept further containers to a summary, with the algorithm Candor.
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
			s.maxRoom = max(s.maxRoom, uint16(c.room()))
		}
	}
}

// addRooms adds the fractional CPUs to a summary, with the algorithm Paper.
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

// insert inserts a value for a fractional CPU into s.loads under Paper, after the values with at least as much room. count is the
// number of fractional CPUs so far. If the list is full, insert drops the last value.
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

// Free returns the value of Node.Free for the class.
func (s *Summary) Free(class Class) Milli {
	if class == Flexible {
		return Milli(s.free)
	}
	return Milli(s.free - max(0, s.minShared-s.guaranteed))
}

// MaxSensitive returns an upper bound on the limit of another strict sensitive container without a
// confining topology policy, for the Candor algorithm.
func (s *Summary) MaxSensitive() Milli { return min(Milli(s.maxStrict), s.Free(Sensitive)) }

// IsFlat reports whether the machine has a single NUMA node, a single L3 domain and one CPU per core. All CPUs of such a
// machine are equivalent.
func (s *Summary) IsFlat() bool { return s.flags&isFlatMachine != 0 }

// HasAllFractional reports whether the summary describes each open fractional CPU.
func (s *Summary) HasAllFractional() bool { return s.open <= summaryLoads }

// SpareCPUs returns the number of shared CPUs that sensitive containers can take without additional lent time. Under
// Paper, this is the number of shared CPUs.
func (s *Summary) SpareCPUs() int {
	if s.flags&hasFlexible == 0 {
		return int(s.shared)
	}
	return s.SpareCPUsWith(0)
}

// SpareCPUsWith returns the value of SpareCPUs after the placement of another flexible container with this guarantee.
func (s *Summary) SpareCPUsWith(guarantee Milli) int {
	switch {
	case s.flags&isPaper != 0:
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

// need returns the CPU time that must remain for flexible containers.
func (s *Summary) need() Milli { return Milli(max(s.guaranteed, s.minShared)) }

// A Verdict is the result of Summary.Quote.
type Verdict uint8

const (
	// Known means that the quote equals the result of Node.Quote. NUMAs, L3s and Splits are valid only on flat machines.
	Known Verdict = iota
	// NotDirect means that the container does not fit without moves. Call Node.Quote to try moves.
	NotDirect
	// Unknown means that the summary is insufficient. Call Node.Quote.
	Unknown
	// Refused means that the node refuses the request.
	Refused
)

// Quote computes the result of Node.Quote from the summary. The Quote is valid only if the Verdict is Known. The request
// must be valid (Request.Check).
func (s *Summary) Quote(r *Request) (Quote, Verdict) {
	switch {
	case s.Free(r.Class) < r.Guaranteed():
		return Quote{}, Refused
	case s.flags&isPaper != 0:
		return s.quotePaper(r)
	case s.flags&isOpaque != 0 || !r.IsPlain():
		return Quote{}, Unknown
	case r.Class == Flexible:
		return s.quoteFlexible(r)
	default:
		return s.quoteSensitive(r)
	}
}

// newQuote builds a quote from the number of whole CPUs, the number of shared CPUs that the container takes, and the added
// shared time.
func (s *Summary) newQuote(r *Request, whole, taken int, shared Milli) (Quote, Verdict) {
	q := Quote{Cost{Shared: shared, Whole: Milli(whole) * 1000, FreeWhole: int(s.shared) - taken}, true}
	if s.flags&isFlatMachine != 0 && r.Class == Sensitive {
		q.NUMAs, q.L3s = 1, 1
	}
	return q, Known
}

// Figures are the values of a node from which package fleet computes bounds on the cost of a container. A
// bound for a group of nodes uses the minimum or maximum of each field. Summary defines the terms.
//
// All times are in milli-CPU. NoLoad means that the node has no such CPU. A field whose comment names an
// algorithm is meaningful only under this algorithm.
type Figures struct {
	Free               [2]int32 // by Class: Summary.Free
	MaxStrictLimit     int32    // Candor: upper bound on the limit of another strict sensitive container
	MaxUnlentGuarantee int32    // largest guarantee of another flexible container that adds no lent time; -1: none, not even 0
	Slack              int32    // Candor: time that can be taken from the CPUs of flexible containers without additional lent time
	SharedCPUs         uint16   // number of shared CPUs
	SpareCPUs          uint16   // Summary.SpareCPUs
	MaxRoom            uint16   // largest room on a fractional CPU
	PaperMaxRoom       uint16   // Paper: equal to MaxRoom; for a group of nodes the minimum, unlike MaxRoom
	PaperMaxTwoRooms   uint16   // Paper: room on the two emptiest fractional CPUs
	MaxSharedRoom      uint16   // largest room on a fractional CPU whose time is shared already (Paper: 0 if the time of the emptiest CPU is not shared)
	MinJoinCost        uint16   // lowest sensitive time of other containers that becomes shared if a fraction joins them on a CPU
	NextLent           uint16   // Candor: sensitive time on the CPU that is lent next
	SecondLent         uint16   // Candor: sensitive time on the CPU that is lent after the CPU of NextLent
	PaperFirstLent     uint16   // Paper: time that becomes shared with the first flexible container; 0 if the node has one already
	TakeCPUCost        uint16   // Candor: lent time that is added if a sensitive container takes a shared CPU
	HasFlexible        bool     // the node has flexible containers
	IsOpaque           bool     // only the node itself can compute costs
}

// NoLoad is above the load of every CPU. It stands for a CPU that the node does not have.
const NoLoad = 1<<16 - 1

// Figures returns the figures of the node.
func (s *Summary) Figures() Figures {
	spare := s.SpareCPUs()
	f := Figures{
		Free:       [2]int32{Sensitive: int32(s.Free(Sensitive)), Flexible: s.free},
		SharedCPUs: s.shared, SpareCPUs: uint16(spare), MinJoinCost: NoLoad, NextLent: NoLoad, SecondLent: NoLoad, TakeCPUCost: s.takeCPUCost(spare),
		HasFlexible: s.flags&hasFlexible != 0, IsOpaque: s.flags&isOpaque != 0,
	}
	if s.flags&isPaper != 0 {
		f.MaxRoom = s.loads[0] &^ loneBit
		f.MaxUnlentGuarantee, f.Slack = s.free, int32(MaxLimit)
		f.PaperMaxRoom, f.PaperMaxTwoRooms = f.MaxRoom, f.MaxRoom+s.loads[1]&^loneBit
		if s.flags&hasFlexible == 0 {
			f.PaperFirstLent = uint16(min(s.loneUsed, NoLoad-1))
		}
		switch {
		case s.open == 0:
		case s.loads[0]&loneBit == 0 || s.flags&hasFlexible != 0:
			f.MaxSharedRoom = f.MaxRoom
		default:
			f.MinJoinCost = 1000 - f.MaxRoom
		}
		return f
	}
	f.MaxStrictLimit = int32(s.MaxSensitive())
	f.MaxSharedRoom, f.MaxRoom = s.maxRoom, s.maxRoom
	s.setLendingFigures(&f)
	f.MinJoinCost = f.NextLent
	if s.lone > 0 {
		f.MaxRoom = max(f.MaxRoom, 1000-s.loads[0])
	}
	if s.lent > 0 { // a fraction may join a lent CPU, whose time is shared already
		f.MaxSharedRoom, f.MinJoinCost = f.MaxRoom, 0
	}
	f.PaperMaxRoom = f.MaxRoom
	return f
}

// nextLentLoads returns the loads of the two CPUs that are lent next, or lower bounds on the loads, and the room on the lent CPUs. known is
// false if the summary has too few loads to identify the lent CPUs.
func (s *Summary) nextLentLoads() (next, second uint16, room Milli, known bool) {
	lent, lone := Milli(s.lent), int(s.lone)
	for i := range lone {
		switch {
		case i == summaryLoads:
			return s.loads[i-1], s.loads[i-1], room, lent <= 0
		case lent <= 0 && i+1 == lone:
			return s.loads[i], NoLoad, room, true
		case lent <= 0:
			return s.loads[i], s.loads[min(i+1, summaryLoads-1)], room, true
		}
		lent -= Milli(s.loads[i])
		room += 1000 - Milli(s.loads[i])
	}
	return NoLoad, NoLoad, room, true
}

// takeCPUCost returns the lent time that is added if a sensitive container takes a shared CPU, or a lower bound; NoLoad if no
// CPU can be taken.
func (s *Summary) takeCPUCost(spare int) uint16 {
	switch {
	case s.shared == 0:
		return NoLoad
	case s.flags&(isPaper|isOpaque) != 0 || spare > 0:
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

// setLendingFigures sets the figures about lent CPUs. If the summary is insufficient, MaxUnlentGuarantee and Slack are upper
// bounds.
func (s *Summary) setLendingFigures(f *Figures) {
	next, second, room, known := s.nextLentLoads()
	f.NextLent, f.SecondLent, f.MaxUnlentGuarantee, f.Slack = next, second, s.free, int32(MaxLimit)
	if s.flags&isOpaque != 0 || !known {
		return
	}
	room += Milli(s.shared)*1000 + Milli(s.multiRoom)
	f.MaxUnlentGuarantee = int32(min(room-Milli(s.guaranteed), Milli(s.free)))
	if room < s.need() || s.shared == 0 && s.open == s.lone && s.lent == 0 {
		f.MaxUnlentGuarantee = -1 // the first flexible container needs room for MinShared, and a CPU
	}
	if s.flags&hasFlexible != 0 {
		f.Slack = int32(room - s.need())
	}
}
