package hybrid

// This file computes costs from a summary. It repeats the arithmetic of paper.go and of placeDirectly, without
// CPU ids. Tests compare the results with the nodes' results.

// quotePaper computes Quote under Paper.
func (s *Summary) quotePaper(r *Request) (Quote, Verdict) {
	if r.Class == Flexible {
		switch {
		case s.shared == 0 && s.open == 0:
			return Quote{}, Refused
		case s.flags&hasFlexible == 0:
			return s.newQuote(r, 0, 0, Milli(s.loneUsed))
		default:
			return s.newQuote(r, 0, 0, 0)
		}
	}
	whole, fraction := int(r.Limit/1000), r.Limit%1000
	exclusive := min(whole, int(s.shared))
	rest := Milli(whole-exclusive)*1000 + fraction
	shared, taken, verdict := s.paperRest(r, exclusive, rest)
	lastGone := taken == int(s.shared) && s.open == 0 && rest == 0
	if lastGone && s.flags&hasFlexible != 0 {
		verdict = Refused // because the cpuset of flexible containers must not be empty
	}
	if verdict != Known {
		return Quote{}, verdict
	}
	return s.newQuote(r, exclusive, taken, shared)
}

// paperRest computes the shared time that a container adds with the rest of its CPU time, beyond its exclusive CPUs. taken is
// the number of shared CPUs that the container takes in total.
func (s *Summary) paperRest(r *Request, exclusive int, rest Milli) (shared Milli, taken int, verdict Verdict) {
	maxCPUs := rest.CPUs()
	switch {
	case rest == 0:
		return 0, exclusive, Known
	case rest%1000 == 0:
		maxCPUs = 0
	case rest < 1000 && Milli(s.loads[0]&^loneBit) < rest && int(s.shared) > exclusive:
		if s.flags&hasFlexible != 0 {
			shared = rest
		}
		return shared, exclusive + 1, Known
	}
	shared, verdict = s.fill(maxCPUs, rest)
	if verdict == Refused && r.Policy == BestEffort {
		shared, verdict = s.fill(int(s.open), rest)
	}
	return shared, exclusive, verdict
}

// fill computes the shared time that CHOOSE_PROCS of the paper (Node.chooseProcs) adds.
func (s *Summary) fill(maxCPUs int, amount Milli) (shared Milli, verdict Verdict) {
	for i := range min(maxCPUs, int(s.open)) {
		if i == summaryLoads {
			return 0, Unknown
		}
		room := Milli(s.loads[i] &^ loneBit)
		part := min(amount, room)
		if part == 0 {
			break
		}
		shared += part
		if s.loads[i]&loneBit != 0 && s.flags&hasFlexible == 0 {
			shared += 1000 - room
		}
		if amount -= part; amount == 0 {
			return shared, Known
		}
	}
	return 0, Refused
}

// quoteFlexible computes Quote for a flexible container without a confining topology policy, under Candor. It follows
// admitFlexible.
func (s *Summary) quoteFlexible(r *Request) (Quote, Verdict) {
	a := s.arrangement()
	a.flexible = true
	a.lacking += max(Milli(s.guaranteed)+r.Guaranteed(), Milli(s.minShared)) - s.need()
	lent, verdict := s.lend(&a)
	if verdict != Known {
		return Quote{}, verdict
	}
	return s.newQuote(r, 0, 0, lent-Milli(s.lent))
}

// quoteSensitive computes Quote for a sensitive container without a confining topology policy, under Candor. It follows
// placeDirectly.
func (s *Summary) quoteSensitive(r *Request) (Quote, Verdict) {
	whole, fraction := int(r.Limit/1000), r.Limit%1000
	spare := int(s.shared) - whole
	if spare < 0 {
		return s.quoteIndirect(r)
	}
	a := s.arrangement()
	a.free -= whole
	a.lacking += Milli(whole) * 1000
	if fraction == 0 {
		lent, verdict := s.lend(&a)
		if verdict == Refused {
			return s.quoteIndirect(r)
		}
		q, _ := s.newQuote(r, whole, whole, lent-Milli(s.lent))
		return q, verdict
	}
	alone, aloneVerdict := impossible, Refused
	if spare > 0 {
		alone, aloneVerdict = s.lentAlone(a, fraction)
		if aloneVerdict == Known && alone <= Milli(s.lent) { // no other placement costs less
			return s.newQuote(r, whole, whole+1, alone-Milli(s.lent))
		}
	}
	joint, verdict := s.minSharedJoined(a, fraction)
	switch {
	case aloneVerdict == Unknown || verdict == Unknown:
		return Quote{}, Unknown
	case alone == impossible && joint == impossible:
		return s.quoteIndirect(r)
	case alone < joint:
		return s.newQuote(r, whole, whole+1, alone-Milli(s.lent))
	case alone == joint && !s.IsFlat():
		return Quote{}, Unknown // the node decides by the distance of the CPUs, which the summary does not have
	default:
		return s.newQuote(r, whole, whole, joint-Milli(s.lent))
	}
}

