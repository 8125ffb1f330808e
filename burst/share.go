package burst

// A Member is a group that shares CPUs with other groups.
type Member struct {
	Limit float64 // CPUs
	Over  float64 // CPUs used beyond its limit
	Wants bool    // Decision.Wants
}

// reserve is the share of the CPUs that must stay idle for new work.
const reserve = 0.05

// Shares divides the idle time of CPUs among the groups that want more than their limits, in proportion to their
// limits. The result is in CPUs. Time used beyond the limits counts as idle while the reserve is idle. When the
// reserve is in use, the shares shrink in proportion, down to half at each call.
func Shares(cpus, idle float64, members []Member) []float64 {
	over, limits := 0.0, 0.0
	for _, m := range members {
		over += m.Over
		if m.Wants {
			limits += m.Limit
		}
	}
	kept := reserve * cpus
	spare := over + idle - kept
	if idle < kept {
		spare = over * (1 + idle/kept) / 2
	}
	shares := make([]float64, len(members))
	for i, m := range members {
		if m.Wants {
			shares[i] = spare * m.Limit / limits
		}
	}
	return shares
}
