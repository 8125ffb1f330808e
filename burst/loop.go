package burst

import (
	"context"
	"log/slog"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
)

// A Group is a group whose quota the loop can raise.
type Group struct {
	Setting
	Name    string
	CPUs    cpuset.Set // CPUs of the group; groups with equal CPUs share their idle time
	InForce time.Duration
	Kernel  Kernel // nil: the group cannot be read now
}

// A Kernel reads and writes the files of a group.
type Kernel interface {
	Read() (cgroup.Usage, error)
	Quota() (time.Duration, error) // the quota in force
	SetQuota(time.Duration) error  // does not change the period
	Close()
}

// A Host owns the groups. The loop calls its methods from a single goroutine, except Lend.
type Host interface {
	// Changed reports whether the result of Groups has changed since its last call.
	Changed() bool
	// Groups returns all groups with their present kernel values. The loop closes them.
	Groups() ([]Group, error)
	// Lend records in the state that the groups can exceed their quotas for the returned time. Until then no
	// operation restores the quotas.
	Lend(ctx context.Context, names []string) (time.Duration, error)
	// Idle returns the idle time since the boot of each CPU, by its id.
	Idle() (map[int]time.Duration, error)
}

// A Loop raises and restores the quotas of a host's groups.
type Loop struct {
	host          Host
	log           *slog.Logger
	members       map[string]*member
	pools         map[cpuset.Set]*pool
	isLoanPending bool // a call of Lend is running; its result will be in loans
	loans         chan loan
}

// A loan is the result of Lend.
type loan struct {
	names []string
	end   time.Duration
	err   error
}

const (
	maxSleep     = time.Second            // maximum sleep, to notice new groups
	renewalTime  = 10 * time.Second       // a loan is renewed when it ends within this time
	loanMargin   = time.Second            // a loan stops counting this long before its end
	lendTimeout  = 10 * time.Second       // timeout of Lend
	refusalPause = time.Minute            // time without raises after a refusal
	busyPoolAge  = 250 * time.Millisecond // maximum age of a pool's readings
	restPoolAge  = time.Second            // the same if no group wants a share of the pool
	quotaAge     = time.Second            // maximum age of a quota's reading while it can be raised
)

// New returns a loop for a host's groups.
func New(host Host, log *slog.Logger) *Loop {
	return &Loop{host: host, log: log, members: map[string]*member{}, pools: map[cpuset.Set]*pool{}, loans: make(chan loan, 1)}
}

// Run controls the groups until ctx is done, and then restores the raised quotas.
func (l *Loop) Run(ctx context.Context) error {
	sleep, err := newSleeper(ctx)
	if err != nil {
		return err
	}
	defer sleep.close()
	l.refresh()
	for ctx.Err() == nil {
		next, wake := l.next(), now()+maxSleep
		if next != nil {
			wake = min(wake, next.wakeTime)
		}
		sleep.sleepUntil(wake)
		if l.host.Changed() {
			l.refresh()
			next = l.next()
		}
		l.receiveLoan()
		if next != nil && next.wakeTime <= now() && ctx.Err() == nil {
			l.control(next)
		}
		l.requestLoan(ctx)
	}
	if l.isLoanPending { // it can be changing the state
		<-l.loans
	}
	if l.host.Changed() { // the groups can belong to other containers by now
		l.refresh()
	}
	l.releaseAll()
	return nil
}

// next returns the member with the earliest wake time.
func (l *Loop) next() (next *member) {
	for _, m := range l.members {
		if next == nil || m.wakeTime < next.wakeTime {
			next = m
		}
	}
	return next
}

// refresh updates the members from the host's groups. Members with unchanged limits retain their states.
func (l *Loop) refresh() {
	groups, err := l.host.Groups()
	if err != nil {
		l.log.Warn("quotas are not raised until the state can be read", "error", err)
		l.releaseAll()
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
			m = &member{wakeTime: now()}
			m.update(g)
		case g.Kernel != nil:
			m.Kernel.Close()
			m.update(g)
		}
		l.members[g.Name] = m
	}
	for _, m := range old {
		l.release(m)
	}
	l.forgetPools()
}

// releaseAll releases all members.
func (l *Loop) releaseAll() {
	for _, m := range l.members {
		l.release(m)
	}
	clear(l.members)
}

// requestLoan requests loans for all members that need them, in the background.
func (l *Loop) requestLoan(ctx context.Context) {
	if l.isLoanPending {
		return
	}
	var names []string
	at := now()
	for _, m := range l.members {
		if m.needsRoom && m.loanEnd < at+renewalTime && at >= m.pausedUntil && l.share(m, at) > 0 {
			names = append(names, m.Name)
		}
	}
	if names == nil {
		return
	}
	l.isLoanPending = true
	go func() {
		ctx, cancel := context.WithTimeout(ctx, lendTimeout)
		defer cancel()
		span, err := l.host.Lend(ctx, names)
		l.loans <- loan{names, at + span, err}
	}()
}

// receiveLoan processes the result of borrow, if it is available.
func (l *Loop) receiveLoan() {
	var result loan
	select {
	case result = <-l.loans:
	default:
		return
	}
	l.isLoanPending = false
	if result.err != nil {
		l.log.Warn("quotas not raised: cannot record the loan in the state", "error", result.err)
	}
	for _, name := range result.names {
		switch m := l.members[name]; {
		case m == nil:
		case result.err != nil:
			m.pausedUntil = now() + refusalPause
		default:
			m.loanEnd = result.end
		}
	}
}
