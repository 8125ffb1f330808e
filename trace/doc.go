// Package trace represents a cluster's history as a stream of events, sorted by time: machines are added, removed and changed, and
// containers are submitted and end. Readers convert public traces, snapshots and CSV files to this stream. A generator creates a trace of
// any size, and a compact file stores a trace for replays. The package neither places containers nor models the CPUs of a node.
//
// # The stream
//
// Times are microseconds since the start of the trace, and never decrease. At equal times, events of machines precede events of containers
// if the source has separate files for machines and containers. Objects that existed before the start of the trace have time 0 and the flag
// [AtStart].
//
// A container lasts from a [Submit] to its [End], or to the end of the trace. A task that is resubmitted after an eviction or a failure is
// another container with the same Job and Task. Event.Container is the number of the slot that the container occupies from its Submit to
// its End. Slots are reused, the last released slot first. So a replay can store the containers in a slice whose length is the maximum
// number of simultaneous containers. In a cell (Google's word for a cluster) of 12,500 machines, these are about 140,000 containers,
// although a month has 48 million. Job and Task identify a container for decisions that must be the same in every replay, such as a random
// choice by hash(seed, job, task).
//
// A machine that returns after a removal has the same number, Event.Machine, as before. Numbers are dense, in the order of first
// appearance. The removal of a machine does not end containers in the stream: the replay decides about the containers that it has placed
// there. The Ends of these containers can follow later.
//
// CPU and memory are integers in the unit [Header.Unit], which depends on the source. [Unit.Milli] converts CPU to milli-CPU.
package trace