// quoteIndirect returns the verdict for a container that does not fit without moves.
func (s *Summary) quoteIndirect(r *Request) (Quote, Verdict) {
	if r.Policy == Strict && (s.flags&canRescue == 0 || r.Limit > Milli(s.maxStrict)) {
		return Quote{}, Refused
	}
	return Quote{}, NotDirect
}

// An arrangement holds the values of a node from which lend computes the lent time.
type arrangement struct {
	flexible               bool  // the node has flexible containers
	free, multi            int   // numbers of shared CPUs and of multi CPUs
	lacking                Milli // need of the flexible containers beyond the room of the shared and multi CPUs
	addedLoad, removedLoad Milli // loads of a lone CPU that the new container adds, and of a lone CPU that becomes a multi CPU; 0: none
}

// arrangement returns the arrangement of the node without the new container.
func (s *Summary) arrangement() arrangement {
	return arrangement{
		flexible: s.flags&hasFlexible != 0,
		free:     int(s.shared), multi: int(s.open - s.lone),
		lacking: s.need() - Milli(s.shared)*1000 - Milli(s.multiRoom),
	}
}

// lentAlone returns the lent time (Summary) if a fraction has a CPU of its own.
func (s *Summary) lentAlone(a arrangement, fraction Milli) (Milli, Verdict) {
	a.free--
	a.lacking += 1000
	a.addedLoad = fraction
	return s.lend(&a)
}

// minSharedJoined returns the lowest sum of lent and newly shared time if a fraction joins other fractions on a CPU.
func (s *Summary) minSharedJoined(a arrangement, fraction Milli) (Milli, Verdict) {
	if a.flexible && s.lone > summaryLoads {
		return impossible, Unknown
	}
	best := impossible
	if Milli(s.maxRoom) >= fraction {
		b := a
		b.lacking += fraction
		if lent, verdict := s.lend(&b); verdict == Known {
			best = fraction + lent
		}
	}
	for i := range min(s.lone, summaryLoads) {
		used := Milli(s.loads[i])
		if used+fraction > 1000 {
			break
		}
		b := a
		b.multi++
		b.lacking -= 1000 - used - fraction
		b.removedLoad = used
		if lent, verdict := s.lend(&b); verdict == Known {
			best = min(best, used+fraction+lent)
		}
		if !a.flexible {
			break // no time is lent, so the first CPU is the best: it has the lowest load
		}
	}
	if best == impossible {
		return best, Refused
	}
	return best, Known
}

// lend returns the lent time (Summary) of an arrangement. Like Node.sharedIfValid, it lends the least loaded lone CPUs
// first.
func (s *Summary) lend(a *arrangement) (lent Milli, verdict Verdict) {
	lacking, plus, minus := a.lacking, a.addedLoad, a.removedLoad
	if !a.flexible || lacking <= 0 && a.free+a.multi > 0 {
		return 0, Known
	}
	for i := 0; i < int(s.lone) || plus > 0; {
		if i == summaryLoads && int(s.lone) > i {
			return impossible, Unknown
		}
		var used Milli
		if i == int(s.lone) || plus > 0 && plus <= Milli(s.loads[i]) {
			used, plus = plus, 0
		} else {
			used = Milli(s.loads[i])
			i++
			if used == minus {
				minus = 0
				continue
			}
		}
		lent += used
		if lacking -= 1000 - used; lacking <= 0 {
			return lent, Known
		}
	}
	return impossible, Refused
}
