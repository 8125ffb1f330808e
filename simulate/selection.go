package simulate

import "github.com/candor-project/candor/trace"

// A Selection selects the sensitive containers. At most one of its fields is set.
type Selection struct {
	// Share is the share of the containers to select at random, from 0 to 1. A hash of seed, job and task decides, so that every replay
	// selects the same containers, and a larger share also selects all containers of a smaller share.
	Share float64
	// ByClass selects the containers with a latency-sensitive class in the trace.
	ByClass bool
	// Listed selects the containers of a list.
	Listed *List
}

// selects reports whether the selection contains a container.
func (s *Selection) selects(seed uint64, e *trace.Event, classes []trace.Class) bool {
	switch {
	case s.ByClass:
		return int(e.Class) < len(classes) && classes[e.Class].Sensitive
	case s.Listed != nil:
		return s.Listed.contains(e.Job, e.Task)
	}
	return draw(seed, e.Job, e.Task) < s.Share
}

// draw returns a pseudo-random number for a container, from 0 up to, but not including, 1.
func draw(seed, job uint64, task uint32) float64 {
	h := mix(mix(mix(seed)^job) ^ uint64(task))
	return float64(h>>11) / (1 << 53)
}

// mix mixes the bits of a number: a step by the golden ratio, and the finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
