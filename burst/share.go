package burst

// A Member is the input of Shares for a group that shares CPUs with other groups.
type Member struct {
	Limit         float64 // limit in CPUs
	Overuse       float64 // use beyond the limit, in CPUs
	NeedsHeadroom bool    // Raise.NeedsHeadroom
}

// reserveShare is the share of the CPUs that must stay idle for new work. These CPUs are the reserve.
const reserveShare = 0.05

// Shares divides the spare time of CPUs among the members that need headroom, in proportion to their limits. cpus is the
// number of CPUs, and idle the number of idle CPUs. The result is in CPUs, by index of the member.
//
// The spare time is the idle time plus the overuse, without the reserve. If less than the reserve is idle, the spare time is a part of the
// present overuse instead. This part grows in proportion to the idle time, from half of the overuse (no CPU is idle) to the whole overuse
// (the reserve is idle).
func Shares(cpus, idle float64, members []Member) []float64 {
	overuse, limitSum := 0.0, 0.0
	for _, m := range members {
		overuse += m.Overuse
		if m.NeedsHeadroom {
			limitSum += m.Limit
		}
	}
	reserved := reserveShare * cpus
	spare := overuse + idle - reserved
	if idle < reserved {
		spare = overuse * (1 + idle/reserved) / 2
	}
	shares := make([]float64, len(members))
	for i, m := range members {
		if m.NeedsHeadroom {
			shares[i] = spare * m.Limit / limitSum
		}
	}
	return shares
}
