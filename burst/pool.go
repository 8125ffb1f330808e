package burst

import (
	"time"

	"github.com/candor-project/candor/cpuset"
)

// A pool is what is known of the CPUs that some groups run on.
type pool struct {
	at   time.Duration // of the last look
	sum  time.Duration // for how long they have been idle by then, all together, since the boot
	idle float64       // CPUs that were idle between the last two looks
}

// share is how many CPUs beyond its limit a member may use of its pool, if it wants to.
func (l *Loop) share(m *member, at time.Duration) float64 {
	p := l.pools[m.CPUs]
	if p == nil {
		p = &pool{}
		l.pools[m.CPUs] = p
	}
	fresh := restPool
	if m.wants {
		fresh = busyPool
	}
	if at-p.at >= fresh {
		l.lookAt(p, m.CPUs, at)
	}
	members := []Member{{m.limit(), m.over, true}}
	for _, other := range l.members {
		if other != m && other.CPUs == m.CPUs {
			members = append(members, Member{other.limit(), other.over, other.wants})
		}
	}
	return Shares(float64(m.CPUs.Count()), p.idle, members)[0]
}

// limit is the limit in CPUs.
func (m *member) limit() float64 { return float64(m.Quota) / float64(m.Period) }

// lookAt reads for how long CPUs have been idle since the last look at them, and what was used beyond the limits meanwhile.
func (l *Loop) lookAt(p *pool, cpus cpuset.Set, at time.Duration) {
	times, err := l.host.Idle()
	if err != nil {
		l.log.Warn("quotas not raised: it is not known how busy the CPUs are", "error", err)
		p.idle = 0
		return
	}
	var sum time.Duration
	for cpu := range cpus.All() {
		sum += times[cpu]
	}
	p.idle = 0 // of long ago nothing follows for now
	if p.at != 0 && at-p.at <= 2*restPool {
		p.idle = float64(sum-p.sum) / float64(at-p.at)
	}
	p.at, p.sum = at, sum
	for _, m := range l.members {
		if m.CPUs == cpus {
			m.over = m.state.Over
		}
	}
}

// forgetPools forgets those that nobody runs on.
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
