package softirq

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/candor-project/candor/ledger"
)

// Daemon is the name under which the book counts the time without an owner.
const Daemon = "softirq"

// EventBudget is the number of packets and softirqs per second above which only a sample of a CPU's softirqs is measured.
const EventBudget = 70_000

// A Container is a container with the identities that the kernel uses for it.
type Container struct {
	ID         string
	Groups     []uint64 // IDs of its cgroup and the cgroups below: inode numbers in the hierarchy of the cpu controller
	Namespaces []uint32 // network namespaces of its processes: inode numbers
}

// Options configure a source.
type Options struct {
	// IsUnified is true if the cpu controller is in the hierarchy of cgroup v2.
	IsUnified bool
	// Host is the inode number of the host's network namespace. Its packets are not charged.
	Host uint32
	// Find lists the running containers, a nested container before the container around it. Read calls Find for an unknown
	// namespace or cgroup, and every 10 seconds.
	Find func() ([]Container, error)

	budget uint64 // 0: EventBudget
}

// A tracer measures the softirqs of this machine.
type tracer interface {
	read() (map[account]uint64, counters, error)
	remove(account) uint64
	Close() error
}

// An account identifies packet time by payer and owner. The fields are those of the BPF program.
type account struct {
	payer    uint64 // ID of the cgroup; 0: the idle task
	owner    uint32 // network namespace
	isCaused bool   // the payer is in a system call on a socket, so it causes the packets
}

// counters are sums over all CPUs since the start. Times are in nanoseconds.
type counters struct {
	unowned  uint64 // time of softirqs without a packet, except the time in the field sent
	sent     uint64 // time of softirqs without a packet that interrupt a system call on a socket
	overflow uint64 // time of accounts for which the map has no space
	packets  uint64
	softirqs uint64 // number of measured softirqs
}

// A Source measures the packets of this machine. It is not safe for concurrent use.
type Source struct {
	tracer   tracer
	options  Options
	isFree   bool // the kernel does not count the time of softirqs as CPU time of a task
	before   map[account]uint64
	counters counters
	places   containers
	opened   map[string]bool // containers in the book
}

var _ ledger.Source = (*Source)(nil)

// Open starts the measurement. The error names the missing right, or the missing feature of the kernel.
func Open(o Options) (*Source, error) {
	if o.budget == 0 {
		o.budget = EventBudget
	}
	t, err := newTracer(o.IsUnified, o.budget)
	if err != nil {
		return nil, err
	}
	isFree, err := accountsInterrupts()
	if err != nil {
		_ = t.Close()
		return nil, fmt.Errorf("cannot find out which task pays for softirqs: %w", err)
	}
	return newSource(t, o, isFree), nil
}

func newSource(t tracer, o Options, isFree bool) *Source {
	return &Source{tracer: t, options: o, isFree: isFree, before: map[account]uint64{}, opened: map[string]bool{}}
}

// Close ends the measurement.
func (s *Source) Close() error { return s.tracer.Close() }

// Read books the CPU time of packets since the previous call. Read adds the running containers to the book, and removes the
// containers that have ended. The book must not be shared with another source, because each source removes the containers that it
// does not know.
func (s *Source) Read(book *ledger.Book) error {
	accounts, c, err := s.tracer.read()
	if err != nil {
		return err
	}
	errs := []error{s.refresh(accounts, time.Now())}
	s.openContainers(book)
	for a, total := range accounts {
		errs = append(errs, s.book(book, a, s.advance(a, total)))
	}
	rest := c.unowned - s.counters.unowned + c.overflow - s.counters.overflow
	if s.isFree {
		rest += c.sent - s.counters.sent // the sender has not paid
	}
	book.AddUnattributed(Daemon, time.Duration(rest))
	s.counters = c
	return errors.Join(errs...)
}

