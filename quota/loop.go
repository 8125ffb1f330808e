package quota

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
)

// A Group is a group whose quota a Loop can change.
type Group struct {
	Setting
	Name    string
	LogName slog.Attr  // names the group in the log
	CPUs    cpuset.Set // CPUs of the group; groups with equal CPUs share the idle time of these CPUs
	InForce Limit      // quota in the kernel
	Kernel  Kernel     // nil: the group is the same as before, or cannot be read now
}

// A Kernel reads and writes the files of a group.
type Kernel interface {
	Read() (cgroup.Usage, error)
	Quota() (Limit, error) // returns the quota in the kernel
	SetQuota(Limit) error  // changes the quota, but not the period; the burst is at most the quota
	Freeze(bool) error     // freezes or thaws the processes; called only for a group with Setting.CanFreeze
	IsKilled() bool        // reports whether a frozen process has a pending SIGKILL
	Close()
}

// A Host provides the groups of a Loop. The Loop calls all methods except Lease from a single goroutine.
type Host interface {
	// Changed reports whether the result of Groups has changed since the last call of Groups.
	Changed() bool
	// Groups returns all groups with their present kernel values. The Loop closes the Kernel of each group. For a group that has not
	// changed since the last call, Kernel may be nil, unless the Loop has closed the group's last Kernel.
	Groups() ([]Group, error)
	// Lease records in Candor's state that the quotas of the groups can differ from their limits for the returned time.
	// While a lease lasts, no operation of Candor restores the quotas.
	Lease(ctx context.Context, names []string) (time.Duration, error)
	// Charges returns the CPU time that was charged and credited to a group. The totals never decrease while Groups
	// returns the group.
	Charges(name string) (charged, credited time.Duration)
	// HelperTime returns the CPU time of all helpers so far. ok is false if the time is not known.
	HelperTime() (total time.Duration, ok bool)
	// BookedTime returns the part of the HelperTime that the results of Charges include. Later results of Charges can include
	// more helper time, but in total never more than HelperTime.
	BookedTime() time.Duration
	// Observe receives the state of a group from the Loop after each reading, when the action is done.
	Observe(name string, s *State)
	// Idle returns the idle time of each CPU since the boot, by CPU ID.
	Idle() (map[int]time.Duration, error)
}

// A Loop changes and restores the quotas of a Host's groups.
type Loop struct {
	host           Host
	log            *slog.Logger
	members        map[string]*member   // by name
	pools          map[cpuset.Set]*pool // by CPUs
	isLeasePending bool                 // a call of Host.Lease is running, and will send its result to leases
	leases         chan lease
}

// A lease is the result of a call of Host.Lease.
type lease struct {
	names []string
	end   time.Duration
	err   error
}

const (
	maxSleep       = time.Second            // maximum sleep, after which the Loop checks for new groups
	renewalTime    = 10 * time.Second       // a lease that ends within this time is renewed
	jointTime      = 30 * time.Second       // a renewal includes all leases that end within this time, so that renewals are rare
	leaseMargin    = time.Second            // time before the end of a lease from which the lease counts as ended
	leaseTimeout   = 10 * time.Second       // timeout of Host.Lease
	refusalPause   = time.Minute            // time without changes after a refusal of Host.Lease or of the kernel
	maxBusyPoolAge = 250 * time.Millisecond // maximum age of a pool's reading for a member that needs headroom
	maxPoolAge     = time.Second            // maximum age of a pool's reading for other members
	maxQuotaAge    = time.Second            // maximum age of a quota's reading while the quota can differ from the limit
)

// New returns a Loop for the groups of a Host.
func New(host Host, log *slog.Logger) *Loop {
	return &Loop{host: host, log: log, members: map[string]*member{}, pools: map[cpuset.Set]*pool{}, leases: make(chan lease, 1)}
}

// Run controls the groups until ctx is done, and then restores the quotas.
func (l *Loop) Run(ctx context.Context) error {
	s, err := newSleeper(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	l.refresh()
	for ctx.Err() == nil {
		wake := now() + maxSleep
		if next := l.next(); next != nil {
			wake = min(wake, next.wakeTime)
		}
		s.sleepUntil(wake)
		if l.host.Changed() {
			l.refresh()
		}
		l.receiveLease()
		l.controlDue(ctx)
		l.requestLease(ctx)
	}
	if l.isLeasePending { // wait for Host.Lease, which can be changing Candor's state
		<-l.leases
	}
	if l.host.Changed() { // refresh releases the removed groups, because new containers can have their names
		l.refresh()
	}
	l.releaseAll()
	return nil
}

// controlDue controls the members whose wake time has come. A quiet member (Action.CanWait) waits for at most maxQuietAge, and
// only while the helpers of all groups together have used at most half of the CPU time that the member's limit allows in a
// quietTick. The helpers can use more until the next look at their clocks. Such charges reduce the member's quota, but usually
// do not stop the member.
func (l *Loop) controlDue(ctx context.Context) {
	helperTime := sync.OnceValues(l.host.HelperTime)
	for range len(l.members) {
		next := l.next()
		at := now()
		if next == nil || next.wakeTime > at || ctx.Err() != nil {
			return
		}
		if next.canWait && next.state.last.At+maxQuietAge >= nextMultiple(at, quietTick) {
			if total, ok := helperTime(); ok && total-next.bookedTime <= next.state.Allowance(quietTick)/2 {
				next.wakeTime = nextMultiple(at, quietTick)
				continue
			}
		}
		l.control(next)
		next.bookedTime = l.host.BookedTime()
	}
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

// refresh updates the members from the Host's groups. A member keeps its state while its limit does not change.
func (l *Loop) refresh() {
	groups, err := l.host.Groups()
	if err != nil {
		l.log.Warn("quotas stay at the limits until the state can be read", "error", err)
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

// requestLease starts a call of Host.Lease in the background for all members that need a lease, unless a call is running.
func (l *Loop) requestLease(ctx context.Context) {
	if l.isLeasePending {
		return
	}
	at := now()
	if l.membersLackingLease(at, renewalTime) == nil {
		return
	}
	names := l.membersLackingLease(at, jointTime)
	l.isLeasePending = true
	go func() {
		ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
		defer cancel()
		span, err := l.host.Lease(ctx, names)
		l.leases <- lease{names, at + span, err}
	}()
}

// membersLackingLease returns the names of the members that need a lease and whose present lease ends within the given time (remaining).
func (l *Loop) membersLackingLease(at, remaining time.Duration) (names []string) {
	for _, m := range l.members {
		if m.leaseEnd < at+remaining && at >= m.pausedUntil && (m.isPaying() || m.needsHeadroom && l.share(m, at) > 0) {
			names = append(names, m.Name)
		}
	}
	return names
}

// receiveLease processes the result of requestLease, if the result is available.
func (l *Loop) receiveLease() {
	var result lease
	select {
	case result = <-l.leases:
	default:
		return
	}
	l.isLeasePending = false
	if result.err != nil {
		l.log.Warn("quotas not changed: cannot record the lease in the state", "error", result.err)
	}
	for _, name := range result.names {
		switch m := l.members[name]; {
		case m == nil:
		case result.err == nil:
			m.leaseEnd = result.end
		case m.leaseEnd < now()+renewalTime: // otherwise the present lease lasts, and the Loop asks again later
			m.pausedUntil = now() + refusalPause
		}
	}
}
