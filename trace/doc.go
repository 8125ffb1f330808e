// Package trace is one stream of what happened in a cluster: machines added,
// removed and changed, containers submitted and ended, in the order of time.
// Readers turn public traces, snapshots and plain CSV into it, a generator makes
// one of any size, and a compact file keeps one for replays. The package reads
// and writes files; it places nothing and knows nothing of CPUs in a node.
//
// # The stream
//
// Times are microseconds since the trace's start and never fall. Where machines
// and containers come from two sources, machines are first at equal times. What
// was there before the trace began has time 0 and the flag [AtStart].
//
// A container is one incarnation: from a [Submit] to its [End], if the trace has
// one. What is submitted again after an eviction or a failure is another
// container with the same Job and Task. Event.Container is the number of a slot
// that the container holds from its Submit to its End; the slot is used again
// after that, the one freed last first. So a replay keeps its containers in a slice
// as long as the most that ever run at once, 140,000 in a cell of 12,500
// machines, and not the 48 million of a month. Job and Task name the container for
// decisions that must be the same in every replay, such as hash(seed, job, task).
//
// A machine keeps its number, Event.Machine, when it comes back after a removal.
// Numbers are dense, in the order of first appearance. A removal ends no
// container in the stream: whoever replays it decides where those go that he
// had placed there. An End may come later for any of them.
//
// CPU and memory are in the unit of [Header.Unit], which keeps the source's
// numbers exact: [Unit.Milli] turns them into milli-CPU.
package trace
