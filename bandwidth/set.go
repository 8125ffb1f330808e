package bandwidth

// Set gives a group that has a quota another bandwidth, as a write to its files does: it has a fresh quota at
// once, and what its CPUs had drawn, or owed, is forgotten. Period and phase stay: the bandwidth's period is the group's.
func (s *Sim) Set(group int, b Bandwidth) {
	g := s.groups[group]
	g.pool.set(b)
	g.pool.start(s.now)
	g.settle(s.now)
}

// set is the kernel's tg_set_cfs_bandwidth.
func (p *pool) set(b Bandwidth) {
	p.Bandwidth = b
	p.replenish()
	for i := range p.cpus {
		c := &p.cpus[i]
		c.remaining = 1
		if c.throttled {
			c.throttled = false
			p.waiting--
		}
	}
}
