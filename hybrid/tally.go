package hybrid

// tally holds sums over the open fractional CPUs, so that the shared time of a
// node need not be counted anew for every arrangement that is tried.
type tally struct {
	open      int    // open fractional CPUs
	room      Milli  // time left on them
	multi     int    // those with several sensitive grants
	multiUsed Milli  // sensitive time on those
	multiRoom Milli  // time left on those
	lone      ladder // sensitive time on each of those of one grant
	parts     ladder // every fraction, on closed CPUs too
}

// newTally returns the tally of so many shared CPUs.
func newTally(cpus int) tally {
	rungs := make([]int16, 3*cpus)
	return tally{lone: ladder{rungs: rungs[:0:cpus]}, parts: ladder{rungs: rungs[cpus:cpus], changed: true}}
}

// A ladder is amounts below a CPU, the least first. They are few: on a node of 8 CPUs all fit into a cache line.
type ladder struct {
	rungs   []int16
	total   Milli
	changed bool // since somebody looked
}

func (l *ladder) add(amount Milli) {
	l.total += amount
	l.changed = true
	l.rungs = append(l.rungs, 0)
	i := len(l.rungs) - 1
	for ; i > 0 && Milli(l.rungs[i-1]) > amount; i-- {
		l.rungs[i] = l.rungs[i-1]
	}
	l.rungs[i] = int16(amount)
}

// remove removes an amount that is there.
func (l *ladder) remove(amount Milli) {
	l.total -= amount
	l.changed = true
	last := len(l.rungs) - 1
	held := l.rungs[last]
	for i := last - 1; Milli(held) != amount; i-- {
		held, l.rungs[i] = l.rungs[i], held
	}
	l.rungs = l.rungs[:last]
}

// lend returns the sensitive time on the CPUs that must be lent, the least loaded
// first, to find some time that is lacking, one CPU at least; impossible if they have less.
func (l *ladder) lend(lacking Milli) (lent Milli) {
	for _, used := range l.rungs {
		lent += Milli(used)
		if lacking -= 1000 - Milli(used); lacking <= 0 {
			return lent
		}
	}
	return impossible
}

// add counts a CPU in; remove counts it out.
func (t *tally) add(c *cpuLoad) {
	switch {
	case c.closed:
		return
	case c.sharers == 1:
		t.lone.add(c.used)
	default:
		t.multi++
		t.multiUsed += c.used
		t.multiRoom += 1000 - c.used
	}
	t.open++
	t.room += 1000 - c.used
}

func (t *tally) remove(c *cpuLoad) {
	switch {
	case c.closed:
		return
	case c.sharers == 1:
		t.lone.remove(c.used)
	default:
		t.multi--
		t.multiUsed -= c.used
		t.multiRoom -= 1000 - c.used
	}
	t.open--
	t.room -= 1000 - c.used
}
