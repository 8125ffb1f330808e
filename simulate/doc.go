// Package simulate replays a trace on a fleet and measures what the containers
// got: the shared time, the refusals, and how long decisions took.
//
//	setting := simulate.Setting{Open: open, CoresOfLargest: 16, Overcommit: 1, Seed: 1}
//	result, err := simulate.Run(ctx, setting, simulate.Point{Sensitive: simulate.Selection{Share: 0.5}})
//
// A [Setting] is what the points of a sweep have in common, a [Point] what they
// differ in: algorithm, policy, scheduler, and which containers are sensitive. [Run]
// does one of them, one event after the other; [Sweep] does many, on all cores. The
// same setting and point give the same [Result], but for its [Timing].
//
// # What is simulated
//
// Every container that the trace submits is placed at once, or dropped: no queue
// is kept. That holds at time 0 too: what ran when the trace began is placed by our scheduler in
// the trace's order, wherever the source had it. When a machine goes, its containers are submitted
// again, in order of their arrival there.
//
// The nodes are those of the package fleet, so what is measured is what the
// allocator does on a node. The package opens files only where it is told to, and
// writes none.
package simulate
