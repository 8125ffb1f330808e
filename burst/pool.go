package burst

import (
	"time"

	"github.com/candor-project/candor/cpuset"
)

// A pool is a set of CPUs with its groups and its idle time.
type pool struct {
	at   time.Duration // time of the last reading
	sum  time.Duration // idle time of all its CPUs since the boot, at the last reading
	idle float64       // idle CPUs between the last two readings
}

// share returns the number of CPUs beyond its limit that a member can use of its pool.
func (l *Loop) share(m *member, at time.Duration) float64 {
	p := l.pools[m.CPUs]
	if p == nil {
		p = &pool{}
		l.pools[m.CPUs] = p
	}
	fresh := restPoolAge
	if m.needsRoom {
		fresh = busyPoolAge
	}
	if at-p.at >= fresh {
		l.readIdle(p, m.CPUs, at)
	}
	members := []Member{{m.limit(), m.overuse, true}}
	for _, other := range l.members {
		if other != m && other.CPUs == m.CPUs {
			members = append(members, Member{other.limit(), other.overuse, other.needsRoom})
		}
	}
	return Shares(float64(m.CPUs.Count()), p.idle, members)[0]
}

// limit returns the limit in CPUs.
func (m *member) limit() float64 { return float64(m.Quota) / float64(m.Period) }

// readIdle reads the idle time of the CPUs since the last reading, and the use beyond the limits.
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
	p.idle = 0 // an older reading has no information about the present
	if p.at != 0 && at-p.at <= 2*restPoolAge {
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