// advance returns the time of an account since the previous call. It removes an account without new time, so that a tenant
// with many namespaces cannot fill the map.
func (s *Source) advance(a account, total uint64) time.Duration {
	used := total - min(s.before[a], total)
	s.before[a] = total
	if used == 0 {
		used = max(s.tracer.remove(a), total) - total
		delete(s.before, a)
	}
	return time.Duration(used)
}

// openContainers adds the running containers to the book, and removes the containers that have ended.
func (s *Source) openContainers(book *ledger.Book) {
	for id := range s.opened {
		if !s.places.ids[id] {
			book.End(id)
			delete(s.opened, id)
		}
	}
	for id := range s.places.ids {
		book.Open(id)
		s.opened[id] = true
	}
}

// book books the time of an account.
func (s *Source) book(book *ledger.Book, a account, used time.Duration) error {
	p := payment{time: used, owners: s.places.owners[a.owner], payer: s.places.payers[a.payer], isCaused: a.isCaused, isFree: s.isFree}
	if len(p.owners) == 0 {
		book.AddUnattributed(Daemon, used)
		return nil
	}
	charges, credit := p.divide()
	var errs []error
	for i, owner := range p.owners {
		if charges[i] > 0 {
			errs = append(errs, book.Charge(owner, ledger.RX, ledger.BPF, charges[i]))
		}
	}
	if credit > 0 {
		errs = append(errs, book.Credit(p.payer, credit))
	}
	return errors.Join(errs...)
}

// containers finds the containers of namespaces and cgroups.
type containers struct {
	ids    map[string]bool
	owners map[uint32][]string // sorted IDs by network namespace
	payers map[uint64]string   // ID by cgroup
	// foreignOwners and foreignPayers are the namespaces and cgroups that belonged to no container when the containers were listed.
	foreignOwners map[uint32]bool
	foreignPayers map[uint64]bool
	listed        time.Time
}

// Times between two lists of the containers.
const (
	listEvery = 10 * time.Second // finds containers that enter a known namespace
	minList   = 2 * time.Second  // unknown namespaces and cgroups cause a new list only after this time
)

// refresh lists the containers again if the list is older than listEvery, or if accounts have unknown namespaces or cgroups.
// After an error, the old list is used.
func (s *Source) refresh(accounts map[account]uint64, now time.Time) error {
	age := now.Sub(s.places.listed)
	if age < minList || age < listEvery && !s.places.misses(accounts) {
		return nil
	}
	found, err := s.options.Find()
	if err != nil {
		s.places.listed = now // after an error, the next calls of Read must not call Find at once
		return fmt.Errorf("cannot list the containers that receive packets: %w", err)
	}
	s.places = newContainers(found, s.options.Host)
	s.places.listed = now
	for a := range accounts {
		if s.places.owners[a.owner] == nil {
			s.places.foreignOwners[a.owner] = true
		}
		if s.places.payers[a.payer] == "" {
			s.places.foreignPayers[a.payer] = true
		}
	}
	return nil
}

func newContainers(found []Container, host uint32) containers {
	c := containers{ids: map[string]bool{}, owners: map[uint32][]string{}, payers: map[uint64]string{},
		foreignOwners: map[uint32]bool{host: true}, foreignPayers: map[uint64]bool{0: true}}
	for _, f := range found {
		c.ids[f.ID] = true
		for _, group := range f.Groups {
			if c.payers[group] == "" {
				c.payers[group] = f.ID
			}
		}
		for _, namespace := range f.Namespaces {
			if namespace != host {
				c.owners[namespace] = append(c.owners[namespace], f.ID)
			}
		}
	}
	for namespace, ids := range c.owners {
		slices.Sort(ids)
		c.owners[namespace] = slices.Compact(ids)
	}
	return c
}

// misses reports whether accounts have a namespace or a cgroup that is not known.
func (c *containers) misses(accounts map[account]uint64) bool {
	for a := range accounts {
		if c.owners[a.owner] == nil && !c.foreignOwners[a.owner] || c.payers[a.payer] == "" && !c.foreignPayers[a.payer] {
			return true
		}
	}
	return false
}
