package burst

// A Member is a group that shares CPUs with other groups.
type Member struct {
	Limit     float64 // CPUs
	Overuse   float64 // CPUs used beyond its limit
	NeedsRoom bool    // Decision.Wants
}

// reserveShare is the share of the CPUs that must stay idle for new work.
const reserveShare = 0.05

// Shares divides the idle time of CPUs among the groups that want more than their limits, in proportion to their
// limits. The result is in CPUs. Time used beyond the limits counts as idle while the reserve is idle. When the
// reserve is in use, the shares shrink in proportion, down to half at each call.
func Shares(cpus, idle float64, members []Member) []float64 {
	overuse, limits := 0.0, 0.0
	for _, m := range members {
		overuse += m.Overuse
		if m.NeedsRoom {
			limits += m.Limit
		}
	}
	reserved := reserveShare * cpus
	spare := overuse + idle - reserved
	if idle < reserved {
		spare = overuse * (1 + idle/reserved) / 2
	}
	shares := make([]float64, len(members))
	for i, m := range members {
		if m.NeedsRoom {
			shares[i] = spare * m.Limit / limits
		}
	}
	return shares
}
