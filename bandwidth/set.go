package bandwidth

// Set changes the bandwidth of a group that has a quota, as a write to its files does. The group gets a fresh quota
// at once, and the runtime or debt of its CPUs is reset. Period and phase do not change: b must have the group's
// period.
func (s *Sim) Set(group int, b Bandwidth) {
	g := s.groups[group]
	g.pool.set(b)
	g.pool.start(s.now)
	g.settle(s.now)
}

// set does the work of the kernel's tg_set_cfs_bandwidth.
func (p *pool) set(b Bandwidth) {
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
