// Package trace represents a cluster's history as a stream of events: machines added, removed and changed, containers submitted and
// ended, in the order of time. Readers convert public traces, snapshots and plain CSV to this stream. A generator creates a trace of any
// size, and a compact file stores a trace for replays. The package reads and writes files; it places no containers and does not know the
// CPUs of a node.
//
// # The stream
//
// Times are microseconds since the trace's start and never decrease. If machines and containers come from two sources, machines are first
// at equal times. Objects from before the start of the trace have time 0 and the flag [AtStart].
//
// A container is an incarnation: from a [Submit] to its [End], if the trace has it. A resubmission after an eviction or a failure is
// another container with the same Job and Task. Event.Container is the number of a slot that the container holds from its Submit to its
// End. Slots are reused, the last released slot first. So a replay stores its containers in a slice whose length is the highest number of
// running containers: 140,000 in a cell of 12,500 machines, not the 48 million of a month. Job and Task identify the container for
// decisions that must be the same in every replay, such as hash(seed, job, task).
//
// A machine keeps its number, Event.Machine, when it returns after a removal. Numbers are dense, in the order of first appearance. A
// removal ends no container in the stream: the replay decides on the containers that it has placed there. An End can follow later for any
// of them.
//
// CPU and memory are in the unit of [Header.Unit], which keeps the source's numbers exact: [Unit.Milli] converts them to milli-CPU.
package trace
