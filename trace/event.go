package trace

// Micros is a time since the trace's start, or a span, in microseconds.
type Micros int64

// Spans of time.
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
	MachineAdd    Kind = 1 + iota // a machine is there: Machine, CPU, Memory
	MachineRemove                 // the machine is removed: Machine
	MachineUpdate                 // its capacity changed: Machine, CPU, Memory
	Submit                        // a container to place: all fields except Machine and Reason
	End                           // it ended: Container, Job, Task, Reason
)

var kindWords = [...]string{MachineAdd: "machine-add", MachineRemove: "machine-remove",
	MachineUpdate: "machine-update", Submit: "submit", End: "end"}

func (k Kind) String() string { return wordOf(kindWords[:], int(k)) }

// Reason is the reason of a container's end.
type Reason uint8

// Reasons of an End.
const (
	Finished Reason = iota // by itself
	Evicted                // for another container, or for its machine's sake
	Failed                 // with an error
	Killed                 // by its user, or with a container on which it depends
	Lost                   // the source does not know the reason
)

var reasonWords = [...]string{Finished: "finished", Evicted: "evicted", Failed: "failed", Killed: "killed", Lost: "lost"}

func (r Reason) String() string { return wordOf(reasonWords[:], int(r)) }

// wordOf returns a word of a list, and "unknown" beyond it.
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
	AtStart           Flags = 1 << iota // was there before the trace began
	DifferentMachines                   // Submit: no two tasks of its job on the same machine
	NoRequest                           // Submit: the source has no CPU request, CPU is 0
)

// An Event is an event of the trace. Fields that its Kind does not name are 0.
type Event struct {
	Time      Micros
	Job       uint64 // the source's number, or a hash of its name
	Machine   uint32 // dense, in the order of first appearance; a machine that comes back keeps it
	Container uint32 // slot, dense, used again after the End
	Task      uint32 // within its job
	CPU       int32  // capacity or request, in Header.Unit
	Memory    int32  // capacity or request, in Header.Unit
	Kind      Kind
	Reason    Reason
	Class     uint8 // index in Header.Classes
	Priority  uint8 // higher is more important
	Flags     Flags
}
