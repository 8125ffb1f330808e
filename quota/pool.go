package quota

import (
	"time"

	"github.com/candor-project/candor/burst"
	"github.com/candor-project/candor/cpuset"
)

// A pool holds the idle time of a set of CPUs. The members whose CPUs equal this set share the idle time.
type pool struct {
	at   time.Duration // time of the last reading
	sum  time.Duration // sum of the CPUs' idle times since the boot, at the last reading
	idle float64       // average number of idle CPUs between the last two readings; 0 if not known
}

// share returns the member's share of the pool: the number of CPUs that the member can use beyond its limit. It reads the
// pool if the last reading is too old.
func (l *Loop) share(m *member, at time.Duration) float64 {
	p := l.pools[m.CPUs]
	if p == nil {
		p = &pool{}
		l.pools[m.CPUs] = p
	}
	maxAge := maxPoolAge
	if m.needsHeadroom {
		maxAge = maxBusyPoolAge
	}
	if at-p.at >= maxAge {
		l.readIdle(p, m.CPUs, at)
	}
	members := []burst.Member{{Limit: m.limit(), Overuse: m.overuse, NeedsHeadroom: true}}
	for _, other := range l.members {
		if other != m && other.CPUs == m.CPUs {
			members = append(members, burst.Member{Limit: other.limit(), Overuse: other.overuse, NeedsHeadroom: other.needsHeadroom})
		}
	}
	return burst.Shares(float64(m.CPUs.Count()), p.idle, members)[0]
}

// limit returns the member's limit in CPUs.
func (m *member) limit() float64 { return float64(m.Quota) / float64(m.Period) }

// readIdle updates a pool from the CPUs' idle times, and copies the overuse of the pool's members from their states.
func (l *Loop) readIdle(p *pool, cpus cpuset.Set, at time.Duration) {
	times, err := l.host.Idle()
	if err != nil {
		l.log.Warn("quotas not raised: cannot read the load of the CPUs", "error", err)
		p.idle = 0
		return
	}
	var sum time.Duration
	for cpu := range cpus.All() {
		sum += times[cpu]
	}
	p.idle = 0 // if the last reading is too old, the average since then does not describe the present
	if p.at != 0 && at-p.at <= 2*maxPoolAge {
		p.idle = float64(sum-p.sum) / float64(at-p.at)
	}
	p.at, p.sum = at, sum
	for _, m := range l.members {
		if m.CPUs == cpus {
			m.overuse = m.state.Overuse
		}
	}
}

// forgetPools removes pools without members.
func (l *Loop) forgetPools() {
	used := map[cpuset.Set]bool{}
	for _, m := range l.members {
		used[m.CPUs] = true
	}
	for cpus := range l.pools {
		if !used[cpus] {
			delete(l.pools, cpus)
		}
	}
}
