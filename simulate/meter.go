package simulate

import (
	"math/bits"

	"github.com/candor-project/candor/fleet"
	"github.com/candor-project/candor/trace"
)

// A meter integrates the fleet's totals over time. The integrals are exact, because the totals change only at events: a meter adds up the
// totals times the durations between events.
type meter struct {
	now                                                                trace.Micros
	hasStarted                                                         bool
	start                                                              trace.Micros
	shared, minShared, sensitive, guaranteed, capacity, used, nodeTime integral
}

// An integral is a sum of 128 bits. For a large cell, a month in microseconds times milli-CPU exceeds 64 bits.
type integral struct{ high, low uint64 }

// add adds a value times the duration for which the value was current.
func (i *integral) add(value, micros uint64) {
	high, low := bits.Mul64(value, micros)
	var carry uint64
	i.low, carry = bits.Add64(i.low, low, 0)
	i.high, _ = bits.Add64(i.high, high, carry)
}

// meanOver returns the mean of the values over the duration.
func (i *integral) meanOver(micros trace.Micros) float64 {
	return (float64(i.high)*(1<<64) + float64(i.low)) / float64(micros)
}

// advance advances the meter to a time. t holds the totals of the fleet, which have not changed since the previous time.
func (m *meter) advance(to trace.Micros, t fleet.Totals, b *cellBound) {
	if !m.hasStarted {
		m.hasStarted, m.start, m.now = true, to, to
	}
	if to <= m.now {
		return
	}
	span := uint64(to - m.now)
	m.now = to
	m.shared.add(uint64(t.Shared), span)
	m.minShared.add(uint64(b.minSharedOf(t)), span)
	m.sensitive.add(uint64(t.Sensitive), span)
	m.guaranteed.add(uint64(t.Guaranteed), span)
	m.capacity.add(uint64(t.Capacity), span)
	m.used.add(uint64(t.Used), span)
	m.nodeTime.add(uint64(t.Nodes), span)
}

// averages holds means over time: CPU times in milli-CPU, and numbers of nodes.
type averages struct{ shared, minShared, sensitive, guaranteed, capacity, used, nodes float64 }

// averages returns the means so far. For a trace without duration, such as a snapshot, it returns the totals at the end of the trace.
func (m *meter) averages(t fleet.Totals, b *cellBound) averages {
	span := m.now - m.start
	if span == 0 {
		return averages{float64(t.Shared), float64(b.minSharedOf(t)), float64(t.Sensitive), float64(t.Guaranteed), float64(t.Capacity), float64(t.Used), float64(t.Nodes)}
	}
	return averages{m.shared.meanOver(span), m.minShared.meanOver(span), m.sensitive.meanOver(span), m.guaranteed.meanOver(span), m.capacity.meanOver(span), m.used.meanOver(span), m.nodeTime.meanOver(span)}
}
