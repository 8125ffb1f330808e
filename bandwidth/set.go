package bandwidth

// Set changes the bandwidth of a group that has a quota, as a write to the group's kernel files does. The group gets
// another quota at once, and each CPU loses its runtime, or the negative runtime that it owes. The period and the phase
// do not change: b must have the group's period.
func (s *Sim) Set(group int, b Bandwidth) {
	g := s.groups[group]
	g.pool.setBandwidth(b)
	g.pool.startTimer(s.now)
	g.placeThreads(s.now)
}

// setBandwidth does the work of the kernel's tg_set_cfs_bandwidth.
func (p *pool) setBandwidth(b Bandwidth) {
	p.Bandwidth = b
	p.replenish()
	for i := range p.cpus {
		c := &p.cpus[i]
		c.remaining = 1
		if c.isThrottled {
			c.isThrottled = false
			p.throttledCPUs--
		}
	}
}
