package burst

import (
	"context"
	"log/slog"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
)

// A Group is one whose quota may be raised.
type Group struct {
	Setting
	Name    string
	CPUs    cpuset.Set // those that it runs on: groups on the same CPUs share what is idle of them
	InForce time.Duration
	Kernel  Kernel // nil: it cannot be read now
}

// A Kernel has what a group has.
type Kernel interface {
	Read() (cgroup.Usage, error)
	Quota() (time.Duration, error) // in force
	SetQuota(time.Duration) error  // the period stays
	Close()
}

// A Host is whose groups they are. Its methods are called by one goroutine, but Lend.
type Host interface {
	// Changed reports whether Groups would return something else than at its last call.
	Changed() bool
	// Groups returns all groups, with what the kernel has now. The loop closes them.
	Groups() ([]Group, error)
	// Lend notes that some groups may have more than their quota, for so long from now on: nobody sets that back.
	Lend(ctx context.Context, names []string) (time.Duration, error)
	// Idle is how long each CPU, by its id, has had nothing to do since the boot.
	Idle() (map[int]time.Duration, error)
}

// A Loop looks after the groups of a host.
type Loop struct {
	host    Host
	log     *slog.Logger
	members map[string]*member
	pools   map[cpuset.Set]*pool
	asked   bool // for a loan; the answer will be in lent
	lent    chan loan
}

// A loan is what Lend has answered.
type loan struct {
	names []string
	until time.Duration
	err   error
}

const (
	longest   = time.Second            // sleep: by then somebody may have begun
	renewal   = 10 * time.Second       // a loan that ends so soon is asked for again
	notice    = time.Second            // so long before its end a loan counts no more
	lendLimit = 10 * time.Second       // how long Lend may take
	shyness   = time.Minute            // how long a group is left alone after a refusal
	busyPool  = 250 * time.Millisecond // how old what is known of a pool may be
	restPool  = time.Second            // the same where nobody wants anything of it
	reread    = time.Second            // how old what is known of a quota may be while it can be raised
)

// New returns a loop for a host's groups.
func New(host Host, log *slog.Logger) *Loop {
	return &Loop{host: host, log: log, members: map[string]*member{}, pools: map[cpuset.Set]*pool{}, lent: make(chan loan, 1)}
}

// Run looks after the groups until ctx is done, and puts back then what it has raised.
func (l *Loop) Run(ctx context.Context) error {
	sleep, err := newSleeper(ctx)
	if err != nil {
		return err
	}
	defer sleep.close()
	l.refresh()
	for ctx.Err() == nil {
		next, wake := l.next(), now()+longest
		if next != nil {
			wake = min(wake, next.wake)
		}
		sleep.until(wake)
		if l.host.Changed() {
			l.refresh()
			next = l.next()
		}
		l.takeLoan()
		if next != nil && next.wake <= now() && ctx.Err() == nil {
			l.look(next)
		}
		l.borrow(ctx)
	}
	if l.asked { // it may be at work in the state
		<-l.lent
	}
	if l.host.Changed() { // what they had may be another one's by now
		l.refresh()
	}
	l.end()
	return nil
}

// next is the member that is to be looked at first.
func (l *Loop) next() (next *member) {
	for _, m := range l.members {
		if next == nil || m.wake < next.wake {
			next = m
		}
	}
	return next
}

// refresh takes the host's groups. Of those that go on as they were all that is known is kept.
func (l *Loop) refresh() {
	groups, err := l.host.Groups()
	if err != nil {
		l.log.Warn("quotas are not raised until the state can be read", "error", err)
		l.end()
		return
	}
	old := l.members
	l.members = make(map[string]*member, len(groups))
	for _, g := range groups {
		m := old[g.Name]
		delete(old, g.Name)
		switch {
		case m == nil && g.Kernel == nil:
			continue
		case m == nil:
			m = &member{wake: now()}
			m.take(g)
		case g.Kernel != nil:
			m.Kernel.Close()
			m.take(g)
		}
		l.members[g.Name] = m
	}
	for _, m := range old {
		l.letGo(m)
	}
	l.forgetPools()
}

// end lets go of all.
func (l *Loop) end() {
	for _, m := range l.members {
		l.letGo(m)
	}
	clear(l.members)
}

// borrow asks for loans, for all that want one at once, while others are looked at.
func (l *Loop) borrow(ctx context.Context) {
	if l.asked {
		return
	}
	var names []string
	at := now()
	for _, m := range l.members {
		if m.wants && m.until < at+renewal && at >= m.shy && l.share(m, at) > 0 {
			names = append(names, m.Name)
		}
	}
	if names == nil {
		return
	}
	l.asked = true
	go func() {
		ctx, cancel := context.WithTimeout(ctx, lendLimit)
		defer cancel()
		span, err := l.host.Lend(ctx, names)
		l.lent <- loan{names, at + span, err}
	}()
}

// takeLoan takes the answer to borrow, if it has come.
func (l *Loop) takeLoan() {
	var got loan
	select {
	case got = <-l.lent:
	default:
		return
	}
	l.asked = false
	if got.err != nil {
		l.log.Warn("quotas not raised: it cannot be noted in the state", "error", got.err)
	}
	for _, name := range got.names {
		switch m := l.members[name]; {
		case m == nil:
		case got.err != nil:
			m.shy = now() + shyness
		default:
			m.until = got.until
		}
	}
}
