package simulate

import (
	"math/bits"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/trace"
)

// A meter integrates the fleet's totals over time, exactly: they change only at
// events, so it is enough to add them up, times the time that they held.
type meter struct {
	now                                                            trace.Micros
	began                                                          bool
	start                                                          trace.Micros
	shared, least, sensitive, guaranteed, capacity, used, nodeTime integral
}

// An integral is a sum of 128 bits: a month of a large cell, in milli-CPU and
// microseconds, is more than 64 hold.
type integral struct{ high, low uint64 }

// add adds a value that held for a time; neither is below 0.
func (i *integral) add(value, micros uint64) {
	high, low := bits.Mul64(value, micros)
	var carry uint64
	i.low, carry = bits.Add64(i.low, low, 0)
	i.high, _ = bits.Add64(i.high, high, carry)
}

// per returns the integral divided by a time.
func (i *integral) per(micros trace.Micros) float64 {
	return (float64(i.high)*(1<<64) + float64(i.low)) / float64(micros)
}

// advance advances the meter to a time, with the totals of the fleet since the last time.
func (m *meter) advance(to trace.Micros, t fleet.Totals, b *bound) {
	if !m.began {
		m.began, m.start, m.now = true, to, to
	}
	if to <= m.now {
		return
	}
	span := uint64(to - m.now)
	m.now = to
	m.shared.add(uint64(t.Shared), span)
	m.least.add(uint64(b.least(t)), span)
	m.sensitive.add(uint64(t.Sensitive), span)
	m.guaranteed.add(uint64(t.Guaranteed), span)
	m.capacity.add(uint64(t.Capacity), span)
	m.used.add(uint64(t.Used), span)
	m.nodeTime.add(uint64(t.Nodes), span)
}

// averages are the means over time: milli-CPU, and nodes.
type averages struct{ shared, least, sensitive, guaranteed, capacity, used, nodes float64 }

// averages returns the means so far. A trace without duration, a snapshot, is measured at its end.
func (m *meter) averages(t fleet.Totals, b *bound) averages {
	span := m.now - m.start
	if span == 0 {
		return averages{float64(t.Shared), float64(b.least(t)), float64(t.Sensitive), float64(t.Guaranteed), float64(t.Capacity), float64(t.Used), float64(t.Nodes)}
	}
	return averages{m.shared.per(span), m.least.per(span), m.sensitive.per(span), m.guaranteed.per(span), m.capacity.per(span), m.used.per(span), m.nodeTime.per(span)}
}
