package trace

import (
	"cmp"
	"slices"
)

// loadSums holds the requested CPU and the number of all running containers, and the CPU of all machines, at a moment.
type loadSums struct{ requested, capacity, running int64 }

// maxLoadPoints bounds the number of intervals of a loadLine.
const maxLoadPoints = 512

// A loadLine integrates the loadSums over intervals of equal width. If there are more than maxLoadPoints intervals, it merges
// pairs of intervals.
type loadLine struct {
	width Micros
	last  Micros
	parts []loadPart
}

// A loadPart holds the integrals of the loadSums over the time of an interval. They are floats, because integers of 64 bits would overflow.
type loadPart struct{ requested, capacity, running, time float64 }

// add adds loadSums that are constant between two times.
func (l *loadLine) add(from, to Micros, is loadSums) {
	for int64(to/l.width) >= maxLoadPoints {
		l.halve()
	}
	l.last = to
	for from < to {
		i := int(from / l.width)
		until := min(to, Micros(i+1)*l.width)
		for len(l.parts) <= i {
			l.parts = append(l.parts, loadPart{})
		}
		p, span := &l.parts[i], float64(until-from)
		p.requested += float64(is.requested) * span
		p.capacity += float64(is.capacity) * span
		p.running += float64(is.running) * span
		p.time += span
		from = until
	}
}

// halve merges pairs of intervals.
func (l *loadLine) halve() {
	l.width *= 2
	for i := range l.parts {
		p := l.parts[i]
		if i%2 == 0 {
			l.parts[i/2] = p
			continue
		}
		q := &l.parts[i/2]
		q.requested += p.requested
		q.capacity += p.capacity
		q.running += p.running
		q.time += p.time
	}
	l.parts = l.parts[:(len(l.parts)+1)/2]
}

// points returns the averages of each interval. The second result is the requested CPU divided by the CPU of the machines, over
// the whole time.
func (l *loadLine) points(cores func(float64) float64) ([]LoadPoint, float64) {
	var list []LoadPoint
	var requested, capacity float64
	for i, p := range l.parts {
		end := min(l.last, Micros(i+1)*l.width)
		list = append(list, LoadPoint{end.Seconds(),
			cores(p.requested / p.time), cores(p.capacity / p.time), p.running / p.time})
		requested += p.requested
		capacity += p.capacity
	}
	if capacity == 0 {
		return list, 0
	}
	return list, requested / capacity
}

// finishMix fills in Machines.Mix: for each size of a machine, its share of the machines at the start of the trace, the highest share
// first.
func (s *summarizer) finishMix() {
	for c, n := range s.mix {
		memory := float64(c.memory)
		if s.CoresOfLargest > 0 {
			memory /= One
		}
		s.Machines.Mix = append(s.Machines.Mix, MachineKind{s.cores(float64(c.cpu)), memory, float64(n) / float64(s.Machines.Start)})
	}
	slices.SortFunc(s.Machines.Mix, func(a, b MachineKind) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Cores, b.Cores), cmp.Compare(a.Memory, b.Memory))
	})
}

// perHour returns the quantiles of the arrivals per hour. The quantiles cover complete hours; the mean covers the whole time from the first
// event after the start.
func (s *summarizer) perHour(what int) Quantiles {
	from, to := int64((s.first+Hour-1)/Hour), int64(s.now/Hour)
	c, hours, sum := counter{}, int64(0), int64(0)
	for hour, n := range s.hours[what] {
		sum += n
		if hour >= from && hour < to {
			c[n]++
			hours++
		}
	}
	q := c.quantiles(func(v float64) float64 { return v }, max(to-from-hours, 0))
	q.Mean = 0
	if s.now > s.first {
		q.Mean = float64(sum) / ((s.now - s.first).Seconds() / 3600)
	}
	return q
}

// sum returns the number of all counted values.
func (c counter) sum() (n int64) {
	for _, count := range c {
		n += count
	}
	return n
}
