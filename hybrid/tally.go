package hybrid

// tally holds sums over the open fractional CPUs, so that the shared time of a
// node need not be counted anew for every arrangement that is tried.
type tally struct {
	open, multi int32  // open fractional CPUs, and those of them with several sensitive grants
	room        Milli  // time left on the open ones
	multiUsed   Milli  // sensitive time on those of several grants
	multiRoom   Milli  // time left on those
	lone        ladder // sensitive time on each of those of one grant
	parts       ladder // every fraction, on closed CPUs too
	partsUsed   Milli  // their sum

	packBins, packRoom int32 // packable of the parts; bins of -1: they have changed since
}

// newTally returns an empty tally with memory for so many amounts. A third of them is for the loads of CPUs, of
// which there are no more than that; fractions may be more, and take other memory then.
func newTally(rungs []int16) tally {
	third := len(rungs) / 3
	return tally{lone: rungs[:0:third], parts: rungs[third:third], packBins: -1}
}

// A ladder is amounts below a CPU, the least first. They are few: on a node of 8 CPUs all fit into a cache line.
type ladder []int16

func (l *ladder) add(amount Milli) {
	rungs := append(*l, 0)
	i := len(rungs) - 1
	for ; i > 0 && Milli(rungs[i-1]) > amount; i-- {
		rungs[i] = rungs[i-1]
	}
	rungs[i] = int16(amount)
	*l = rungs
}

// remove removes an amount that is there.
func (l *ladder) remove(amount Milli) {
	rungs := *l
	last := len(rungs) - 1
	held := rungs[last]
	for i := last - 1; Milli(held) != amount; i-- {
		held, rungs[i] = rungs[i], held
	}
	*l = rungs[:last]
}

// lend returns the sensitive time on the CPUs that must be lent, the least loaded
// first, to find some time that is lacking, one CPU at least; impossible if they have less.
func (l ladder) lend(lacking Milli) (lent Milli) {
	for _, used := range l {
		lent += Milli(used)
		if lacking -= 1000 - Milli(used); lacking <= 0 {
			return lent
		}
	}
	return impossible
}

// addPart counts a fraction in; removePart counts it out.
func (t *tally) addPart(milli Milli) {
	t.parts.add(milli)
	t.partsUsed += milli
	t.packBins = -1
}

func (t *tally) removePart(milli Milli) {
	t.parts.remove(milli)
	t.partsUsed -= milli
	t.packBins = -1
}

// add counts a CPU in; remove counts it out.
func (t *tally) add(c *cpuLoad) {
	switch {
	case c.closed:
		return
	case c.sharers == 1:
		t.lone.add(c.used())
	default:
		t.multi++
		t.multiUsed += c.used()
		t.multiRoom += 1000 - c.used()
	}
	t.open++
	t.room += 1000 - c.used()
}

func (t *tally) remove(c *cpuLoad) {
	switch {
	case c.closed:
		return
	case c.sharers == 1:
		t.lone.remove(c.used())
	default:
		t.multi--
		t.multiUsed -= c.used()
		t.multiRoom -= 1000 - c.used()
	}
	t.open--
	t.room -= 1000 - c.used()
}
