package trace

// Micros is a time since the trace's start, or a duration, in microseconds.
type Micros int64

// Durations.
const (
	Second Micros = 1_000_000
	Hour          = 3600 * Second
	Day           = 24 * Hour
)

// Seconds returns the time in seconds.
func (t Micros) Seconds() float64 { return float64(t) / float64(Second) }

// Kind is the kind of an event.
type Kind uint8

// The kinds of events.
const (
	MachineAdd    Kind = 1 + iota // a machine is added; fields Machine, CPU, Memory
	MachineRemove                 // a machine is removed; field Machine
	MachineUpdate                 // the capacity of a machine changes; fields Machine, CPU, Memory
	Submit                        // a container is submitted; all fields except Machine and Reason
	End                           // a container ends; fields Container, Job, Task, Reason
)

var kindWords = [...]string{MachineAdd: "machine-add", MachineRemove: "machine-remove",
	MachineUpdate: "machine-update", Submit: "submit", End: "end"}

func (k Kind) String() string { return wordOf(kindWords[:], int(k)) }

// Reason is the reason of a container's end.
type Reason uint8

// Reasons of an End.
const (
	Finished Reason = iota // the container ended by itself
	Evicted                // evicted for another container or for maintenance of the machine
	Failed                 // the container ended with an error
	Killed                 // killed by its user, or because a container on which it depends ended
	Lost                   // the source does not know the reason
)

var reasonWords = [...]string{Finished: "finished", Evicted: "evicted", Failed: "failed", Killed: "killed", Lost: "lost"}

func (r Reason) String() string { return wordOf(reasonWords[:], int(r)) }

// wordOf returns words[i], or "unknown" if the list has no such word.
func wordOf(words []string, i int) string {
	if i >= len(words) || words[i] == "" {
		return "unknown"
	}
	return words[i]
}

// Flags of an event.
type Flags uint8

// The flags.
const (
	AtStart           Flags = 1 << iota // the machine or container existed before the trace began
	DifferentMachines                   // Submit: the tasks of the job must run on different machines
	NoRequest                           // Submit: the source has no CPU request; CPU is 0
)

// An Event is an event of the trace. The fields that a Kind does not use are 0.
type Event struct {
	Time      Micros
	Job       uint64 // the source's number of the job, or a hash of the job's name
	Machine   uint32 // number, dense, in the order of first appearance; unchanged when the machine returns
	Container uint32 // slot, dense, reused after the End
	Task      uint32 // number within the job
	CPU       int32  // capacity or request, in Header.Unit
	Memory    int32  // capacity or request, in Header.Unit
	Kind      Kind
	Reason    Reason
	Class     uint8 // index in Header.Classes
	Priority  uint8 // higher is more important
	Flags     Flags
}
