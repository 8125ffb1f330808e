// Package simulate replays a trace on a fleet and measures the shared time, the refusals, and the decision times.
//
//	setting := simulate.Setting{Open: open, CoresOfLargest: 16, Overcommit: 1, Seed: 1}
//	result, err := simulate.Run(ctx, setting, simulate.Point{Sensitive: simulate.Selection{Share: 0.5}})
//
// A [Setting] is common to the points of a sweep. A [Point] selects the algorithm, the policy, the scheduler and the sensitive
// containers. [Run] replays a point, event by event; [Sweep] replays many points on all cores. The same setting and point give the
// same [Result], except for its [Timing].
//
// # Model
//
// Every container of the trace is placed at its submission, or dropped: there is no queue. This holds for time 0 as well: our scheduler
// places the containers that ran at the start of the trace, in the trace's order, on nodes of its own choice. When a machine goes, its
// containers are submitted again in the order of their arrival there.
//
// The nodes are those of package fleet, so the simulation measures the allocator of a real node. The package opens only the files of
// its caller, and writes no files.
package simulate
