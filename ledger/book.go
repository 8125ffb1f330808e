package ledger

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Kind is the kind of work that a helper does for a container.
type Kind string

// Kinds of helper work.
const (
	Log  Kind = "log"  // copies the output of the container to its log
	Shim Kind = "shim" // waits for the container's processes and copies their output to the engine
	Exec Kind = "exec" // copies the output of programs that exec started in the container
	RX   Kind = "rx"   // receives the container's packets in softirqs
	// External is work that another program has measured and reported.
	External Kind = "external"
	// Read is the work for readers of the container's log, such as docker logs --follow. The reader causes this work, not the
	// container, so the work is shown and never charged.
	Read Kind = "read"
)

// Kinds lists the kinds of helper work in the order of their display.
var Kinds = []Kind{Log, Shim, Exec, RX, External, Read}

// IsCharged reports whether the container causes work of this kind.
func (k Kind) IsCharged() bool { return k != Read }

// A Method is the way in which the CPU time of a helper is attributed to containers.
type Method string

// Methods, the most exact first.
const (
	Exact     Method = "exact"     // the helper serves a single container
	BPF       Method = "bpf"       // samples of the daemon's system calls, read by a BPF program
	Registers Method = "registers" // samples of the daemon's registers, read by perf events
	None      Method = "none"      // the total time of the daemon is known, but not the parts of the containers
)

// An Account identifies the work of one kind for one container.
type Account struct {
	Container string // ID of the container
	Kind      Kind
}

// ErrUnknown means that a container is not in the book: it has ended, or never existed.
var ErrUnknown = errors.New("unknown container")

// A Source measures the CPU time of helpers. Read books the CPU time since the previous call. The totals in the book
// never decrease.
type Source interface {
	Read(*Book) error
	Close() error
}

// A Book holds the helper CPU time of containers. The zero value is an empty book. A book is not safe for concurrent use.
type Book struct {
	containers   map[string]map[entry]time.Duration
	credits      map[string]time.Duration // by container
	unattributed map[string]time.Duration // by daemon
	dropped      time.Duration
}

type entry struct {
	kind   Kind
	method Method
}

// Open adds a container to the book. It does nothing if the book has the container.
func (b *Book) Open(id string) {
	if b.containers == nil {
		b.containers = map[string]map[entry]time.Duration{}
	}
	if b.containers[id] == nil {
		b.containers[id] = map[entry]time.Duration{}
	}
}

// End removes a container and its totals from the book.
func (b *Book) End(id string) {
	delete(b.containers, id)
	delete(b.credits, id)
}

// Containers returns the IDs of the containers in the book, sorted.
func (b *Book) Containers() []string { return slices.Sorted(maps.Keys(b.containers)) }

// Charge books helper CPU time to a container. If the book does not have the container, the error is ErrUnknown, and Dropped counts the
// time. A negative time is refused, because totals never decrease.
func (b *Book) Charge(id string, k Kind, m Method, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("cannot charge %v to container %s: must be 0 or more", d, id)
	}
	totals := b.containers[id]
	if totals == nil {
		b.dropped += d
		return fmt.Errorf("cannot charge %v to container %s: %w", d, id, ErrUnknown)
	}
	totals[entry{k, m}] += d
	return nil
}

// Credit books CPU time that the kernel has counted for a container, although other containers caused the work. An example is the
// reception of packets for other containers. The error is ErrUnknown if the book does not have the container. A negative time is
// refused, because totals never decrease.
func (b *Book) Credit(id string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("cannot credit %v to container %s: must be 0 or more", d, id)
	}
	if b.containers[id] == nil {
		return fmt.Errorf("cannot credit %v to container %s: %w", d, id, ErrUnknown)
	}
	if b.credits == nil {
		b.credits = map[string]time.Duration{}
	}
	b.credits[id] += d
	return nil
}

// Credited returns the sum of the credits of a container since Open added the container. The sum is 0 for an unknown
// container.
func (b *Book) Credited(id string) time.Duration { return b.credits[id] }

// AddUnattributed books CPU time of a daemon that no container caused, or whose container is not known.
func (b *Book) AddUnattributed(daemon string, d time.Duration) {
	if b.unattributed == nil {
		b.unattributed = map[string]time.Duration{}
	}
	b.unattributed[daemon] += max(d, 0)
}

// Unattributed returns the CPU time of daemons that is booked to no container, by the daemon's name.
func (b *Book) Unattributed() map[string]time.Duration { return maps.Clone(b.unattributed) }

// Dropped returns the time of charges to unknown containers.
func (b *Book) Dropped() time.Duration { return b.dropped }

// A Total is the CPU time of a kind of helper work for a container, since Open added the container.
type Total struct {
	Kind   Kind          `json:"helper"`
	Method Method        `json:"method"`
	Time   time.Duration `json:"-"`
}

// Totals returns the totals of a container, sorted by the position of the kind in Kinds, and then by the name of the method. The
// result is nil for an unknown container.
func (b *Book) Totals(id string) []Total {
	var all []Total
	for e, d := range b.containers[id] {
		all = append(all, Total{e.kind, e.method, d})
	}
	slices.SortFunc(all, func(x, y Total) int {
		if x.Kind != y.Kind {
			return slices.Index(Kinds, x.Kind) - slices.Index(Kinds, y.Kind)
		}
		return strings.Compare(string(x.Method), string(y.Method))
	})
	return all
}

// Charged returns the helper CPU time that a container has caused: the sum of its totals, without the work for readers of
// its log.
func (b *Book) Charged(id string) (sum time.Duration) {
	for e, d := range b.containers[id] {
		if e.kind.IsCharged() {
			sum += d
		}
	}
	return sum
}
