package burst

import (
	"time"

	"github.com/candor-project/candor/cpuset"
)

// A pool is what is known of the CPUs that some groups run on.
type pool struct {
	at    time.Duration // of the last look
	idle  time.Duration // of all its CPUs, since the boot
	share map[string]float64
}

// share is how many CPUs beyond its limit a member may use of its pool.
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
	return p.share[m.Name]
}

// lookAt divides what was idle of a pool since the last look at it.
func (l *Loop) lookAt(p *pool, cpus cpuset.Set, at time.Duration) {
	idle, err := l.host.Idle()
	if err != nil {
		l.log.Warn("quotas not raised: it is not known how busy the CPUs are", "error", err)
		p.share = nil
		return
	}
	before, began := p.idle, p.at
	p.at, p.idle = at, 0
	for cpu := range cpus.All() {
		p.idle += idle[cpu]
	}
	if began == 0 {
		return
	}
	var names []string
	var members []Member
	for _, m := range l.members {
		if m.CPUs == cpus {
			names = append(names, m.Name)
			members = append(members, Member{float64(m.Quota) / float64(m.Period), m.state.Over, m.wants})
		}
	}
	p.share = make(map[string]float64, len(names))
	for i, share := range Shares(float64(cpus.Count()), float64(p.idle-before)/float64(at-began), members) {
		p.share[names[i]] = share
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
