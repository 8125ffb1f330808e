package hybrid

import "math/bits"

// tally holds sums over the open fractional CPUs, so that the shared time of a
// node need not be counted anew for every arrangement that is tried.
type tally struct {
	open      int   // open fractional CPUs
	room      Milli // time left on them
	multi     int   // those with several sensitive grants
	multiUsed Milli // sensitive time on those
	multiRoom Milli // time left on those
	lone      histogram
}

// A histogram counts the open fractional CPUs of one grant each by their sensitive
// time: how much of them must be lent is asked for every arrangement.
type histogram struct {
	count [1000]int16
	some  [16]uint64 // the values of which there are any, as bits
}

func (h *histogram) add(used Milli, sign int16) {
	h.count[used] += sign
	if bit := uint64(1) << (used % 64); h.count[used] > 0 {
		h.some[used/64] |= bit
	} else {
		h.some[used/64] &^= bit
	}
}

// lend returns the sensitive time on the CPUs that must be lent, the least loaded
// first, to find some time that is lacking, one CPU at least; impossible if they have less.
func (h *histogram) lend(lacking Milli) (lent Milli) {
	for word, some := range h.some {
		for ; some != 0; some &= some - 1 {
			used := Milli(word*64 + bits.TrailingZeros64(some))
			each := 1000 - used
			count := min(Milli(h.count[used]), max(1, (lacking+each-1)/each))
			lent += count * used
			if lacking -= count * each; lacking <= 0 {
				return lent
			}
		}
	}
	return impossible
}

// add counts a CPU in (sign 1) or out (sign -1).
func (t *tally) add(c *cpuLoad, sign Milli) {
	if c.closed {
		return
	}
	t.open += int(sign)
	t.room += sign * (1000 - c.used)
	if c.sharers == 1 {
		t.lone.add(c.used, int16(sign))
	}
	if c.sharers > 1 {
		t.multi += int(sign)
		t.multiUsed += sign * c.used
		t.multiRoom += sign * (1000 - c.used)
	}
}
