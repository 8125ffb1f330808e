package trace

// Micros is a time since the start of the trace, or a duration, in microseconds.
type Micros int64

// Common durations.
const (
	Second Micros = 1_000_000
	Hour          = 3600 * Second
	Day           = 24 * Hour
)

// Seconds returns the time in seconds.
func (t Micros) Seconds() float64 { return float64(t) / float64(Second) }

// Kind is the kind of an event.
type Kind uint8

// The kinds of events. After the colon, each comment lists the fields of Event that the kind sets besides Time, Kind and Flags.
const (
	MachineAdd    Kind = 1 + iota // a machine is added: Machine, CPU, Memory
	MachineRemove                 // the machine is removed: Machine
	MachineUpdate                 // the machine's capacity has changed: Machine, CPU, Memory
	Submit                        // a container must be placed: all fields except Machine and Reason
	End                           // the container has ended: Container, Job, Task, Reason
)

var kindWords = [...]string{MachineAdd: "machine-add", MachineRemove: "machine-remove",
	MachineUpdate: "machine-update", Submit: "submit", End: "end"}

func (k Kind) String() string { return wordOf(kindWords[:], int(k)) }

// Reason is the reason of a container's end.
type Reason uint8

// Reasons of an End.
const (
	Finished Reason = iota // ended without error
	Evicted                // displaced by another container, or ended because its machine was needed or failed
	Failed                 // ended with an error
	Killed                 // ended by its user, or because a container on which it depends has ended
	Lost                   // unknown in the source
)

var reasonWords = [...]string{Finished: "finished", Evicted: "evicted", Failed: "failed", Killed: "killed", Lost: "lost"}

func (r Reason) String() string { return wordOf(reasonWords[:], int(r)) }

// wordOf returns a word of a list, or "unknown" if the list does not have the word.
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
	AtStart           Flags = 1 << iota // the object existed before the trace started
	DifferentMachines                   // of a Submit: no two tasks of the job may be on the same machine
	NoRequest                           // of a Submit: the source has no CPU request, and CPU is 0
)

// An Event is an event of the trace. Fields that are not listed for its Kind are 0.
type Event struct {
	Time      Micros
	Job       uint64 // number of the job in the source, or a hash of the job's name
	Machine   uint32 // number of the machine: dense, in the order of first appearance; the same if a machine returns
	Container uint32 // number of the container's slot: dense, reused after the End
	Task      uint32 // number of the task within its job
	CPU       int32  // capacity or request, in Header.Unit
	Memory    int32  // capacity or request, in Header.Unit
	Kind      Kind
	Reason    Reason
	Class     uint8 // index in Header.Classes
	Priority  uint8 // higher is more important
	Flags     Flags
}
