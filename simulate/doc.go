// Package simulate replays a trace on a fleet and measures the shared time, the refusals, and the decision times.
//
//	setting := simulate.Setting{Open: open, CoresOfLargest: 16, Overcommit: 1, Seed: 1}
//	result, err := simulate.Run(ctx, setting, simulate.Point{Sensitive: simulate.Selection{Share: 0.5}})
//
// A [Setting] selects the trace and its machines. A [Point] selects the algorithm, the policy, the scheduler and the sensitive
// containers of one replay. [Run] replays a point, event by event. [Sweep] replays many points with the same setting, in
// parallel. The same setting and point give the same [Result], except for its [Timing].
//
// # Model
//
// There is no queue: at its submission, a container is placed, or refused and dropped. At time 0, the trace submits the containers that ran
// at its start; the scheduler of the point chooses their nodes, in the trace's order. When a machine is removed, its containers are
// submitted again in the order in which they were placed on the machine.
//
// The nodes are in a fleet.Fleet. It runs the same allocator as a real node, so the simulation measures this allocator. The package opens
// the trace with a function of the caller, and writes no files.
package simulate
