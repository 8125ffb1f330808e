package cgroup

import "time"

// Until bounds how long the tree's methods wait for the kernel and for systemd: not beyond that time,
// whatever limits they have themselves. The zero time is no bound. It returns the bound from before. What is tried is tried once at least.
func (t *Tree) Until(end time.Time) (before time.Time) {
	var nanos int64
	if !end.IsZero() {
		nanos = end.UnixNano()
	}
	if nanos = t.until.Swap(nanos); nanos != 0 {
		before = time.Unix(0, nanos)
	}
	return before
}

// atMost returns what is left of a limit by now; 0 or less: nothing.
func (t *Tree) atMost(limit time.Duration) time.Duration {
	if nanos := t.until.Load(); nanos != 0 {
		limit = min(limit, time.Until(time.Unix(0, nanos)))
	}
	return limit
}
