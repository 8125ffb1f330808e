package simulate

import "github.com/candor-project/candor/trace"

// A Selection selects the sensitive containers. At most one of its fields is set.
type Selection struct {
	// Share of the containers, drawn by a hash of seed, job and task: the same containers in every replay, and a subset of the containers of
	// a larger share.
	Share float64
	// ByClass selects the containers with a latency-sensitive class in the trace.
	ByClass bool
	// Listed takes those of a list.
	Listed *List
}

// picks reports whether a container is chosen.
func (s *Selection) picks(seed uint64, e *trace.Event, classes []trace.Class) bool {
	switch {
	case s.ByClass:
		return int(e.Class) < len(classes) && classes[e.Class].Sensitive
	case s.Listed != nil:
		return s.Listed.has(e.Job, e.Task)
	}
	return draw(seed, e.Job, e.Task) < s.Share
}

// draw returns a number from 0 to 1, without 1, that belongs to a container.
func draw(seed, job uint64, task uint32) float64 {
	h := mix(mix(mix(seed)^job) ^ uint64(task))
	return float64(h>>11) / (1 << 53)
}

// mix spreads the bits of a number over all of it: the finaliser of SplitMix64 (Steele,
// Lea and Flood, 2014), after a step by the golden ratio.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
